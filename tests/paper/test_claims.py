"""Every claim can hold and can fail: each is judged on a made-up world of either kind."""

from dataclasses import replace

import numpy as np
import pytest

from ling.reproduction import claims
from ling.reproduction.claims import (
    ALTERNATIVE_CRITERIA,
    CLAIMS,
    DEFAULT_CRITERION,
    JOINT_CLAIMS,
    judge_claims,
    judge_joint_claims,
)
from ling.reproduction.experiments import EXPERIMENTS, Point, Repeat, TheoryCheck
from ling.reproduction.summary import Curve, ExperimentSummary, summarize_repeats

NULL = 1000.0
FAIR = TheoryCheck(
    1.0,
    1.0,
    risk_deviation=0.01,
    ling_solved=1.0,
    gd_bound=0.9,
    gd_rate=0.5,
    ling_bound=0.8,
    ling_rate=0.4,
)


def curve(name: str, points: dict[float, float], seconds_per_flop: float = 1e-9) -> Curve:
    """A curve through {cost: value}; RR costs 100 and has value 1 in every world."""
    flops = np.array(list(points), dtype=float)
    values = np.array(list(points.values()))[:, None] + np.array([-1e-3, 0.0, 1e-3])
    parameters = tuple(range(10, 10 * len(points) + 1, 10))
    return Curve(name, parameters, flops, flops / 10, flops * seconds_per_flop, values)


def world(experiment: str = "model1", data: str = "made up", **curves) -> ExperimentSummary:
    """A world in which every algorithm gets from far off (500) to close (1) at cost 50."""
    usual = {name: {10: 500.0, 50: 1.0} for name in ("PCR", "GD", "SVRG", "LING k=5", "LING k=15")}
    usual["LING+SVRG k=5"] = {10: 500.0, 50: 1.0}
    usual["RR"] = {100: 1.0}
    given = {name.replace("_", " k=").replace("plus", "+SVRG"): c for name, c in curves.items()}
    made = {n: c if isinstance(c, Curve) else curve(n, c) for n, c in (usual | given).items()}
    shape = (2000, 1500)
    return ExperimentSummary(
        EXPERIMENTS[experiment], data, shape, 0.1, NULL, 3, made, [FAIR] * 3, []
    )


def uneven(name: str) -> Curve:
    """A curve whose last repeat came out twice as bad as the others."""
    even = curve(name, {10: 500.0, 50: 1.0})
    return replace(even, values=even.values * np.array([1.0, 1.0, 2.0]))


def with_theory(**changes) -> ExperimentSummary:
    return replace(world(), theory=[replace(FAIR, **changes)] * 3)


LATE = {10: 500.0, 90: 1.0}
NEVER = {10: 500.0, 90: 400.0}
DEAR = {10: 500.0, 150: 1.0}
SOON = {5: 500.0, 20: 1.0}
LINGS_SOON = {"LING_5": SOON, "LING_15": SOON}
MODELS = [world(name) for name in ("model1", "model2", "model3")]

# check: (a world in which the claim holds, one in which it does not)
WORLDS = {
    claims.cheap_and_close: (world(PCR=SOON, **LINGS_SOON), world(PCR=SOON, LING_15=NEVER)),
    claims.svrg_close_but_dearer: (world(SVRG=LATE), world(SVRG=SOON)),
    claims.gd_never_close: (world(GD=NEVER), world(GD=DEAR)),
    claims.svrg_far_better_than_gd: (world(GD=NEVER), world(SVRG=NEVER, GD=NEVER)),
    claims.gd_first: (world(GD=SOON), world(GD=LATE)),
    claims.ling_and_svrg_below_rr: (world(GD=SOON), world(GD=SOON, SVRG=DEAR)),
    claims.pcr_far_off: (world(PCR=NEVER), world()),
    claims.ling_first: (world(**LINGS_SOON), world(LING_5=SOON)),
    claims.svrg_just_behind_ling: (
        world(**LINGS_SOON, SVRG={10: 500.0, 30: 1.0}),
        world(**LINGS_SOON, SVRG=LATE),
    ),
    claims.gd_later: (world(GD=LATE), world(GD=NEVER)),
    claims.paper_error: (
        world("gisette", "Gisette, 5000 training rows", RR={100: 0.02}),
        world("gisette", "Gisette, 5000 training rows", RR={100: 0.04}),
    ),
    claims.svrg_first: (world(SVRG=SOON), world(SVRG=LATE)),
    claims.ling_then_lower: (
        world(SVRG={5: 500.0, 20: 1.0}, LING_5={10: 2.0, 50: 0.9}, LING_15={10: 2.0, 50: 0.9}),
        world(SVRG={5: 500.0, 20: 0.8}),
    ),
    claims.gd_and_pcr_reasonable: (
        world(PCR=LATE, GD=LATE, SVRG=SOON, **LINGS_SOON),
        world(PCR=NEVER, GD=LATE, SVRG=SOON, **LINGS_SOON),
    ),
    claims.svrg_below_rr: (world(), world(SVRG=DEAR)),
    claims.pcr_worst: (world(PCR=NEVER), world(PCR=LATE, GD=NEVER)),
    claims.svrg_and_ling_before_gd: (world(GD=LATE), world(GD=SOON)),
    claims.pcr_falls_then_rises: (
        world(PCR={10: 3.0, 20: 1.0, 30: 1.1}),
        world(PCR={10: 3.0, 20: 1.2, 30: 1.1}),
    ),
    claims.pcr_best_at_50: (
        world(PCR=dict(zip(range(1, 8), (9.0, 8.0, 7.0, 6.0, 1.0, 2.0, 3.0), strict=True))),
        world(PCR=SOON),
    ),
    claims.ridge_as_in_theory: (with_theory(ridge_risk=1.0), with_theory(ridge_risk=1.1)),
    claims.ling_as_in_theory: (with_theory(ling_solved=1.01), with_theory(ling_solved=1.1)),
    claims.ling_as_run_has_the_risk: (with_theory(ling_risk=1.0), with_theory(ling_risk=0.9)),
    claims.gd_rate_holds: (world(), with_theory(gd_rate=0.95)),
    claims.ling_rate_holds: (world(), with_theory(ling_rate=0.85)),
    claims.conjecture: (
        world(LINGplus_5={10: 50.0, 50: 1.0}),
        world(LINGplus_5={10: 900.0, 50: 5.0}),
    ),
    claims.ling_runs_faster: (
        world(LING_5=curve("LING k=5", SOON, 1e-10), LING_15=curve("LING k=15", SOON, 1e-10)),
        world(),
    ),
    claims.ling_robust_to_sketch: (
        world(PCR=uneven("PCR")),
        world(PCR=uneven("PCR"), LING_15=uneven("LING k=15")),
    ),
    claims.ling_well_everywhere: (MODELS, [*MODELS[:2], world("model3", LING_5=DEAR)]),
    claims.others_fail_somewhere: (
        [world("model1", GD=NEVER), world("model2", PCR=DEAR), world("model3", SVRG=DEAR)],
        [world("model1", GD=NEVER), world("model2", PCR=DEAR), world("model3", GD=NEVER)],
    ),
    claims.svrg_and_ling_best: (
        [world("gisette", GD=LATE, PCR=LATE), world("buzz", GD=LATE, PCR=NEVER)],
        [world("gisette", GD=LATE, PCR=LATE), world("buzz", GD=LATE, PCR=SOON)],
    ),
}


CHECKS = {claim.check for claim in [*CLAIMS, *JOINT_CLAIMS]}


@pytest.mark.parametrize("check", CHECKS, ids=lambda c: c.__name__)
def test_every_claim_can_hold_and_can_fail(check):
    holds, fails = WORLDS[check]
    assert check(holds, DEFAULT_CRITERION).verdict is True, check(holds, DEFAULT_CRITERION).measured
    assert check(fails, DEFAULT_CRITERION).verdict is False, check(
        fails, DEFAULT_CRITERION
    ).measured


def test_every_experiment_has_claims_and_they_are_judged_under_all_levels():
    for name in EXPERIMENTS:
        verdicts = judge_claims(world(name))
        assert verdicts
        assert {v.experiment for v in verdicts} == {name}
        assert all(set(v.otherwise) == set(ALTERNATIVE_CRITERIA) for v in verdicts)


def test_claims_of_several_experiments_wait_for_all_of_them():
    assert judge_joint_claims(MODELS[:2]) == []
    assert [v.experiment for v in judge_joint_claims(MODELS)] == ["model1 model2 model3"] * 2
    everything = judge_joint_claims(world(name) for name in EXPERIMENTS)
    assert [v.claim for v in everything] == [claim.text for claim in JOINT_CLAIMS]


def test_other_data_than_the_papers_cannot_tell_its_error():
    found = claims.paper_error(world("gisette", "Gisette, first 1000 columns"), DEFAULT_CRITERION)
    assert found.verdict is None
    assert "first 1000 columns" in found.measured


def test_before_its_first_point_a_curve_predicts_nothing():
    """Otherwise a curve that starts where the other has arrived would look as good."""
    late = world(SVRG={1: 2.0, 2: 1.5}, LINGplus_5={50: 1.5})
    assert claims.conjecture(late, DEFAULT_CRITERION).verdict is False


def test_close_is_within_a_tenth_and_two_wider_meanings():
    found = [
        world().close_threshold(level)
        for level in (DEFAULT_CRITERION, *ALTERNATIVE_CRITERIA.values())
    ]
    assert found == pytest.approx([1.1, 2.0, 1 + 1e-3 * (NULL - 1)])


def test_a_summary_averages_over_repeats_by_parameter():
    points = [
        [Point("RR", 0, r, 7.0, 3.0, 0.1, 2.0 + r), Point("GD", 5, r, 4.0 + r, 1.0, 0.1, 8.0)]
        for r in (0, 1)
    ]
    repeats = [Repeat("made up", (3, 2), 0.1, 9.0, p) for p in points]
    summary = summarize_repeats(EXPERIMENTS["model1"], repeats)
    assert summary.n_repeats == 2
    assert summary.rr.value == pytest.approx([2.5])
    assert summary.rr.deviation == pytest.approx([0.5])
    assert summary.curves["GD"].flops == pytest.approx([4.5])
