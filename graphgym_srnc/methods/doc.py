"""DOC: one sigmoid and one threshold per class (Shu et al., EMNLP 2017)."""

from __future__ import annotations

from typing import Annotated, Any

import torch
from torch import Tensor
from torch.nn import functional as F
from torch_geometric.data import Data

from graphgym_srnc.core.options import OneOf
from graphgym_srnc.core.task import ShiftTask, Sizes
from graphgym_srnc.losses.openness import doc_thresholds
from graphgym_srnc.methods.shared.supervised import Supervised
from graphgym_srnc.methods.shared.training import gather


class DOC(Supervised):
    r"""Train one sigmoid per class and reject nodes that are below the threshold of every class.

    .. math:: \mathcal L = \frac1M \sum_i \sum_{c=1}^N \text{BCE}(\sigma(f_c(x_i)), [y_i = c]),
        \quad \text{confidence}(x) = \max_c \left(\sigma(f_c(x)) - t_c\right)

    :math:`t_c = \max(0.5, 1 - 3 \sigma_c)`, where :math:`\sigma_c` is the deviation from 1 of the
    probabilities of the training nodes of class :math:`c`. With ``smoothing`` the two probabilities
    of each sigmoid are smoothed. There is no ``correction``, because sigmoids give no distribution
    over classes.

    Differences from the authors' code: validation moves their threshold of 0 on the confidence.

    When to use: many classes that should not compete for a node.

    Args:
        balanced: whether the positive nodes of a class weigh as much as its negative ones, as in
            gDOC of Open-World-LGL; False = DOC.

    References:
        Shu, Xu and Liu, "DOC: Deep Open Classification of Text Documents", EMNLP 2017.
    """

    cites = ("shu2017doc",)
    limits: Tensor
    search = {"balanced": (False, True), "correction": (), "correction_power": ()}

    def __init__(
        self,
        *,
        balanced: bool = True,
        correction: Annotated[str, OneOf("none")] = "none",
        **base: Any,
    ) -> None:
        super().__init__(correction=correction, **base)
        self.balanced = balanced

    def build(self, task: ShiftTask | Sizes) -> None:
        super().build(task)
        self.register_buffer("limits", torch.full((task.num_known,), 0.5))

    def losses(self) -> dict[str, Tensor]:
        logits = self.classifier(self.on_source)
        return {"source": one_against_rest(gather(logits), gather(self.labels), self.balanced)}

    @torch.no_grad()
    def store_statistics(self) -> None:
        if self.task.open_set:
            scores = self._sigmoid_logits(self.task.source)[self.task.train]
            self.limits.copy_(doc_thresholds(scores.sigmoid(), self.labels))

    @torch.no_grad()
    def uncorrected(self, graph: Data, role: str = "target") -> Tensor:
        """Logits of the sigmoids ``[V, N]``; in open-set shift minus the confidence is last."""
        scores = self._sigmoid_logits(graph, role)
        if not self.task.open_set:
            return scores
        return torch.cat([scores, -(scores.sigmoid() - self.limits).amax(1, keepdim=True)], 1)

    def confidence(self, scores: Tensor) -> Tensor:
        return -scores[:, -1] if self.task.open_set else super().confidence(scores)

    def log_odds(self, confidence: Tensor) -> Tensor:
        return confidence  # which is no probability

    def _sigmoid_logits(self, graph: Data, role: str = "target") -> Tensor:
        logits = self.logits(graph, role)
        if not self.smoothing:
            return logits
        # Both probabilities of all sigmoids form one distribution.
        count = logits.size(1)
        share = torch.cat([logits.sigmoid(), (-logits).sigmoid()], 1) / count
        return (self.smooth(share, graph)[:, :count] * count).logit(eps=1e-6)


def one_against_rest(logits: Tensor, label: Tensor, balanced: bool) -> Tensor:
    """Binary cross-entropy of logits ``[n, N]``: sum over classes, mean over nodes.

    ``balanced`` weights positive nodes by the ratio of negative to positive ones.
    """
    wanted = F.one_hot(label, logits.size(1)).to(logits.dtype)
    positive = wanted.sum(0)
    weight = (len(label) - positive) / positive.clamp(min=1) if balanced else None
    loss = F.binary_cross_entropy_with_logits(logits, wanted, reduction="sum", pos_weight=weight)
    return loss / len(label)
