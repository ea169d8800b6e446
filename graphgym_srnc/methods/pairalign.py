"""Pair-Align: reweighted source edges and labels (Liu et al., ICML 2024)."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from graphgym_srnc.backbones import Graph
from graphgym_srnc.core.options import Positive
from graphgym_srnc.losses.prior import conditional_ratio, shift_weights
from graphgym_srnc.methods.shared.scores import Scored

FLOOR = 1e-4  # added to the shares of pairs, which draws the ratios of rare pairs to 1


class PairAlign(Scored):
    r"""Train a plain GNN on a source whose edges and labels are reweighted to match the target.

    .. math:: \min_{w \ge 0} \lVert C w - \mu_T \rVert^2 + \lambda \lVert w - 1 \rVert^2
        \quad \text{with} \quad \mu_S^\top w = 1

    A message from class :math:`b` to class :math:`a` weighs :math:`P_T(b | a) / P_S(b | a)`, a
    training node of class :math:`a` :math:`P_T(a) / P_S(a)`. Both ratios solve the program above,
    where :math:`C` is the confusion of the source and :math:`\mu_T` the mean prediction of the
    target, of nodes or of linked pairs. They are estimated again in each episode.

    Differences from the authors' code: unlabelled source nodes have the predicted class, and the
    confusion of nodes is that of training nodes. A backbone that reads no edge weights uses those
    of labels alone.

    When to use: the class shares differ, or the classes that a class is linked to.

    Args:
        edge_ridge, label_ridge: ridge :math:`\lambda` of pairs and labels; it draws ratios to 1.

    References:
        Liu et al., "Pairwise Alignment Improves Graph Domain Adaptation", ICML 2024.
    """

    cites = ("liu2024pairalign",)
    title = "Pair-Align"
    weighs_labels = False
    search = {"edge_ridge": (0.5, 1.0, 3.0, 10.0), "label_ridge": (0.01, 0.1)}

    def __init__(
        self, *, edge_ridge: Positive = 3.0, label_ridge: Positive = 0.01, **base: Any
    ) -> None:
        super().__init__(**base)
        self.edge_ridge = edge_ridge
        self.label_ridge = label_ridge

    def begin(self) -> None:
        self.class_weight = torch.ones(self.task.num_known, device=self.task.device)

    def losses(self) -> dict[str, Tensor]:
        each = F.cross_entropy(self.classifier(self.on_source), self.labels, reduction="none")
        return {"source": (self.class_weight[self.labels] * each).mean()}

    def episode(self) -> dict[str, float]:
        figures = self.reweight() if self.steps_done else {}
        return super().episode() | figures

    @torch.no_grad()
    def reweight(self) -> dict[str, float]:
        """Weight the source's edges and labels by the predictions on both graphs."""
        task = self.task
        train = self.task.train.cpu().numpy()
        logits = (self.logits(graph, task.role_of(graph)) for graph in (task.source, task.target))
        p, q = (h.softmax(1).double().cpu().numpy() for h in logits)
        label = p.argmax(1)
        label[train] = self.labels.cpu().numpy()
        truth = np.eye(task.num_known)[label]

        confusion = p[train].T @ truth[train] / len(train)
        shares = truth[train].mean(0)
        on_target = q[task.pool.cpu().numpy()].mean(0)
        beta = shift_weights(confusion, on_target, shares, self.label_ridge)
        self.class_weight = torch.from_numpy(beta).float().to(task.device)

        predicted = pairs(self.source, p)
        true = pairs(self.source, truth)
        other = pairs(self.target, q)
        weight = np.ones(len(true), dtype=np.float32)
        if len(true) and len(other):
            shares = true.mean(0)
            confusion = predicted.T @ true / len(true)
            ratio = shift_weights(confusion, other.mean(0), shares, self.edge_ridge)
            square = task.num_known, task.num_known
            gamma = conditional_ratio(ratio.reshape(square), shares.reshape(square), FLOOR)
            weight = (true @ gamma.ravel()).astype(np.float32)
        self.set_source(self.source.reweighted(weight))
        return {"mean_edge_weight": float(weight.mean()) if len(weight) else 1.0}


def pairs(graph: Graph, h: np.ndarray) -> np.ndarray:
    """Products of the class shares ``[V, N]`` of both ends of each entry of A, ``[2m, N^2]``."""
    row, column = graph.adjacency("raw").entries
    return (h[row][:, :, None] * h[column][:, None]).reshape(len(row), -1)
