"""The sentences of the paper's section 4, each as a function of measured points with a threshold.

"Close to RR" means within a tenth of RR's own value. Every claim is also judged under the two wider
meanings in `ALTERNATIVE_CRITERIA`; the second suits the models, whose risks span six decades.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import numpy as np

from ling._typing import Array
from ling.reproduction.experiments import GD, PCR, RR, SVRG
from ling.reproduction.summary import ClosenessCriterion, Curve, ExperimentSummary

DEFAULT_CRITERION = ClosenessCriterion(rr_fraction=0.1)
ALTERNATIVE_CRITERIA = {
    "within 2 x RR": ClosenessCriterion(rr_fraction=1.0),
    "within 0.1 % of the way to nothing": ClosenessCriterion(null_fraction=1e-3),
}


@dataclass(frozen=True)
class ClaimCheck:
    """What was measured; `holds` is None where these data cannot tell."""

    holds: bool | np.bool_ | None
    measured: str

    @property
    def verdict(self) -> bool | None:
        """`holds` without NumPy's own kind of boolean."""
        return None if self.holds is None else bool(self.holds)


Subject = TypeVar("Subject")


@dataclass(frozen=True)
class Claim(Generic[Subject]):
    """One claim: our words, and the check, whose docstring is the threshold."""

    experiments: tuple[str, ...]
    text: str
    check: Callable[[Subject, ClosenessCriterion], ClaimCheck]

    def judge(self, subject: Subject, experiment: str, data: str) -> Verdict:
        """The verdict under every meaning of "close"."""
        found = self.check(subject, DEFAULT_CRITERION)
        others = {
            name: self.check(subject, level).verdict for name, level in ALTERNATIVE_CRITERIA.items()
        }
        threshold = " ".join((self.check.__doc__ or "").split())
        said = self.text, threshold, found.measured, found.verdict
        return Verdict(experiment, data, *said, others)


@dataclass(frozen=True)
class Verdict:
    """A claim judged; `otherwise` holds the verdicts under the other meanings of "close"."""

    experiment: str
    data: str
    claim: str
    threshold: str
    measured: str
    holds: bool | None
    otherwise: dict[str, bool | None] = field(default_factory=dict)


def judge_claims(summary: ExperimentSummary) -> list[Verdict]:
    """Every claim that the paper makes of this experiment."""
    name = summary.experiment.name
    return [c.judge(summary, name, summary.data) for c in CLAIMS if name in c.experiments]


def judge_joint_claims(summaries: Iterable[ExperimentSummary]) -> list[Verdict]:
    """The claims made of several experiments at once, as far as all of those are there."""
    found = {summary.experiment.name: summary for summary in summaries}
    verdicts = []
    for claim in JOINT_CLAIMS:
        mine = [found[name] for name in claim.experiments if name in found]
        if len(mine) == len(claim.experiments):
            data = "; ".join(summary.data for summary in mine)
            verdicts.append(claim.judge(mine, " ".join(claim.experiments), data))
    return verdicts


def _relative_costs(
    summary: ExperimentSummary, level: ClosenessCriterion, *names: str
) -> tuple[list[float], str]:
    found = [summary.relative_cost(name, level) for name in names]
    said = [
        f"{name.split(' ')[0]} {_format_cost(cost)}"
        for name, cost in zip(names, found, strict=True)
    ]
    goal = summary.close_threshold(level)
    return found, f"cost to come to {goal:.3g}, RR = 1: " + ", ".join(said)


def _format_cost(cost: float) -> str:
    return f"{cost:.3f}" if np.isfinite(cost) else "never"


LING = "LING k="


def cheap_and_close(summary: ExperimentSummary, level: ClosenessCriterion) -> ClaimCheck:
    """PCR and LING come close at less than half of RR's cost."""
    costs, said = _relative_costs(summary, level, PCR, LING)
    return ClaimCheck(max(costs) < 0.5, said)


def svrg_close_but_dearer(summary: ExperimentSummary, level: ClosenessCriterion) -> ClaimCheck:
    """SVRG comes close, at more cost than PCR and than LING."""
    (svrg, *others), said = _relative_costs(summary, level, SVRG, PCR, LING)
    return ClaimCheck(np.isfinite(svrg) and svrg > max(others), said)


def gd_never_close(summary: ExperimentSummary, level: ClosenessCriterion) -> ClaimCheck:
    """GD does not come close within its grid."""
    best, goal = summary.curves[GD].best, summary.close_threshold(level)
    return ClaimCheck(best > goal, f"GD's best {best:.3g}; close is {goal:.3g}")


def svrg_far_better_than_gd(summary: ExperimentSummary, level: ClosenessCriterion) -> ClaimCheck:
    """SVRG's best risk is less than half of GD's best."""
    svrg, gd = summary.curves[SVRG].best, summary.curves[GD].best
    return ClaimCheck(svrg < gd / 2, f"best risk: SVRG {svrg:.3g}, GD {gd:.3g}")


def gd_first(summary: ExperimentSummary, level: ClosenessCriterion) -> ClaimCheck:
    """GD comes close at the lowest cost of all."""
    (gd, *others), said = _relative_costs(summary, level, GD, LING, SVRG, PCR)
    return ClaimCheck(gd < min(others), said)


def ling_and_svrg_below_rr(summary: ExperimentSummary, level: ClosenessCriterion) -> ClaimCheck:
    """LING and SVRG come close for less than RR's cost, but for more than GD's."""
    (gd, *others), said = _relative_costs(summary, level, GD, LING, SVRG)
    return ClaimCheck(gd < min(others) and max(others) < 1, said)


def pcr_far_off(summary: ExperimentSummary, level: ClosenessCriterion) -> ClaimCheck:
    """PCR's value is above ten times RR's at every k."""
    best, rr = summary.curves[PCR].best, summary.rr.best
    return ClaimCheck(best > 10 * rr, f"PCR's best {best:.3g}, RR {rr:.3g}")


def ling_first(summary: ExperimentSummary, level: ClosenessCriterion) -> ClaimCheck:
    """LING comes close at the lowest cost of all."""
    (ling, *others), said = _relative_costs(summary, level, LING, SVRG, GD, PCR)
    return ClaimCheck(ling < min(others), said)


def svrg_just_behind_ling(summary: ExperimentSummary, level: ClosenessCriterion) -> ClaimCheck:
    """SVRG comes close after LING, at no more than twice its cost."""
    (ling, svrg), said = _relative_costs(summary, level, LING, SVRG)
    return ClaimCheck(ling < svrg <= 2 * ling, said)


def gd_later(summary: ExperimentSummary, level: ClosenessCriterion) -> ClaimCheck:
    """GD comes close too, later than LING and SVRG."""
    (gd, *others), said = _relative_costs(summary, level, GD, LING, SVRG)
    return ClaimCheck(np.isfinite(gd) and gd > max(others), said)


def paper_error(summary: ExperimentSummary, level: ClosenessCriterion) -> ClaimCheck:
    """RR's mean error is within 0.005 of the paper's 0.019 (one split's deviation is 0.0043)."""
    error = summary.rr.best
    said = f"RR's error {error:.4f} on: {summary.data}"
    full = summary.data.startswith("Gisette, 5000")
    return ClaimCheck(abs(error - 0.019) <= 0.005 if full else None, said)


def svrg_first(summary: ExperimentSummary, level: ClosenessCriterion) -> ClaimCheck:
    """SVRG comes close at the lowest cost of all."""
    (svrg, *others), said = _relative_costs(summary, level, SVRG, LING, GD, PCR)
    return ClaimCheck(svrg < min(others), said)


def ling_then_lower(summary: ExperimentSummary, level: ClosenessCriterion) -> ClaimCheck:
    """Both LING curves start dearer than SVRG, come close, and at best are not above its best."""
    lings, svrg = summary.curves_starting_with(LING), summary.curves[SVRG]
    later = all(curve.flops.min() > svrg.flops.min() for curve in lings)
    lowest = [curve.best for curve in lings]
    close = summary.relative_cost(LING, level)
    said = f"best: LING {', '.join(f'{b:.4f}' for b in lowest)}, SVRG {svrg.best:.4f}"
    return ClaimCheck(later and np.isfinite(close) and max(lowest) <= svrg.best, said)


def gd_and_pcr_reasonable(summary: ExperimentSummary, level: ClosenessCriterion) -> ClaimCheck:
    """GD and PCR come within twice RR's value for less than RR's cost, after SVRG and LING."""
    (gd, pcr, *better), said = _relative_costs(
        summary, ClosenessCriterion(rr_fraction=1.0), GD, PCR, SVRG, LING
    )
    return ClaimCheck(max(gd, pcr) < 1 and min(gd, pcr) > max(better), said)


def svrg_below_rr(summary: ExperimentSummary, level: ClosenessCriterion) -> ClaimCheck:
    """SVRG comes close for less than RR's cost."""
    (svrg,), said = _relative_costs(summary, level, SVRG)
    return ClaimCheck(svrg < 1, said)


def pcr_worst(summary: ExperimentSummary, level: ClosenessCriterion) -> ClaimCheck:
    """PCR comes close last, or never, and no other algorithm has a higher best value."""
    (pcr, *others), said = _relative_costs(summary, level, PCR, LING, SVRG, GD)
    best = {name: curve.best for name, curve in summary.curves.items() if name != RR}
    worst = max(best, key=lambda name: best[name])
    said += f"; best values {', '.join(f'{n} {b:.4f}' for n, b in best.items() if '+' not in n)}"
    return ClaimCheck(pcr > max(others) and worst == PCR, said)


def svrg_and_ling_before_gd(summary: ExperimentSummary, level: ClosenessCriterion) -> ClaimCheck:
    """SVRG and both LING curves come close for less than RR's and than GD's cost."""
    (gd, *others), said = _relative_costs(summary, level, GD, LING, SVRG)
    return ClaimCheck(max(others) < min(1.0, gd), said)


def pcr_falls_then_rises(summary: ExperimentSummary, level: ClosenessCriterion) -> ClaimCheck:
    """PCR's best k is inside its grid, and the last k is at least 1 % worse."""
    curve = summary.curves[PCR]
    at = int(curve.value.argmin())
    inside = 0 < at < len(curve.value) - 1
    said = f"best at k = {curve.parameters[at]} ({curve.best:.4g}), last {curve.value[-1]:.4g}"
    return ClaimCheck(inside and curve.value[-1] > 1.01 * curve.best, said)


def pcr_best_at_50(summary: ExperimentSummary, level: ClosenessCriterion) -> ClaimCheck:
    """The k with PCR's smallest error is 50."""
    curve = summary.curves[PCR]
    best = curve.parameters[int(curve.value.argmin())]
    return ClaimCheck(best == 50, f"best at k = {best}")


def ridge_as_in_theory(summary: ExperimentSummary, level: ClosenessCriterion) -> ClaimCheck:
    """The mean difference between RR's risk and its closed form is within 3 sigma of 0."""
    return _risk_as_in_theory(
        summary, summary.rr.values[-1], [t.ridge_risk for t in summary.theory]
    )


def ling_as_in_theory(summary: ExperimentSummary, level: ClosenessCriterion) -> ClaimCheck:
    """The same for LING with exact U1 and stage 2 solved to the end, as Theorem 2 assumes."""
    measured = np.array([t.ling_solved for t in summary.theory])
    return _risk_as_in_theory(summary, measured, [t.ling_risk for t in summary.theory])


def ling_as_run_has_the_risk(summary: ExperimentSummary, level: ClosenessCriterion) -> ClaimCheck:
    """The same for LING as the experiments run it: approximate U1, the last n2 of its grid."""
    measured = summary.curves_starting_with(LING)[0].values[-1]
    return _risk_as_in_theory(summary, measured, [t.ling_risk for t in summary.theory])


def _risk_as_in_theory(
    summary: ExperimentSummary, measured: Array, expected: list[float]
) -> ClaimCheck:
    miss = float(np.mean(measured - np.array(expected)))
    # The theory knows how far one draw of the noise strays, however few the repeats.
    error = float(np.sqrt(np.mean([t.risk_deviation**2 for t in summary.theory]) / len(expected)))
    said = f"measured {measured.mean():.4g}, closed form {np.mean(expected):.4g}"
    return ClaimCheck(abs(miss) <= 3 * error, f"{said}, difference {miss:.2g} +- {error:.1g}")


def gd_rate_holds(summary: ExperimentSummary, level: ClosenessCriterion) -> ClaimCheck:
    """No step of GD leaves more of the gap than equation (3) allows, in any repeat."""
    return _rate_holds([(t.gd_rate, t.gd_bound) for t in summary.theory])


def ling_rate_holds(summary: ExperimentSummary, level: ClosenessCriterion) -> ClaimCheck:
    """No step of LING's stage 2, with exact U1, leaves more of the gap than equation (4) allows."""
    return _rate_holds([(t.ling_rate, t.ling_bound) for t in summary.theory])


def _rate_holds(pairs: list[tuple[float, float]]) -> ClaimCheck:
    rate, bound = max(pairs, key=lambda pair: pair[0] / pair[1])
    # Gaps are kept while they are above 1e-8 of the objective, so they are good to about 1e-6.
    holds = all(rate <= bound * (1 + 1e-6) for rate, bound in pairs)
    said = f"least share removed by a step {1 - rate:.3g}, promised {1 - bound:.3g}"
    return ClaimCheck(holds, said)


def conjecture(summary: ExperimentSummary, level: ClosenessCriterion) -> ClaimCheck:
    """At equal FLOPs LING+SVRG's excess over RR is below SVRG's, in the geometric mean.

    Over all costs at which either has a point; before its first point a curve predicts nothing.
    """
    ratios: list[float] = []
    for curve in summary.curves_starting_with("LING+SVRG"):
        plain = summary.curves[SVRG]
        costs = np.union1d(curve.flops, plain.flops)
        ratios.extend(_excess(summary, curve, costs) / _excess(summary, plain, costs))
    ratio = float(np.exp(np.mean(np.log(ratios))))
    return ClaimCheck(ratio < 1, f"excess over RR, LING+SVRG / SVRG at equal FLOPs: {ratio:.2g}")


def _excess(summary: ExperimentSummary, curve: Curve, costs: Array) -> Array:
    """How far the best point that each of `costs` can pay for is above RR; at least 0.1 % of RR."""
    rr = summary.rr.best
    best = np.minimum.accumulate(curve.value)
    found = np.concatenate([[summary.null], best])[np.searchsorted(curve.flops, costs, "right")]
    return np.maximum(found - rr, 1e-3 * rr)


def ling_runs_faster(summary: ExperimentSummary, level: ClosenessCriterion) -> ClaimCheck:
    """LING does at least twice as many FLOPs a second as (compiled) SVRG."""
    rates = [
        float(
            np.median(
                np.concatenate([c.flops / c.seconds for c in summary.curves_starting_with(name)])
            )
        )
        for name in (LING, SVRG)
    ]
    said = f"GFLOP/s: LING {rates[0] / 1e9:.1f}, SVRG {rates[1] / 1e9:.1f}"
    return ClaimCheck(rates[0] >= 2 * rates[1], said)


def ling_robust_to_sketch(summary: ExperimentSummary, level: ClosenessCriterion) -> ClaimCheck:
    """PCR's worst repeat is over 1.5 times its median at some k; LING's, at its last n2, is not."""
    pcr = max(_worst_over_median(values) for values in summary.curves[PCR].values)
    ling = max(_worst_over_median(curve.values[-1]) for curve in summary.curves_starting_with(LING))
    return ClaimCheck(ling <= 1.5 < pcr, f"worst repeat / median: PCR {pcr:.2f}, LING {ling:.2f}")


def _worst_over_median(values: Array) -> float:
    return float(values.max() / np.median(values))


def ling_well_everywhere(
    summaries: list[ExperimentSummary], level: ClosenessCriterion
) -> ClaimCheck:
    """LING comes close for less than RR's cost on every one of them."""
    costs, said = _costs_by_experiment(summaries, level, LING)
    return ClaimCheck(max(costs) < 1, said)


def others_fail_somewhere(
    summaries: list[ExperimentSummary], level: ClosenessCriterion
) -> ClaimCheck:
    """Each of GD, SVRG and PCR fails to come close for less than RR's cost on at least one."""
    each = [_costs_by_experiment(summaries, level, name) for name in (GD, SVRG, PCR)]
    return ClaimCheck(
        min(max(costs) for costs, _ in each) >= 1, "; ".join(said for _, said in each)
    )


def svrg_and_ling_best(summaries: list[ExperimentSummary], level: ClosenessCriterion) -> ClaimCheck:
    """On each, SVRG and both LING curves come close for less than GD's and than PCR's cost."""
    each = {name: _costs_by_experiment(summaries, level, name) for name in (SVRG, LING, GD, PCR)}
    costs = {name: found for name, (found, _) in each.items()}
    best = zip(*(costs[name] for name in (SVRG, LING)), strict=True)
    rest = zip(*(costs[name] for name in (GD, PCR)), strict=True)
    holds = all(max(b) < min(r) for b, r in zip(best, rest, strict=True))
    return ClaimCheck(holds, "; ".join(said for _, said in each.values()))


def _costs_by_experiment(
    summaries: list[ExperimentSummary], level: ClosenessCriterion, name: str
) -> tuple[list[float], str]:
    costs = [summary.relative_cost(name, level) for summary in summaries]
    said = ", ".join(
        f"{s.experiment.name} {_format_cost(c)}" for s, c in zip(summaries, costs, strict=True)
    )
    return costs, f"cost of {name.split(' ')[0]} to come close, RR = 1: {said}"


MODEL1, MODEL2, MODEL3, BUZZ = ("model1",), ("model2",), ("model3",), ("buzz",)
SIMULATED = MODEL1 + MODEL2 + MODEL3
GISETTES = ("gisette", "gisette-surrogate")
ALL_EXPERIMENTS = SIMULATED + GISETTES + BUZZ

CLAIMS: list[Claim[ExperimentSummary]] = [
    Claim(MODEL1, "PCR and LING get near RR's risk for a fraction of its cost.", cheap_and_close),
    Claim(MODEL1, "SVRG gets near it too, but costs more than both.", svrg_close_but_dearer),
    Claim(MODEL1, "GD is slow and does not get there.", gd_never_close),
    Claim(MODEL1, "SVRG is much better than GD.", svrg_far_better_than_gd),
    Claim(MODEL2, "GD gets to RR's risk at the lowest cost.", gd_first),
    Claim(MODEL2, "LING and SVRG follow, still below RR's cost.", ling_and_svrg_below_rr),
    Claim(MODEL2, "PCR has a huge risk, however many components.", pcr_far_off),
    Claim(MODEL3, "LING is first to RR's risk.", ling_first),
    Claim(MODEL3, "SVRG is slightly behind LING.", svrg_just_behind_ling),
    Claim(MODEL3, "SVRG gets there for less than RR's cost.", svrg_below_rr),
    Claim(MODEL3, "GD gets there later.", gd_later),
    Claim(MODEL3, "PCR is completely off, however many components.", pcr_far_off),
    Claim(GISETTES, "RR's classification error is 0.019.", paper_error),
    Claim(GISETTES, "SVRG is the fastest to a small error.", svrg_first),
    Claim(GISETTES, "Both LING curves start later and end at a lower error.", ling_then_lower),
    Claim(GISETTES, "GD gets to RR's error later than both.", gd_later),
    Claim(GISETTES + BUZZ, "GD and PCR do reasonably, but less well.", gd_and_pcr_reasonable),
    Claim(GISETTES, "PCR is worst in error and in cost.", pcr_worst),
    Claim(BUZZ, "SVRG and both LING curves get to RR's MSE fast.", svrg_and_ling_before_gd),
    Claim(BUZZ, "GD is slower than both.", gd_later),
    Claim(BUZZ, "PCR's MSE first falls with k, then rises.", pcr_falls_then_rises),
    Claim(BUZZ, "PCR is best at 50 components.", pcr_best_at_50),
    Claim(SIMULATED, "RR has the risk that theory gives.", ridge_as_in_theory),
    Claim(SIMULATED, "LING has the same risk (Theorem 2).", ling_as_in_theory),
    Claim(SIMULATED, "So has LING as it is run here.", ling_as_run_has_the_risk),
    Claim(SIMULATED, "GD converges at least at the rate of equation (3).", gd_rate_holds),
    Claim(SIMULATED, "LING's stage 2 converges at least at the rate of (4).", ling_rate_holds),
    Claim(ALL_EXPERIMENTS, "Conjecture: LING's first stage speeds up SVRG.", conjecture),
    Claim(ALL_EXPERIMENTS, "LING runs much faster than SVRG at equal FLOPs.", ling_runs_faster),
    Claim(
        ALL_EXPERIMENTS,
        "A bad draw of the random subspace hurts PCR; LING makes up for it.",
        ling_robust_to_sketch,
    ),
]

REAL_DATA = ("gisette", "buzz")

JOINT_CLAIMS: list[Claim[list[ExperimentSummary]]] = [
    Claim(SIMULATED, "LING does well on all three models.", ling_well_everywhere),
    Claim(SIMULATED, "GD, SVRG and PCR each fail on some model.", others_fail_somewhere),
    Claim(REAL_DATA, "On the real data SVRG and LING are the best.", svrg_and_ling_best),
]
