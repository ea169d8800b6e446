"""Scores of a prediction: F1s, recalls, the unknown class, and clustering accuracy."""
from __future__ import annotations

import math
from typing import TYPE_CHECKING, Callable, Mapping, NamedTuple

import numpy as np
import torch
from scipy.optimize import linear_sum_assignment
from torch import Tensor

from graphgym_srnc.errors import InputError

if TYPE_CHECKING:
    from graphgym_srnc.methods.base import Method
    from graphgym_srnc.task import ShiftTask


class ExtraScores(NamedTuple):
    """Scores of a user's own, and which score selects an episode.

    Args:
        functions: by name, as GraphGym calls a registered metric: with a list of labels ``[n]`` and
            one of log-probabilities ``[n, N(+1)]``, of which the last class is the unknown one and
            the likeliest one the decision, and ``classification_multi``.
        best: the score of validation nodes that ``target_val`` and ``source_val`` go by.
        least: whether the least one is the best.
    """

    functions: Mapping[str, Callable[[list[Tensor], list[Tensor], str], float]] = {}
    best: str = "micro_f1"
    least: bool = False

    def of(self, method: Method, scores: Tensor, label: Tensor) -> dict[str, float]:
        """Each score that is a finite number, of scores ``[n, K]`` and labels ``[n]``.

        Raises:
            InputError: a function fails.
        """
        if not self.functions:
            return {}
        log_p = method.posterior(scores).clamp(min=1e-30).log().float().cpu()
        found = {}
        for name, function in self.functions.items():
            try:
                found[name] = float(function([label.cpu()], [log_p], "classification_multi"))
            except Exception as error:  # a stranger's function may raise anything
                cause = " ".join(f"{type(error).__name__}: {error}".split())[:200]
                raise InputError("custom_metrics", name, "a metric that gives a number of [labels],"
                                 f" [log-probabilities] and classification_multi ({cause})",
                                 ) from error
        return {name: value for name, value in found.items() if math.isfinite(value)}

    def value(self, scores: Mapping[str, float]) -> float:
        """How good an episode with such scores is; a larger one is better."""
        if self.best not in scores:
            return -math.inf
        return -scores[self.best] if self.least else scores[self.best]


def scores_of(method: Method, task: ShiftTask, scores: Tensor, label: Tensor,
              extra: ExtraScores = ExtraScores()) -> dict[str, float]:
    """Every figure of a method's scores ``[n, N(+1)]`` on nodes with labels ``[n]``.

    There is none where there is no node.
    """
    if not len(label):
        return {}
    found = classification_scores(method.decide(scores), label, task.num_known, task.open_set)
    if task.open_set:
        sure, named = method.confidence(scores), scores[:, :task.num_known].argmax(1)
        found |= detection_scores(sure, label == task.num_known, named == label)
    return found | extra.of(method, scores, label)


def confusion_matrix(prediction: Tensor, label: Tensor, num_outputs: int) -> Tensor:
    """Counts ``[num_outputs, num_outputs]``: row = true class, column = predicted class."""
    flat = label * num_outputs + prediction
    return torch.bincount(flat, minlength=num_outputs ** 2).reshape(num_outputs, num_outputs)


def classification_scores(prediction: Tensor, label: Tensor, num_known: int,
                          open_set: bool) -> dict[str, float]:
    r"""Micro-F1, Macro-F1, macro recall, and in open-set shift scores of both sides of the cut.

    In single-label classification Micro-F1 is the accuracy. ``macro_recall`` is what the paper
    prints as "Macro-F1": :math:`\frac{1}{N_\text{test}} \sum_i |\hat y = y = i| / |y = i|`;
    ``macro_f1`` averages the F1 of each class. Classes with neither a true nor a predicted node do
    not count (scikit-learn's rule), nor does the unknown one where no node is unknown.

    Of the unknown class there are ``unknown_recall`` (UNK) and ``unknown_precision``. Of the known
    ones, where to call a node unknown is an error, ``known_accuracy`` is the share of right nodes
    and ``known_recall`` (OS*) the mean recall of the classes; ``macro_recall`` is OS, over all
    :math:`N + 1`. ``hs`` is the harmonic mean of ``known_accuracy`` and ``unknown_recall``, as in
    the code of UAGA (Shen et al., AAAI 2025). A score of nodes that are not there is absent: those
    of the unknown class, those of the known ones, or ``hs`` with either.

    Args:
        prediction: predicted classes, ``[n]``, in ``0 .. num_known`` (``num_known`` = unknown).
        label: true classes, ``[n]``.
        num_known: :math:`N`.
        open_set: whether there is an unknown class to score.
    """
    counts = confusion_matrix(prediction, label, num_known + int(open_set)).double()
    hit, true, predicted = counts.diagonal(), counts.sum(1), counts.sum(0)
    recall = hit / true.clamp(min=1)
    f1 = 2 * hit / (true + predicted).clamp(min=1)
    counted = (true + predicted) > 0
    counted[num_known:] = true[num_known:] > 0
    scores = {"micro_f1": float(hit.sum() / true.sum()), "macro_f1": float(f1[counted].mean()),
              "macro_recall": float(recall[true > 0].mean())}
    if not open_set:
        return scores

    num_unknown, known = true[num_known], true[:num_known]
    if num_unknown > 0:
        scores["unknown_recall"] = float(recall[num_known])
        scores["unknown_precision"] = float(hit[num_known] / predicted[num_known].clamp(min=1))
    if known.sum() > 0:
        accuracy = hit[:num_known].sum() / known.sum()
        scores["known_accuracy"] = float(accuracy)
        scores["known_recall"] = float(recall[:num_known].sum() / (known > 0).sum())
    if num_unknown > 0 and known.sum() > 0:
        both = accuracy + recall[num_known]
        scores["hs"] = float(2 * accuracy * recall[num_known] / both) if both > 0 else 0.0
    return scores


def detection_scores(confidence: Tensor, unknown: Tensor, right: Tensor) -> dict[str, float]:
    """How well a confidence tells unknown nodes from known ones, whatever the threshold.

    ``unknown_auroc``: the chance that an unknown node looks less sure than a known one.
    ``unknown_aupr``: average precision with unknown as the positive class. ``unknown_fpr95``: share
    of unknown nodes that are let through as known at the cut that lets 95 % of the known nodes
    through (smaller is better). ``oscr``: area under the share of known nodes that are let through
    and get their right class, against the share of unknown nodes let through (Dhamija et al.,
    NeurIPS 2018): the chance that a known node is right and looks surer than an unknown one. There
    is none where all nodes are of one kind.

    Args:
        confidence: how sure it is that a node is of a known class, ``[n]``.
        unknown: whether it is of the unknown class, ``[n]``.
        right: whether the likeliest known class is the true one, ``[n]``; only known nodes count.
    """
    from sklearn import metrics as scikit  # slow, and needed in open-set shift alone
    sure, unknown = confidence.double().cpu().numpy(), unknown.cpu().numpy()
    right = right.cpu().numpy()
    if unknown.all() or not unknown.any():
        return {}
    let_through, kept, _ = scikit.roc_curve(~unknown, sure, drop_intermediate=False)
    # Sums of shares may be above 1 in their last digit, which a record is not read back with.
    return {"unknown_auroc": min(1.0, float(scikit.roc_auc_score(unknown, -sure))),
            "unknown_aupr": min(1.0, float(scikit.average_precision_score(unknown, -sure))),
            "unknown_fpr95": float(let_through[kept >= 0.95].min()),
            "oscr": _oscr(sure[~unknown & right], sure[unknown], int((~unknown).sum()))}


def _oscr(right: np.ndarray, unknown: np.ndarray, num_known: int) -> float:
    """The share of pairs of a known and an unknown node in which the former is right and surer.

    Such a pair of one confidence counts half, which is the trapezoidal rule of the curve.
    """
    unknown = np.sort(unknown)
    below, up_to = (np.searchsorted(unknown, right, side) for side in ("left", "right"))
    return float((below + up_to).sum() / (2 * num_known * len(unknown)))


def clustering_scores(cluster: Tensor, label: Tensor) -> dict[str, float]:
    """ACC (best one-to-one map of clusters to classes) and NMI of clusters and labels ``[n]``."""
    from sklearn import metrics as scikit
    classes, clusters = (np.unique(part, return_inverse=True)[1] for part in (label, cluster))
    table = scikit.confusion_matrix(classes, clusters)
    rows, columns = linear_sum_assignment(-table)
    return {"acc": float(table[rows, columns].sum() / table.sum()),
            "nmi": min(1.0, float(scikit.normalized_mutual_info_score(label, cluster)))}


def reliability(probability: Tensor, correct: Tensor, bins: int = 15) -> list[list[float]]:
    r"""The reliability curve (Guo et al., ICML 2017).

    For each bin :math:`(\frac{m-1}{M}, \frac mM]` with a node in it: the mean probability of the
    predicted class, the share of right predictions, and the number of nodes.

    Args:
        probability: that of the predicted class, ``[n]``.
        correct: whether it is the true one, ``[n]``.
        bins: :math:`M`.
    """
    index = ((probability.double() * bins).ceil().long() - 1).clamp(0, bins - 1)
    curve = []
    for m in index.unique().tolist():
        chosen = index == m
        mean, right = (float(part[chosen].double().mean()) for part in (probability, correct))
        curve.append([mean, right, int(chosen.sum())])
    return curve


def expected_calibration_error(curve: list[list[float]]) -> float:
    r"""ECE of a reliability curve, :math:`\sum_m \frac{n_m}{n} |\text{acc}_m - \text{conf}_m|`."""
    total = sum(count for _, _, count in curve)
    return sum(count * abs(accuracy - sure) for sure, accuracy, count in curve) / total
