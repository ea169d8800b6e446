"""Scores of predictions: F1, recall, detection of the unknown class, clustering and calibration."""

from __future__ import annotations

import math
from typing import Callable, Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from graphgym_srnc.core.task import ShiftTask
from graphgym_srnc.errors import InputError
from graphgym_srnc.methods.shared.base import Method

Metric = Callable[[list[Tensor], list[Tensor], str], float]
"""A user's own score, with the signature of metrics registered with GraphGym.

It receives a list of labels ``[n]``, a list of log-probabilities ``[n, N(+1)]`` whose last class is
the unknown class, and ``classification_multi``.
"""


def scores_of(
    method: Method,
    task: ShiftTask,
    scores: Tensor,
    label: Tensor,
    metrics: Mapping[str, Metric] = {},
) -> dict[str, float]:
    """All scores of a method's predictions; empty if there are no nodes.

    They are those of :func:`classification_scores` and, in open-set shift, of
    :func:`detection_scores`, and ``closed_accuracy``: the share of known nodes whose most probable
    known class is the true one, whatever the threshold.

    Args:
        method: the trained method.
        task: the scenario.
        scores: scores of the method, ``[n, N(+1)]``.
        label: true classes, ``[n]``.
        metrics: the user's own scores by name; values that are not finite are left out.

    Raises:
        InputError: one of ``metrics`` fails.
    """
    if not len(label):
        return {}
    result = classification_scores(method.decide(scores), label, task.num_known, task.open_set)
    if task.open_set:
        right = scores[:, : task.num_known].argmax(1) == label
        confidence = method.confidence(scores)
        unknown = label == task.num_known
        result |= detection_scores(confidence, unknown, right)
        if not unknown.all():
            result["closed_accuracy"] = float(right[~unknown].double().mean())
    for name, metric in metrics.items():
        log_p = method.posterior(scores).clamp(min=1e-30).log().float().cpu()
        try:
            value = float(metric([label.cpu()], [log_p], "classification_multi"))
        except Exception as error:  # a foreign function may raise any exception
            cause = " ".join(f"{type(error).__name__}: {error}".split())[:200]
            raise InputError.plain(
                "custom_metrics",
                f"the metric {name} failed ({cause})",
                "It is called with [labels], [log-probabilities] and 'classification_multi' "
                "and must return a number",
            ) from error
        if math.isfinite(value):
            result.setdefault(name, value)
    return result


def confusion_matrix(prediction: Tensor, label: Tensor, num_outputs: int) -> Tensor:
    """Confusion matrix ``[num_outputs, num_outputs]``: rows are true classes."""
    flat = label * num_outputs + prediction
    return torch.bincount(flat, minlength=num_outputs**2).reshape(num_outputs, num_outputs)


def classification_scores(
    prediction: Tensor, label: Tensor, num_known: int, open_set: bool
) -> dict[str, float]:
    """Micro-F1, Macro-F1, macro recall; in open-set shift also scores of known and unknown nodes.

    - ``micro_f1``: Micro-F1, which equals the accuracy in single-label classification.
    - ``macro_f1``: mean F1 of the classes.
    - ``macro_recall``: mean recall of all classes, in open-set shift including the unknown class.
      The paper prints it as "Macro-F1"; others call it OS.
    - ``unknown_recall`` (UNK) and ``unknown_precision``: those of the unknown class.
    - ``known_accuracy``: share of known nodes that are predicted correctly.
    - ``known_recall`` (OS*): mean recall of the known classes.
    - ``hs``: harmonic mean of ``known_accuracy`` and ``unknown_recall``, as in the code of UAGA.

    Classes without a true node are excluded, since a wrong prediction as such a class lowers the
    recall of the others; scikit-learn excludes them only if they are not predicted either. A score
    is absent if it needs nodes that are not there.

    Args:
        prediction: predicted classes, ``[n]``, in ``0 .. num_known`` (``num_known`` = unknown).
        label: true classes, ``[n]``.
        num_known: :math:`N`.
        open_set: whether there is an unknown class to score.

    References:
        Shen et al. (AAAI 2025), UAGA.
    """
    counts = confusion_matrix(prediction, label, num_known + int(open_set)).double()
    hit = counts.diagonal()
    true = counts.sum(1)
    predicted = counts.sum(0)
    recall = hit / true.clamp(min=1)
    f1 = 2 * hit / (true + predicted).clamp(min=1)
    scores = {
        "micro_f1": float(hit.sum() / true.sum()),
        "macro_f1": float(f1[true > 0].mean()),
        "macro_recall": float(recall[true > 0].mean()),
    }
    if not open_set:
        return scores

    known = true[:num_known]
    unknown_recall = recall[num_known]
    if true[num_known] > 0:
        scores["unknown_recall"] = float(unknown_recall)
        scores["unknown_precision"] = float(hit[num_known] / predicted[num_known].clamp(min=1))
    if known.sum() > 0:
        accuracy = hit[:num_known].sum() / known.sum()
        scores["known_accuracy"] = float(accuracy)
        scores["known_recall"] = float(recall[:num_known].sum() / (known > 0).sum())
        if true[num_known] > 0:
            total = (accuracy + unknown_recall).clamp(min=1e-300)
            scores["hs"] = float(2 * accuracy * unknown_recall / total)
    return scores


def detection_scores(confidence: Tensor, unknown: Tensor, right: Tensor) -> dict[str, float]:
    """Threshold-free scores of how well the confidence separates known from unknown nodes, if any.

    - ``unknown_auroc``: probability that an unknown node is less confident than a known node.
    - ``unknown_aupr``: average precision with the unknown class as positive.
    - ``unknown_fpr95``: of all thresholds that accept at least 95 % of the known nodes, the least
      share of unknown nodes that are accepted as known (lower is better).
    - ``oscr``: area under the curve of correctly classified known nodes against accepted unknown
      nodes. It equals the probability that a known node is classified correctly and is more
      confident than an unknown node.

    Args:
        confidence: confidence that a node is of a known class, ``[n]``.
        unknown: whether the node is of the unknown class, ``[n]``.
        right: whether the most probable known class is the true one, ``[n]``; only known nodes
            count.

    References:
        Dhamija et al. (NeurIPS 2018) for the OSCR.
    """
    score = confidence.double().cpu().numpy()
    is_unknown = unknown.cpu().numpy()
    if is_unknown.all() or not is_unknown.any():
        return {}
    # scikit-learn's formulas, to the last bit, without its import of a second.
    false, true = _counts(-score, is_unknown)
    bends = (np.diff(false[1:], 2) != 0) | (np.diff(true[1:], 2) != 0)
    corner = np.r_[True, True, bends, True][: len(true)]
    x = false[corner] / false[-1]
    y = true[corner] / true[-1]
    recall = true[1:] / true[-1]
    precision = true[1:] / (true[1:] + false[1:])
    accepted_unknown, accepted_known = _counts(score, ~is_unknown)
    # Pairs of a known and an unknown node with the known one correct and more confident. Ties count
    # half, which corresponds to the trapezoidal rule.
    correct = score[~is_unknown & right.cpu().numpy()]
    of_unknown = np.sort(score[is_unknown])
    below, up_to = (np.searchsorted(of_unknown, correct, side) for side in ("left", "right"))
    oscr = float((below + up_to).sum() / (2 * (~is_unknown).sum() * len(of_unknown)))
    fpr = accepted_unknown / accepted_unknown[-1]
    # Rounding may give values just above 1, which the record's validation would reject.
    return {
        "unknown_auroc": min(1.0, float((np.diff(x) * (y[1:] + y[:-1]) / 2).sum())),
        "unknown_aupr": min(1.0, float((np.diff(recall, prepend=0) * precision)[::-1].sum())),
        "unknown_fpr95": float(fpr[accepted_known / accepted_known[-1] >= 0.95].min()),
        "oscr": oscr,
    }


def _counts(score: np.ndarray, positive: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Numbers of negative and positive nodes above each threshold, from 0 to all."""
    order = np.argsort(-score, kind="stable")
    ends = np.r_[np.flatnonzero(np.diff(score[order])), len(score) - 1]
    hits = np.cumsum(positive[order])[ends]
    return np.r_[0, 1 + ends - hits], np.r_[0, hits]


def reliability(probability: Tensor, correct: Tensor, bins: int = 15) -> list[list[float]]:
    r"""Mean probability, accuracy and number of nodes in each bin of predicted probabilities.

    The bins are :math:`(\frac{m-1}{M}, \frac mM]`; empty bins are omitted.

    Args:
        probability: probability of the predicted class, ``[n]``.
        correct: whether the predicted class is the true one, ``[n]``.
        bins: :math:`M`.

    References:
        Guo et al. (ICML 2017).
    """
    index = ((probability.double() * bins).ceil().long() - 1).clamp(0, bins - 1)
    curve = []
    for m in index.unique().tolist():
        chosen = index == m
        mean, right = (float(part[chosen].double().mean()) for part in (probability, correct))
        curve.append([mean, right, int(chosen.sum())])
    return curve


def expected_calibration_error(curve: Sequence[Sequence[float]]) -> float:
    r"""Expected calibration error (ECE) of a reliability curve.

    .. math:: \sum_m \frac{n_m}{n} |\text{acc}_m - \text{conf}_m|
    """
    total = sum(count for _, _, count in curve)
    return sum(count * abs(accuracy - mean) for mean, accuracy, count in curve) / total
