"""Structural re-weighting (Liu et al., ICML 2023): source edges weighted so that classes meet as often as in the target."""
from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from graphgym_srnc.backbones import Graph
from graphgym_srnc.methods.supervised import Supervised

CHECKED = 200
"""Training nodes whose logits say whether a backbone reads edge weights."""


class StruRW(Supervised):
    r"""The plain GNN on a source graph whose edges between classes a and b weigh :math:`1 - \lambda + \lambda \, B^T_{ab} / B^S_{ab}`.

    :math:`B_{ab}` is the share of node pairs of classes a and b that are linked: in the source by label (by prediction where there
    is none), in the target by prediction. After each episode the weights are estimated anew. This is the authors' StruRW-ERM. A backbone
    that reads no edge weights (an MLP, attention) gains nothing, of which a warning tells.

    Args:
        strength: :math:`\lambda`.
        max_ratio: largest :math:`B^T_{ab} / B^S_{ab}`.
    """

    def __init__(self, *, strength: float = 0.8, max_ratio: float = 10.0, **base) -> None:
        super().__init__(**base)
        self.require("strength", strength, 0 <= strength <= 1, "0 to 1")
        self.require("max_ratio", max_ratio, max_ratio >= 1, "1 or more")
        self.strength, self.max_ratio = strength, max_ratio

    def episode(self) -> dict[str, float]:
        figures = self.reweight() if self.taken else {}
        return super().episode() | figures

    @torch.no_grad()
    def reweight(self) -> dict[str, float]:
        """Weigh the source's edges by what the classifier says of the target."""
        at_source = self.logits(self.task.source)[:, :self.task.num_known].argmax(1)
        at_source[self.task.train] = self.labels
        at_target = self.logits(self.task.target)[:, :self.task.num_known].argmax(1)
        links = [link_shares(graph, label, self.task.num_known) for graph, label in ((self.source, at_source), (self.target, at_target))]
        ratio = np.clip(links[1] / np.maximum(links[0], 1e-12), 1 / self.max_ratio, self.max_ratio)
        ratio[(links[0] == 0) | (links[1] == 0)] = 1  # nothing can be said of pairs of classes that never meet
        row, column = self.source.adjacency("raw").entries
        label = at_source.cpu().numpy()
        weight = 1 - self.strength + self.strength * ratio[label[row], label[column]]
        weighted = self.source.reweighted(weight.astype(np.float32))
        self.read_source(weighted)
        some = [self.classifier.eval()(self.classifier.view(graph, self.task.train[:CHECKED])) for graph in (self.source, weighted)]
        if np.ptp(weight) > 0 and torch.equal(*some):
            self.warnings.append(f"strurw: {self.encoder.kind} reads no edge weights, this is the plain GNN")
        return {"mean_edge_weight": float(weight.mean()) if len(weight) else 1.0}


def link_shares(graph: Graph, label: Tensor, num_classes: int) -> np.ndarray:
    """Share of the node pairs of two classes that are linked, ``[N, N]``."""
    row, column = graph.adjacency("raw").entries
    label = label.cpu().numpy()
    count = np.bincount(label[row] * num_classes + label[column], minlength=num_classes ** 2).reshape(num_classes, num_classes)
    size = np.bincount(label, minlength=num_classes).astype(float)
    return count / np.maximum(np.outer(size, size), 1)
