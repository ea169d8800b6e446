"""Structural re-weighting (Liu et al., ICML 2023): source edges weighted as the target has them."""
from __future__ import annotations

from typing import Annotated

import numpy as np
import torch
from torch import Tensor

from graphgym_srnc.backbones import Graph
from graphgym_srnc.methods.scores import Scored
from graphgym_srnc.options import Range, Share

CHECKED = 200
"""Training nodes whose logits say whether a backbone reads edge weights."""


class StruRW(Scored):
    r"""The plain GNN on a source graph whose edges between classes :math:`a` and :math:`b` weigh
    :math:`1 - \lambda + \lambda \, B^T_{ab} / B^S_{ab}`.

    :math:`B_{ab}` is the share of node pairs of classes a and b that are linked: in the source by
    label (by prediction where there is none), in the target by prediction. After each episode the
    weights are estimated anew. This is the authors' StruRW-ERM. A backbone that reads no edge
    weights (an MLP, attention) gains nothing, of which a warning tells.

    Args:
        strength: :math:`\lambda`.
        max_ratio: largest :math:`B^T_{ab} / B^S_{ab}`.
    """

    search = {"strength": (0.2, 0.4, 0.6, 0.8, 1.0)}

    def __init__(self, *, strength: Share = 0.8, max_ratio: Annotated[float, Range(1)] = 10.0,
                 **base) -> None:
        super().__init__(**base)
        self.strength, self.max_ratio = strength, max_ratio

    def episode(self) -> dict[str, float]:
        figures = self.reweight() if self.taken else {}
        return super().episode() | figures

    @torch.no_grad()
    def reweight(self) -> dict[str, float]:
        """Weigh the source's edges by what the classifier says of the target."""
        num_known = self.task.num_known
        on_source = self.logits(self.task.source)[:, :num_known].argmax(1)
        on_source[self.task.train] = self.labels
        on_target = self.logits(self.task.target)[:, :num_known].argmax(1)
        source_links = link_shares(self.source, on_source, num_known)
        target_links = link_shares(self.target, on_target, num_known)

        ratio = target_links / np.maximum(source_links, 1e-12)
        ratio = np.clip(ratio, 1 / self.max_ratio, self.max_ratio)
        # Nothing can be said of pairs of classes that never meet.
        ratio[(source_links == 0) | (target_links == 0)] = 1

        row, column = self.source.adjacency("raw").entries
        label = on_source.cpu().numpy()
        weight = 1 - self.strength + self.strength * ratio[label[row], label[column]]
        weighted = self.source.reweighted(weight.astype(np.float32))
        self.read_source(weighted)
        self._check_weights_are_read(weighted, weight)
        return {"mean_edge_weight": float(weight.mean()) if len(weight) else 1.0}

    def _check_weights_are_read(self, weighted: Graph, weight: np.ndarray) -> None:
        nodes, classifier = self.task.train[:CHECKED], self.classifier.eval()
        outputs = [classifier(classifier.view(graph, nodes)) for graph in (self.source, weighted)]
        if np.ptp(weight) > 0 and torch.equal(*outputs):
            kind = self.encoder.kind
            self.warnings.append(f"strurw: {kind} reads no edge weights, this is the plain GNN")


def link_shares(graph: Graph, label: Tensor, num_classes: int) -> np.ndarray:
    """Share of the node pairs of two classes that are linked, ``[N, N]``."""
    row, column = graph.adjacency("raw").entries
    label = label.cpu().numpy()
    pair = label[row] * num_classes + label[column]
    count = np.bincount(pair, minlength=num_classes ** 2).reshape(num_classes, num_classes)
    size = np.bincount(label, minlength=num_classes).astype(float)
    return count / np.maximum(np.outer(size, size), 1)
