"""StruRW: structural reweighting of source edges (Liu et al., ICML 2023)."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from graphgym_srnc.backbones import Graph
from graphgym_srnc.core.options import Share
from graphgym_srnc.methods.shared.scores import Scored

MAX_RATIO = 10.0  # of link shares; the minimum is the inverse
READERS = ("gcnconv", "sageconv", "sgconv", "dgi", "sign")  # backbones that read edge weights


class StruRW(Scored):
    r"""Train a plain GNN on a source graph whose edges are reweighted to match the target.

    .. math:: \text{weight}(a, b) = 1 - \lambda + \lambda \, B^T_{ab} / B^S_{ab}

    :math:`B_{ab}` is the share of node pairs of classes :math:`a` and :math:`b` that are linked.
    Source classes are labels, or predictions where there is none; target classes are predictions.
    The weights are estimated again before every episode after episode 0, so use several short
    episodes. A pair of classes without edges keeps weight 1.

    Differences from the authors' code: this is their StruRW-ERM, without adversarial training or
    mixup.

    When to use: graphs whose classes are linked differently.

    Args:
        strength: strength :math:`\lambda` of the reweighting.

    References:
        Liu et al., "Structural Re-weighting Improves Graph Domain Adaptation", ICML 2023.
    """

    cites = ("liu2023strurw",)
    search = {"strength": (0.2, 0.4, 0.6, 0.8, 1.0)}

    def __init__(self, *, strength: Share = 0.8, **base: Any) -> None:
        super().__init__(**base)
        self.strength = strength

    def begin(self) -> None:
        if self.encoder.kind not in READERS:
            self.warnings["reweighting"] = (
                f"strurw weighs edges, which layers of type {self.encoder.kind} may ignore."
            )

    def episode(self) -> dict[str, float]:
        figures = self.reweight() if self.steps_done else {}
        return super().episode() | figures

    @torch.no_grad()
    def reweight(self) -> dict[str, float]:
        """Weight the source's edges by the linked classes in the target's predictions."""
        graphs = self.task.source, self.task.target
        on_source, on_target = (self.logits(graph).argmax(1) for graph in graphs)
        on_source[self.task.train] = self.labels
        label = on_source.cpu().numpy()
        num_known = self.task.num_known
        source_links = link_shares(self.source, label, num_known)
        target_links = link_shares(self.target, on_target.cpu().numpy(), num_known)

        ratio = target_links / np.maximum(source_links, 1e-12)
        ratio = np.clip(ratio, 1 / MAX_RATIO, MAX_RATIO)
        ratio[(source_links == 0) | (target_links == 0)] = 1  # pairs of classes without edges

        row, column = self.source.adjacency("raw").entries
        weight = 1 - self.strength + self.strength * ratio[label[row], label[column]]
        self.set_source(self.source.reweighted(weight.astype(np.float32)))
        return {"mean_edge_weight": float(weight.mean()) if len(weight) else 1.0}


def link_shares(graph: Graph, label: np.ndarray, num_classes: int) -> np.ndarray:
    """Share of the node pairs of two classes that are linked, ``[N, N]``, by labels ``[V]``."""
    row, column = graph.adjacency("raw").entries
    count = np.zeros((num_classes, num_classes))
    np.add.at(count, (label[row], label[column]), 1)
    size = np.bincount(label, minlength=num_classes).astype(float)
    return count / np.maximum(np.outer(size, size), 1)
