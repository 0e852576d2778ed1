"""Every judged sentence of the paper, word for word, with its place and its check."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from ling.reproduction import cost_checks as cost
from ling.reproduction import theory_checks as theory
from ling.reproduction.claims import (
    Claim,
    JointCheck,
    each_fails_somewhere,
    everywhere,
    somewhere,
    wherever_judged,
)
from ling.reproduction.experiments import GD, LING, PCR, SVRG
from ling.reproduction.outcomes import Finding
from ling.reproduction.summary import ClosenessCriterion, ExperimentSummary

MODEL1, MODEL2, MODEL3 = ("model1",), ("model2",), ("model3",)
GISETTE, BUZZ = ("gisette",), ("buzz",)
MODELS, REAL = MODEL1 + MODEL2 + MODEL3, GISETTE + BUZZ
ALL = MODELS + REAL


def _claim(
    name: str,
    source: str,
    experiments: tuple[str, ...],
    quote: str,
    check: Callable[..., Any],
    *algorithms: str,
    where: Callable[[Any], JointCheck] = everywhere,
    by_closeness: bool = True,
) -> Claim:
    """A claim whose meaning is the docstring of its check."""
    bound = (lambda s, c: check(s, c, *algorithms)) if algorithms else check
    meaning = " ".join((check.__doc__ or "").split())
    if algorithms:
        meaning = f"{_join(algorithms)}. {meaning}"
    if len(experiments) > 1:
        meaning = f"{'Somewhere' if where is somewhere else 'Everywhere'}: {meaning}"
    return Claim(name, quote, source, experiments, where(bound), meaning, by_closeness)


def _join(algorithms: tuple[str, ...]) -> str:
    return " and ".join(name.split(" ")[0] for name in algorithms)


def _close_below_rr_cost_of(
    algorithm: str, summary: ExperimentSummary, criterion: ClosenessCriterion
) -> Finding:
    return cost.close_below_rr_cost(summary, criterion, algorithm)


_exact = partial(_claim, by_closeness=False)

SECTION_1_TO_3 = [
    _claim(
        "small-k2", "Section 2.1, remark 1", ALL,
        "it suffices to pick a very small k2 in contrast with the k1 PCs needed for PCR.",
        cost.small_k2_suffices,
    ),
    _exact(
        "better-conditioned", "Section 2.1, remark 1", ALL,
        "In the second stage, the design matrix X_r is a much better conditioned matrix than the "
        "original X since the directions with largest singular value have been removed.",
        theory.residual_better_conditioned,
    ),
    _exact(
        "bad-draws", "Section 2.1, remark 2", ALL,
        "Algorithm 2 may occasionally generate a bad subspace estimator due to randomness which "
        "makes PCR perform badly.",
        theory.has_bad_draw, where=somewhere,
    ),
    _exact(
        "robust", "Section 2.1, remark 2", ALL,
        "LING is much more robust since in the second stage it compensate for the signal missing "
        "in the first stage.",
        theory.ling_robust_to_bad_draws, where=wherever_judged,
    ),
    _exact(
        "tiny-shrinkage", "Section 2.1", MODELS,
        "the variance reduction gained from this shrinkage step is at most O(k2/n) under the fixed "
        "design setting [...] which is a tiny number.",
        theory.shrinkage_removes_little_variance,
    ),
    _exact(
        "gd-rate", "Section 2.2, equation (4)", MODELS, "Apply theorem 1 we have (4)",
        theory.gd_rate_holds,
    ),
    _exact(
        "ling-rate", "Section 2.2, equation (5)", MODELS,
        "Similarly for the second stage of LING [...] We have (5)", theory.ling_rate_holds,
    ),
    _exact(
        "gd-constant", "Section 2.2", MODELS,
        "the constant C obtained in (4) can be very close to 1 which makes GD algorithm converges "
        "very slowly.",
        theory.gd_constant_near_one, where=somewhere,
    ),
    _exact(
        "ling-constant", "Section 2.2", MODELS,
        "removing the top few PCs will make C in (5) significantly smaller than 1.",
        theory.ling_constant_well_below_one,
    ),
    _claim(
        "fewer-iterations", "Section 2.2", ALL,
        "GD may take a lot of iterations to converge when solving (1) directly while the second "
        "stage of LING takes much less iterations to converge. This can also be seen in the "
        "experiments of section 4.",
        cost.fewer_iterations, where=somewhere,
    ),
    _exact(
        "same-risk", "Section 3.1, theorem 2 and remark 3", MODELS,
        "This risk is the same as the risk of ridge regression", theory.risk_is_that_of_theory,
    ),
    _exact(
        "same-prediction", "Section 3.1, remark 3", MODELS,
        "LING gets exactly the same prediction as RR on the training dataset.",
        theory.same_prediction_as_ridge,
    ),
]  # fmt: skip

GENERAL = [
    _claim(
        "ling-well", "Section 4", MODELS, "LING performs well on all 3 simulated datasets",
        cost.close_below_rr_cost, LING,
    ),
    Claim(
        "others-fail", "GD, SVRG and PCR fails in some cases.", "Section 4", MODELS,
        each_fails_somewhere(
            *(partial(_close_below_rr_cost_of, name) for name in (GD, SVRG, PCR))
        ),
        "Each of GD, SVRG and PCR fails, on at least one model, to come close for less than RR's "
        "cost.",
    ),
    _claim(
        "all-reasonable", "Section 4", REAL, "all algorithms give reasonable performance",
        cost.reasonable_at_any_cost, PCR, GD, SVRG, LING,
    ),
    _claim(
        "svrg-ling-best", "Section 4", REAL, "SVRG and LING are the best.",
        cost.svrg_and_ling_best,
    ),
    _exact(
        "faster-to-run", "Section 4", ALL,
        "both stages of LING only requires only a moderate amount of matrix multiplications each "
        "cost O(np), much faster to run on matlab compared with SVRG which contains a lot of "
        "loops.",
        theory.faster_than_interpreted_svrg,
    ),
    _claim(
        "good-everywhere", "Section 5", ALL,
        "In the experiments, LING achieves good performances on all datasets when compare with "
        "three other large scale regression algorithms.",
        cost.reasonable_below_rr_cost, LING,
    ),
    _exact(
        "conjecture-passes", "Section 5, judged at equal passes of stage 2", ALL,
        "We conjecture that same strategy can be also used to accelerate the convergence of "
        "stochastic gradient descent when solving Ridge Regression [at equal passes of stage 2]",
        theory.stage1_helps_svrg_per_pass,
    ),
    _exact(
        "conjecture-flops", "Section 5, judged at equal FLOPs, stage 1 charged", ALL,
        "We conjecture that same strategy can be also used to accelerate the convergence of "
        "stochastic gradient descent when solving Ridge Regression [at equal FLOPs]",
        theory.stage1_helps_svrg_per_flop,
    ),
]  # fmt: skip

FIGURE_1 = [
    _claim(
        "m1-pcr-ling", "Section 4.1.1", MODEL1,
        "both PCR and LING work well by achieving risk close to RR at less computational cost.",
        cost.close_below_rr_cost, PCR, LING,
    ),
    _claim(
        "m1-svrg", "Section 4.1.1", MODEL1,
        "SVRG is worse than PCR and LING but much better than GD.",
        cost.svrg_after_pcr_and_ling_but_half_of_gd,
    ),
    _claim(
        "f1-fast", "Figure 1, caption", MODEL1, "PCR and LING approaches the RR risk very fast.",
        cost.close_fast, PCR, LING,
    ),
    _claim(
        "f1-svrg", "Figure 1, caption", MODEL1,
        "SVRG also approaches RR risk but cost more than the previous two.",
        cost.svrg_close_after_pcr_and_ling,
    ),
    _claim(
        "f1-gd", "Figure 1, caption", MODEL1, "GD is very slow and inaccurate.",
        cost.never_close, GD,
    ),
]  # fmt: skip

FIGURE_2 = [
    _claim(
        "m2-gd", "Section 4.1.2", MODEL2,
        "GD works best since it approaches the risk of RR at the the lowest computational cost.",
        cost.first_to_come_close, GD,
    ),
    _claim(
        "m2-ling-svrg", "Section 4.1.2", MODEL2,
        "LING and SVRG also works by achieving reasonably low risk with less computational cost.",
        cost.reasonable_below_rr_cost, LING, SVRG,
    ),
    _claim(
        "m2-pcr", "Section 4.1.2", MODEL2, "PCR works poorly as explained before.",
        cost.pcr_never_reasonable,
    ),
    _claim(
        "f2-gd", "Figure 2, caption", MODEL2, "GD approaches the RR risk very fast.",
        cost.close_fast, GD,
    ),
    _claim(
        "f2-slower", "Figure 2, caption", MODEL2,
        "SVRG and LING are slower than GD but still achieves risk close to RR at less cost.",
        cost.slower_than_gd_but_close_below_rr_cost,
    ),
    _claim(
        "f2-pcr", "Figure 2, caption", MODEL2, "PCR is slow and has huge risk.",
        cost.pcr_slow_and_huge,
    ),
]  # fmt: skip

FIGURE_3 = [
    _claim(
        "m3-ling", "Section 4.1.3", MODEL3, "LING works best in this set up.",
        cost.first_to_come_close, LING,
    ),
    _claim(
        "m3-svrg", "Section 4.1.3", MODEL3,
        "SVRG is slightly worse than LING but still approaching RR with less cost.",
        cost.svrg_slightly_slower_below_rr_cost,
    ),
    _claim(
        "m3-gd-pcr", "Section 4.1.3", MODEL3,
        "GD converges slowly and PCR is completely off target as explained before.",
        cost.gd_slow_and_pcr_huge,
    ),
    _claim(
        "f3-ling", "Figure 3, caption", MODEL3, "LING approaches RR risk the fastest.",
        cost.first_to_come_close, LING,
    ),
    _claim(
        "f3-svrg", "Figure 3, caption", MODEL3, "SVRG is slightly slower than LING.",
        cost.svrg_slightly_slower,
    ),
    _claim(
        "f3-gd", "Figure 3, caption", MODEL3, "GD also approaches RR risk but cost more than LING.",
        cost.gd_close_after_ling,
    ),
    _exact(
        "f3-pcr", "Figure 3, caption", MODEL3,
        "PCR has a huge risk no matter how many PCs are selected.", cost.pcr_huge,
    ),
]  # fmt: skip

FIGURE_7 = [
    _exact(
        "g-rr", "Section 4.2.1", GISETTE,
        "The classification error rate for RR solution (2) is 0.019.",
        cost.rr_error_is_the_papers,
    ),
    _claim(
        "g-svrg", "Section 4.2.1", GISETTE, "SVRG gets close to the RR error very fast.",
        cost.close_fast, SVRG,
    ),
    _claim(
        "g-ling", "Section 4.2.1", GISETTE,
        "The two curves of LING with k2=5,15 are slower than SVRG since some initial FLOPS are "
        "spent on computing top PCs but after that they approach RR error very fast.",
        cost.lings_after_svrg_then_close_fast,
    ),
    _claim(
        "g-gd", "Section 4.2.1", GISETTE,
        "GD also converges to RR but cost more than the previous two algorithms.",
        cost.gd_close_after_ling_and_svrg,
    ),
    _exact(
        "g-pcr", "Section 4.2.1", GISETTE,
        "PCR performs worst in terms of error and computational cost.", cost.pcr_worst,
    ),
    _claim(
        "f7-svrg", "Figure 7, caption", GISETTE, "SVRG achieves small error rate fastest.",
        cost.first_to_come_close, SVRG,
    ),
    _claim(
        "f7-ling", "Figure 7, caption", GISETTE,
        "Two LING lines with different n2 spent some FLOPS on computing top PCs first, but then "
        "converges very fast to a lower error rate.",
        cost.lings_start_late_then_lower,
    ),
    _claim(
        "f7-gd-pcr", "Figure 7, caption", GISETTE,
        "GD and PCR also provide reasonably small error rate and are faster than RR, but "
        "suboptimal compared with SVRG and LING.",
        cost.gd_and_pcr_cheap_but_suboptimal,
    ),
]  # fmt: skip

FIGURE_8 = [
    _claim(
        "b-svrg", "Section 4.2.2", BUZZ, "SVRG approaches MSE of RR very fast.",
        cost.close_fast, SVRG,
    ),
    _claim(
        "b-ling", "Section 4.2.2", BUZZ,
        "LING spent some initial FLOPS for computing top PCs but after that converges fast.",
        cost.lings_start_late_then_close_fast,
    ),
    _claim(
        "b-gd-pcr", "Section 4.2.2", BUZZ,
        "GD and PCR also achieves reasonable performance but suboptimal compared with SVRG and "
        "LING.",
        cost.gd_and_pcr_reasonable_but_suboptimal,
    ),
    _exact(
        "b-overfit", "Section 4.2.2", BUZZ,
        "The MSE of PCR first decays when we add more PCs into regression but finally goes up due "
        "to overfit.",
        cost.pcr_falls_then_rises,
    ),
    _claim(
        "f8-fast", "Figure 8, caption", BUZZ,
        "SVRG and two LING lines with different n2 achieves small MSE fast.",
        cost.reasonable_fast, SVRG, LING,
    ),
    _exact(
        "f8-gd", "Figure 8, caption", BUZZ, "GD is slower than LING and SVRG.",
        cost.gd_slower_at_common_value,
    ),
    _exact(
        "f8-pcr", "Figure 8, caption", BUZZ,
        "PCR reaches its smallest MSE at k1=50 then overfits.", cost.pcr_best_at_50_then_worse,
    ),
]  # fmt: skip

#: In the order of the paper: what is said of one experiment, then of several together.
EXPERIMENT_CLAIMS = [*FIGURE_1, *FIGURE_2, *FIGURE_3, *FIGURE_7, *FIGURE_8]
JOINT_CLAIMS = [*SECTION_1_TO_3, *GENERAL]
CLAIMS = [*EXPERIMENT_CLAIMS, *JOINT_CLAIMS]
