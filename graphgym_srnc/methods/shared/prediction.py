"""Parts of a prediction: the correction by class shares, and the unknown-class threshold."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from graphgym_srnc.losses.prior import black_box_weights, em_prior, known_share

ROLES = ("source", "target")


class ClassPrior(nn.Module):
    """Class shares of training and target, and the correction of a posterior by their ratio.

    Args:
        num_known: number of known classes :math:`N`.

    Attributes:
        source: class shares of the training labels, ``[N]``.
        confusion: shares of predicted and true classes among held-out nodes, ``[N, N]``.
        weight: weights of the classes on the training graph of each of :data:`ROLES`, ``[2, N]``.
    """

    source: Tensor
    confusion: Tensor
    weight: Tensor

    def __init__(self, num_known: int) -> None:
        super().__init__()
        self.num_known = num_known
        self.register_buffer("source", torch.full((num_known,), 1 / num_known))
        # torch.eye would load torch's compiler when a model is built without memory.
        confusion = np.eye(num_known, dtype=np.float32) / num_known
        self.register_buffer("confusion", torch.from_numpy(confusion))
        self.register_buffer("weight", torch.ones(len(ROLES), num_known, dtype=torch.float64))

    def learn(self, labels: Tensor) -> None:
        """Store the class shares of training labels ``[n]``."""
        counts = torch.bincount(labels, minlength=self.num_known)
        self.source.copy_(counts / counts.sum())

    def learn_confusion(self, scores: Tensor, label: Tensor) -> None:
        """Store the confusion matrix of uncorrected scores ``[n, K]`` of held-out known nodes."""
        size = self.num_known
        known = label < size
        predicted = scores[known, :size].argmax(1)
        counts = torch.bincount(predicted * size + label[known], minlength=size**2)
        self.confusion.copy_(counts.view(size, size) / counts.sum())

    @torch.no_grad()
    def weights(self, correction: str, scores: Tensor) -> Tensor:
        """Weights ``[N]`` of the known classes, from the scores ``[V, K]`` of a whole graph."""
        known = scores[:, : self.num_known]
        p = (known - known.logsumexp(1, keepdim=True)).double().exp()
        if correction == "mean":
            return 1 / p.mean(0).clamp(min=1e-12)
        if correction == "labels":
            return 1 / self.source.to(p)
        if correction == "em":
            return em_prior(p, self.source) / self.source
        predicted = torch.bincount(p.argmax(1), minlength=self.num_known).double()
        return black_box_weights(self.confusion, predicted / predicted.sum())

    @torch.no_grad()
    def corrected(self, scores: Tensor, weight: Tensor, power: float) -> Tensor:
        r"""Scores ``[n, K]`` corrected for the class prior by weights ``[N]``.

        .. math:: \tilde p_{ic} \propto p_{ic} \, w_c^\tau

        Known-class probabilities are renormalised to their previous total, so the unknown class
        keeps its share.
        """
        known = scores[:, : self.num_known]
        total = known.logsumexp(1, keepdim=True)
        log_weight = power * weight.clamp(min=1e-12).log()
        corrected = ((known - total).double() + log_weight).log_softmax(1).to(scores)
        return torch.cat([corrected + total, scores[:, self.num_known :]], 1)


def threshold_by_share(held_out: Tensor, on_target: Tensor) -> float:
    """Threshold that predicts the estimated share of unknown target nodes as unknown.

    Args:
        held_out, on_target: confidence of held-out nodes of known classes ``[n]``, and of all
            target nodes ``[V]``.
    """
    ordered = on_target.sort().values
    unknown = round((1 - known_share(held_out, on_target)) * len(ordered))
    return float(ordered[unknown]) if unknown < len(ordered) else float("inf")


def best_threshold(confidence: Tensor, prediction: Tensor, label: Tensor, unknown: int) -> float:
    """Threshold with the largest validation Micro-F1 of all thresholds, in O(n log n).

    Args:
        confidence, prediction, label: confidence that a node is of a known class, its most probable
            known class, and its true class, all ``[n]``.
        unknown: label of the unknown class.
    """
    confidence, order = confidence.sort()
    gain = ((label == unknown).long() - (prediction == label).long())[order]
    correct = F.pad(gain.cumsum(0), (1, 0))

    # Entry i predicts the i least confident nodes as unknown, as does every threshold above the
    # i-th confidence, up to and including the next one.
    high = F.pad(confidence, (0, 1), value=torch.inf)
    correct[1:-1][confidence[1:] == confidence[:-1]] = -len(label)
    return float(high[correct.argmax()])
