"""Comparison of posteriors on labelled nodes of the target that were not learned."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor

from graphgym_srnc.losses.calibration import temperature

WEIGHTS = (0.0, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9)
"""Weights of one posterior relative to another that are tried."""

EQUAL = 0.5  # weight without held-out nodes


class OutOfFold(NamedTuple):
    """Predictions of labelled nodes by classifiers that did not learn their labels.

    Args:
        nodes, labels: ids and classes of the held-out nodes, ``[m]``.
        fold: number of the part of the labels that a node was held out with, ``[m]``.
        log_p: log posteriors over the known classes, ``[m, N]``.
        kept: share of the correctly predicted nodes that are not predicted as unknown, ``[]``.
        gnn, forest: 1 where this classifier of a mixture alone predicts the class, else 0, ``[m]``.
    """

    nodes: Tensor
    labels: Tensor
    fold: Tensor
    log_p: Tensor
    kept: Tensor
    gnn: Tensor | None = None
    forest: Tensor | None = None

    @property
    def correct(self) -> Tensor:
        """1 where the most probable known class is the label, else 0, ``[m]``."""
        return (self.log_p.argmax(1) == self.labels).float()

    @property
    def log_likelihood(self) -> Tensor:
        """Log probability of each label, ``[m]``."""
        return log_likelihood(self.log_p, self.labels)

    def at(self, mask: Tensor) -> OutOfFold:
        """Those of some nodes only, where ``mask`` ``[m]`` is true."""
        # All but ``kept`` have a value per node.
        return OutOfFold._make(v[mask] if v is not None and v.dim() else v for v in self)


class Validation(NamedTuple):
    """Validation nodes of the target; there may be none.

    Args:
        nodes, labels: ids and classes of the nodes, ``[n]``.
        num_known: number of known classes :math:`N`.
    """

    nodes: Tensor
    labels: Tensor
    num_known: int

    @property
    def unknown(self) -> bool:
        """Whether a node is of an unknown class."""
        return bool((self.labels == self.num_known).any())

    def correct(self, log_p: Tensor) -> Tensor:
        """1 where log posteriors ``[V, N(+1)]`` predict a node's class, else 0, ``[n]``.

        Only known classes are compared if no held-out node is unknown.
        """
        scores = log_p[self.nodes, : self.num_known + int(self.unknown)]
        return (scores.argmax(1) == self.labels).float()

    def best_weight(self, first: Tensor, second: Tensor) -> float:
        """Weight of the first of two log posteriors ``[V, N(+1)]`` with the highest accuracy."""
        if not len(self.nodes):
            return EQUAL
        accuracy = {v: float(self.correct(v * first + (1 - v) * second).mean()) for v in WEIGHTS}
        tied = [v for v in WEIGHTS if accuracy[v] == max(accuracy.values())]
        return min(tied, key=lambda v: abs(v - EQUAL))


def calibrated(log_p: Tensor, labels: Tensor) -> Tensor:
    """Log posteriors ``[n, K]``, whose mean largest probability is their accuracy on ``labels``.

    So the likelihood of labels compares posteriors by what they tell apart, and not by how certain
    they are.
    """
    log_p = log_p.log_softmax(1)
    accuracy = float((log_p.argmax(1) == labels).sum()) / (len(labels) + 1)
    return (log_p / temperature(log_p, accuracy)).log_softmax(1)


def log_likelihood(log_p: Tensor, labels: Tensor) -> Tensor:
    """Log probability ``[n]`` of each label, by log posteriors ``[n, K]``."""
    return log_p.gather(1, labels[:, None])[:, 0]


def is_better(new: Tensor, old: Tensor, errors: float = 0.0) -> bool:
    """Whether the mean of ``new`` ``[n]`` is this many standard errors above that of ``old``."""
    gain = new - old
    error = gain.std(correction=0) / len(gain) ** 0.5
    return bool(gain.mean() >= errors * error)
