"""The fit in plain words: the first paragraph, the certificate, and four numbers to remember."""

from __future__ import annotations

import numpy as np

from ling.estimators.revisited import HeldOut
from ling.html.facts import Facts
from ling.html.scores import Decisions, Errors
from ling.html.words import MINUS, NOTHING, count, counted, listed, number, percent, seconds, short
from ling.report import Status

# Columns that the first paragraph names.
NAMED = 3
# A column that moves a useless prediction by less than this share of the spread does not count.
NEGLIGIBLE = 0.01


def paragraph(facts: Facts) -> str:
    """What was learnt, how good it is and what counts, for somebody who has not seen the data."""
    n, p = facts.again.samples.shape
    parts = [
        f"{type(facts.model).__name__} learnt to predict {_what(facts)} from "
        f"{counted(p, 'column')}, on {counted(n, 'row')}.",
        _cross_validated(facts),
        _quality(facts),
        _penalty(facts),
        _strongest(facts),
        certificate(facts),
    ]
    return " ".join(part for part in parts if part)


def certificate(facts: Facts) -> str:
    """What is proved, in one sentence."""
    report, found = facts.report, facts.report.certificate
    if report.status is Status.UNCERTIFIED:
        return "Nothing is proved about the answer, because alpha is 0, where no proof exists."
    if not np.isfinite(found.bound) or found.bound > 1:
        return "Nothing could be proved about how close this answer is to the exact one."
    if found.bound == 0:
        close = "are the same as"
    else:
        close = f"differ by {_parts(found.bound)} of the spread of {_y(facts)} from"
    proved = f"the predictions for the training rows {close} those of the exact ridge solution"
    if report.status is Status.CERTIFIED:
        return f"It is proved that {proved}."
    return f"It is only proved that {proved}; {number(found.tol)} was asked for."


def key_numbers(facts: Facts) -> list[tuple[str, str, str]]:
    """Value, name and a remark."""
    report = facts.report
    alphas = facts.again.alphas
    several = alphas.min() < alphas.max()
    alpha = number(float(np.median(alphas)))
    proved = report.status is Status.CERTIFIED
    bound = report.certificate.bound
    return [
        _score(facts),
        (alpha, "median alpha" if several else "alpha", _alpha_remark(facts)),
        (
            "proved" if proved else "not proved",
            "exactness",
            f"within {number(upwards(bound), 2)}" if 0 < bound <= 1 else "",
        ),
        (
            seconds(report.total_seconds),
            "to fit",
            f"{counted(round(report.cost.passes), 'pass', 'passes')} over X",
        ),
    ]


def _what(facts: Facts) -> str:
    t = facts.again.samples.n_targets
    if not facts.classifies:
        return short(facts.target) if t == 1 else f"{t} targets"
    k = len(facts.model.classes_)
    if facts.model._decision.multilabel:
        return f"{k} labels of {short(facts.target)}"
    return f"{short(facts.target)}, one of {k} classes,"


def _y(facts: Facts) -> str:
    if facts.classifies:
        return f"the classes, written as {MINUS}1 and 1,"
    return short(facts.target) if facts.again.samples.n_targets == 1 else "each target"


def _cross_validated(facts: Facts) -> str:
    """The score that alpha was chosen by, as the model has it."""
    if facts.chosen_score is None:
        return ""
    name, score, n_folds = facts.chosen_score
    whose = "Its" if np.ndim(facts.model.best_score_) == 0 else "The median target's"
    shown = percent(score) if name == "accuracy" else number(score)
    return f"{whose} cross-validated {name} is {shown}, the mean over {n_folds} folds."


def _quality(facts: Facts) -> str:
    """Over all rows together, where the mean over folds may be quite another number."""
    scores = facts.scores
    unseen = "On rows it had not seen"
    if facts.chosen_score is not None:
        unseen += ", all taken together,"
    if isinstance(scores, Decisions):
        return (
            f"{unseen} it is right in {percent(scores.accuracy)} of cases; always "
            f"saying the most frequent would be right in {percent(scores.most_frequent)}."
        )
    if not isinstance(scores, Errors):
        return ""
    if len(scores.r2) > 1:
        known = scores.r2[np.isfinite(scores.r2)]
        if not len(known):
            return "No target varies, so there is nothing to explain."
        low, middle, high = np.quantile(known, [0, 0.5, 1])
        return (
            f"{unseen} it explains {percent(middle)} of the variance of the median "
            f"target, {percent(low)} of the worst and {percent(high)} of the best."
        )
    r2, rms, spread = float(scores.r2[0]), float(scores.rms[0]), float(scores.spread[0])
    if not np.isfinite(r2):
        return f"{short(facts.target)} does not vary, so there is nothing to explain."
    if r2 <= 0:
        return (
            f"{unseen} it does no better than always predicting the mean: "
            f"it is typically off by {number(rms)}, the mean by {number(spread)}."
        )
    return (
        f"{unseen} it explains {percent(r2)} of the variance and is typically off "
        f"by {number(rms)}, where always predicting the mean is off by {number(spread)}."
    )


def _penalty(facts: Facts) -> str:
    results, alphas = facts.results, facts.again.alphas
    several = alphas.min() < alphas.max()
    alpha = number(float(alphas[0]))
    if results is None:
        return f"Its penalty alpha was set to {alpha}." if not several else ""
    words = f"chosen from {count(len(results.alphas))} by {results.method}"
    if several:
        return f"Each target has a penalty of its own, {words}."
    return f"Its penalty alpha = {alpha} was {words}."


def _alpha_remark(facts: Facts) -> str:
    degrees = facts.degrees
    p = facts.again.samples.shape[1]
    return "" if degrees is None else f"{number(degrees)} of {count(p)} degrees of freedom"


def _strongest(facts: Facts) -> str:
    """Of one target, or the two classes: several have no common answer."""
    if len(facts.coef) > 1:
        return ""
    sizes = facts.coef[0] * facts.again.spread
    order = [j for j in np.argsort(-np.abs(sizes), kind="stable")[:NAMED] if sizes[j]]
    if not order or (not _helps(facts) and abs(sizes[order[0]]) < NEGLIGIBLE * _spread(facts)):
        return "No column counts."
    up, down = "raises", "lowers"
    what, it = "the prediction", "it"
    if facts.classifies:
        up, down = "speaks for", "speaks against"
        what = short(facts.targets[0])
    names = [
        f"{short(facts.features[j])} ({up if sizes[j] > 0 else down} {it if at else what})"
        for at, j in enumerate(order)
    ]
    several = "columns that count" if len(names) > 1 else "column that counts"
    return f"The {several} most: {listed(names)}."


def _helps(facts: Facts) -> bool:
    """Whether it is better than no model, as far as that is known."""
    scores = facts.scores
    if isinstance(scores, Decisions):
        return scores.accuracy > scores.most_frequent
    return scores is None or bool(scores.r2[0] > 0)


def _spread(facts: Facts) -> float:
    """Of what is predicted."""
    return float(facts.scores.spread[0]) if isinstance(facts.scores, Errors) else 1.0


def _score(facts: Facts) -> tuple[str, str, str]:
    scores = facts.scores
    if facts.chosen_score is not None:
        name, score, n_folds = facts.chosen_score
        median = "median " if np.ndim(facts.model.best_score_) else ""
        shown = percent(score) if name == "accuracy" else number(score)
        return shown, f"{median}{name}, cross-validated", f"mean over {n_folds} folds"
    if isinstance(scores, Decisions):
        return percent(scores.accuracy), "accuracy, held out", _rows_held(facts)
    if isinstance(scores, Errors):
        some = np.isfinite(scores.r2).any()
        r2 = float(np.nanmedian(scores.r2)) if some else float("nan")
        name = "R², held out" if len(scores.r2) == 1 else "median R², held out"
        return number(r2), name, _rows_held(facts)
    return NOTHING, "held out", "could not be found"


def _rows_held(facts: Facts) -> str:
    return facts.held.how if isinstance(facts.held, HeldOut) else ""


def upwards(bound: float) -> float:
    """With two digits, and not below: it is said to be proved.

    >>> upwards(1.01e-4)
    0.00011
    """
    if not 0 < bound < 1:
        return bound
    unit = 10.0 ** (np.floor(np.log10(bound)) - 1)
    return float(f"{np.ceil(bound / unit - 1e-9) * unit:.2g}")


def _parts(bound: float) -> str:
    """'at most 2 parts in 10 billion'."""
    words = {3: "thousand", 6: "million", 9: "billion", 12: "trillion"}
    if bound >= 0.01:
        return f"at most {percent(np.ceil(1000 * bound - 1e-9) / 1000)}"
    if bound < 1e-12:
        return "less than a millionth of a millionth"
    exponent = int(np.ceil(-np.log10(bound)))
    first = int(np.ceil(bound * 10.0**exponent - 1e-9))
    first, exponent = (1, exponent - 1) if first >= 10 else (first, exponent)
    group = min(3 * (exponent // 3), 12)
    size = 10 ** (exponent - group)
    unit = f"{'a' if size == 1 and group else size} {words.get(group, '')}".strip()
    return f"at most {first} part{'s' if first > 1 else ''} in {unit}"
