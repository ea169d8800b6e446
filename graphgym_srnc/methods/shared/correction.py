"""Correction of the posterior for the class prior of the predicted graph."""

from __future__ import annotations

from typing import Annotated

import torch
from torch import Tensor, nn

from graphgym_srnc.core.options import OneOf
from graphgym_srnc.core.task import ShiftTask
from graphgym_srnc.losses.prior import black_box_weights, em_prior

Correction = Annotated[str, OneOf("none", "mean", "em", "bbse", "labels")]


class PriorCorrection(nn.Module):
    r"""Correction of a posterior for the class prior of the graph that is predicted.

    .. math:: \tilde p_{ic} \propto p_{ic} \, w_c^\tau

    The weights :math:`w` are estimated on the whole graph without its labels. Known-class
    probabilities are renormalised to their previous total, so the unknown class keeps its share.
    The class reads ``task``, ``correction`` and ``correction_power`` of the method.
    """

    task: ShiftTask
    correction: str
    correction_power: float
    source_prior: Tensor
    confusion: Tensor

    @property
    def prior_correction(self) -> tuple[str, float]:
        """Name and power of the correction."""
        return self.correction, self.correction_power

    def build_correction(self, size: int) -> None:
        """Register the class prior ``[N]`` or the confusion matrix ``[N, N]`` of the source."""
        correction, _ = self.prior_correction
        if correction in ("em", "labels"):
            self.register_buffer("source_prior", torch.full((size,), 1 / size))
        if correction == "bbse":
            self.register_buffer("confusion", torch.eye(size) / size)

    def learn_prior(self, labels: Tensor) -> None:
        """Store the class prior of training labels ``[n]``."""
        if self.prior_correction[0] in ("em", "labels"):
            counts = torch.bincount(labels, minlength=self.task.num_known)
            self.source_prior.copy_(counts / counts.sum())

    def learn_confusion(self, scores: Tensor, label: Tensor) -> None:
        """Store the confusion matrix of uncorrected scores ``[n, K]`` of held-out nodes.

        Nodes of the unknown class, by their labels ``[n]``, are ignored.
        """
        size = self.task.num_known
        known = label < size
        named = scores[known, :size].argmax(1)
        counts = torch.bincount(named * size + label[known], minlength=size**2)
        self.confusion.copy_(counts.view(size, size) / counts.sum())

    @torch.no_grad()
    def corrected(self, scores: Tensor) -> Tensor:
        """Scores ``[V, K]`` of all nodes of a graph with corrected scores of known classes."""
        correction, power = self.prior_correction
        if correction == "none":
            return scores
        known = self.task.num_known
        total = scores[:, :known].logsumexp(1, keepdim=True)
        log_p = (scores[:, :known] - total).double()
        weight = self._class_weights(correction, log_p.exp()).clamp(min=1e-12)
        corrected = (log_p + power * weight.log()).log_softmax(1).to(scores)
        return torch.cat([corrected + total, scores[:, known:]], 1)

    def _class_weights(self, correction: str, p: Tensor) -> Tensor:
        """Weights :math:`w` ``[N]`` of a correction from a posterior ``[V, N]``."""
        if correction == "mean":
            return 1 / p.mean(0).clamp(min=1e-12)
        if correction == "labels":
            return 1 / self.source_prior.to(p)
        if correction == "em":
            return em_prior(p, self.source_prior) / self.source_prior
        predicted = torch.bincount(p.argmax(1), minlength=p.size(1)).double()
        return black_box_weights(self.confusion, predicted / predicted.sum())
