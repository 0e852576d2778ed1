"""The fit in plain words: the first paragraph, the certificate, and four numbers to remember."""

from __future__ import annotations

import numpy as np

from ling.estimators.out_of_sample import OutOfSample
from ling.report.held_out_scores import ClassificationScores, RegressionScores
from ling.report.report_data import ReportData
from ling.results import Status
from ling.wording import (
    MINUS_SIGN,
    NO_VALUE,
    format_count,
    format_number,
    format_percent,
    format_seconds,
    join_names,
    pluralize,
    truncate_middle,
)

# Columns that the first paragraph names.
N_NAMED_COLUMNS = 3
# A column that moves a useless prediction by less than this share of the spread does not count.
NEGLIGIBLE_EFFECT = 0.01


def summary_paragraph(facts: ReportData) -> str:
    """The first paragraph of a report: target, data, accuracy and strongest columns, as text."""
    n, p = facts.fitted_problem.cv_problem.shape
    parts = [
        f"{type(facts.model).__name__} learnt to predict {_target_phrase(facts)} from "
        f"{pluralize(p, 'column')}, on {pluralize(n, 'row')}.",
        _cv_score_sentence(facts),
        _held_out_sentence(facts),
        _alpha_sentence(facts),
        _strongest_sentence(facts),
        certificate_sentence(facts),
    ]
    return " ".join(part for part in parts if part)


def certificate_sentence(facts: ReportData) -> str:
    """What is proved, in one sentence."""
    report, found = facts.report, facts.report.certificate
    if report.status is Status.UNCERTIFIED:
        return "Nothing is proved about the answer, because alpha is 0, where no proof exists."
    if not np.isfinite(found.bound) or found.bound > 1:
        return "Nothing could be proved about how close this answer is to the exact one."
    if found.bound == 0:
        close = "are the same as"
    else:
        spread = f"the spread of {_target_scale_phrase(facts)}"
        close = f"differ by {_parts_phrase(found.bound)} of {spread} from"
    proved = f"the predictions for the training rows {close} those of the exact ridge solution"
    if report.status is Status.CERTIFIED:
        return f"It is proved that {proved}."
    return f"It is only proved that {proved}; {format_number(found.tol)} was asked for."


def key_numbers(facts: ReportData) -> list[tuple[str, str, str]]:
    """Value, name and a remark."""
    report = facts.report
    alphas = facts.fitted_problem.alphas
    several = alphas.min() < alphas.max()
    alpha = format_number(float(np.median(alphas)))
    proved = report.status is Status.CERTIFIED
    bound = report.certificate.bound
    return [
        _headline_score(facts),
        (alpha, "median alpha" if several else "alpha", _alpha_remark(facts)),
        (
            "proved" if proved else "not proved",
            "exactness",
            f"within {format_number(round_up(bound), 2)}" if 0 < bound <= 1 else "",
        ),
        (
            format_seconds(report.total_seconds),
            "to fit",
            f"{pluralize(round(report.cost.passes), 'pass', 'passes')} over X",
        ),
    ]


def _target_phrase(facts: ReportData) -> str:
    t = facts.fitted_problem.cv_problem.n_targets
    if not facts.is_classification:
        return truncate_middle(facts.target_name) if t == 1 else f"{t} targets"
    k = len(facts.model.classes_)
    if facts.model._label_decoder.is_multilabel:
        return f"{k} labels of {truncate_middle(facts.target_name)}"
    return f"{truncate_middle(facts.target_name)}, one of {k} classes,"


def _target_scale_phrase(facts: ReportData) -> str:
    if facts.is_classification:
        return f"the classes, written as {MINUS_SIGN}1 and 1,"
    return (
        truncate_middle(facts.target_name)
        if facts.fitted_problem.cv_problem.n_targets == 1
        else "each target"
    )


def _cv_score_sentence(facts: ReportData) -> str:
    """The score that alpha was chosen by, as the model has it."""
    if facts.cv_score is None:
        return ""
    name, score, n_folds = facts.cv_score
    whose = "Its" if np.ndim(facts.model.best_score_) == 0 else "The median target's"
    shown = format_percent(score) if name == "accuracy" else format_number(score)
    return f"{whose} cross-validated {name} is {shown}, the mean over {n_folds} folds."


def _held_out_sentence(facts: ReportData) -> str:
    """Over all rows together, where the mean over folds may be quite another number."""
    scores = facts.scores
    unseen = "On rows it had not seen"
    if facts.cv_score is not None:
        unseen += ", all taken together,"
    if isinstance(scores, ClassificationScores):
        return (
            f"{unseen} it is right in {format_percent(scores.accuracy)} of cases; always "
            f"saying the most frequent would be right in "
            f"{format_percent(scores.majority_accuracy)}."
        )
    if not isinstance(scores, RegressionScores):
        return ""
    if len(scores.r2) > 1:
        known = scores.r2[np.isfinite(scores.r2)]
        if not len(known):
            return "No target varies, so there is nothing to explain."
        low, middle, high = np.quantile(known, [0, 0.5, 1])
        return (
            f"{unseen} it explains {format_percent(middle)} of the variance of the median "
            f"target, {format_percent(low)} of the worst and {format_percent(high)} of the best."
        )
    r2, rms, spread = float(scores.r2[0]), float(scores.rmse[0]), float(scores.spread[0])
    if not np.isfinite(r2):
        return (
            f"{truncate_middle(facts.target_name)} does not vary, so there is nothing to explain."
        )
    if r2 <= 0:
        return (
            f"{unseen} it does no better than always predicting the mean: "
            f"it is typically off by {format_number(rms)}, the mean by {format_number(spread)}."
        )
    return (
        f"{unseen} it explains {format_percent(r2)} of the variance and is typically off "
        f"by {format_number(rms)}, where always predicting the mean is off by "
        f"{format_number(spread)}."
    )


def _alpha_sentence(facts: ReportData) -> str:
    scores, alphas = facts.cv_scores, facts.fitted_problem.alphas
    several = alphas.min() < alphas.max()
    alpha = format_number(float(alphas[0]))
    if scores is None:
        return f"Its penalty alpha was set to {alpha}." if not several else ""
    words = f"chosen from {format_count(len(scores.alphas))} by {scores.method}"
    if several:
        return f"Each target has a penalty of its own, {words}."
    return f"Its penalty alpha = {alpha} was {words}."


def _alpha_remark(facts: ReportData) -> str:
    effective_dof = facts.effective_dof
    p = facts.fitted_problem.cv_problem.shape[1]
    return (
        ""
        if effective_dof is None
        else f"{format_number(effective_dof)} of {format_count(p)} degrees of freedom"
    )


def _strongest_sentence(facts: ReportData) -> str:
    """Of one target, or the two classes: several have no common answer."""
    if len(facts.coef) > 1:
        return ""
    sizes = facts.coef[0] * facts.fitted_problem.spread
    order = [j for j in np.argsort(-np.abs(sizes), kind="stable")[:N_NAMED_COLUMNS] if sizes[j]]
    if not order or (
        not _beats_baseline(facts) and abs(sizes[order[0]]) < NEGLIGIBLE_EFFECT * _target_std(facts)
    ):
        return "No column counts."
    up, down = "raises", "lowers"
    what, it = "the prediction", "it"
    if facts.is_classification:
        up, down = "speaks for", "speaks against"
        what = truncate_middle(facts.target_names[0])
    names = [
        f"{truncate_middle(facts.feature_names[j])} ({up if sizes[j] > 0 else down} "
        f"{it if at else what})"
        for at, j in enumerate(order)
    ]
    several = "columns that count" if len(names) > 1 else "column that counts"
    return f"The {several} most: {join_names(names)}."


def _beats_baseline(facts: ReportData) -> bool:
    """Whether it is better than no model, as far as that is known."""
    scores = facts.scores
    if isinstance(scores, ClassificationScores):
        return scores.accuracy > scores.majority_accuracy
    return scores is None or bool(scores.r2[0] > 0)


def _target_std(facts: ReportData) -> float:
    """Of what is predicted."""
    return float(facts.scores.spread[0]) if isinstance(facts.scores, RegressionScores) else 1.0


def _headline_score(facts: ReportData) -> tuple[str, str, str]:
    scores = facts.scores
    if facts.cv_score is not None:
        name, score, n_folds = facts.cv_score
        median = "median " if np.ndim(facts.model.best_score_) else ""
        shown = format_percent(score) if name == "accuracy" else format_number(score)
        return shown, f"{median}{name}, cross-validated", f"mean over {n_folds} folds"
    if isinstance(scores, ClassificationScores):
        return format_percent(scores.accuracy), "accuracy, held out", _describe_splits(facts)
    if isinstance(scores, RegressionScores):
        some = np.isfinite(scores.r2).any()
        r2 = float(np.nanmedian(scores.r2)) if some else float("nan")
        name = "R², held out" if len(scores.r2) == 1 else "median R², held out"
        return format_number(r2), name, _describe_splits(facts)
    return NO_VALUE, "held out", "could not be found"


def _describe_splits(facts: ReportData) -> str:
    return facts.held_out.how if isinstance(facts.held_out, OutOfSample) else ""


def round_up(bound: float) -> float:
    """With two digits, and not below: it is said to be proved.

    >>> round_up(1.01e-4)
    0.00011
    """
    if not 0 < bound < 1:
        return bound
    unit = 10.0 ** (np.floor(np.log10(bound)) - 1)
    return float(f"{np.ceil(bound / unit - 1e-9) * unit:.2g}")


def _parts_phrase(bound: float) -> str:
    """'at most 2 parts in 10 billion'."""
    words = {3: "thousand", 6: "million", 9: "billion", 12: "trillion"}
    if bound >= 0.01:
        return f"at most {format_percent(np.ceil(1000 * bound - 1e-9) / 1000)}"
    if bound < 1e-12:
        return "less than a millionth of a millionth"
    exponent = int(np.ceil(-np.log10(bound)))
    first = int(np.ceil(bound * 10.0**exponent - 1e-9))
    first, exponent = (1, exponent - 1) if first >= 10 else (first, exponent)
    group = min(3 * (exponent // 3), 12)
    size = 10 ** (exponent - group)
    unit = f"{'a' if size == 1 and group else size} {words.get(group, '')}".strip()
    return f"at most {first} part{'s' if first > 1 else ''} in {unit}"
