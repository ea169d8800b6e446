"""UDAGCN: two views of each graph and an adversary (Wu et al., WWW 2020)."""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor, nn
from torch_geometric.data import Data

from graphgym_srnc.backbones import Encoder, Graph, View, build
from graphgym_srnc.core.options import Weight
from graphgym_srnc.core.task import ShiftTask, Sizes
from graphgym_srnc.losses.adversarial import adversarial_loss
from graphgym_srnc.methods.shared.scores import Scored

_ppmi_graphs: WeakKeyDictionary[Graph, Graph] = WeakKeyDictionary()
"""Each graph with :func:`ppmi` as its adjacency."""


class UDAGCN(Scored):
    r"""Combine the graph and its PPMI graph by attention, with an adversary and an entropy loss.

    .. math:: z = \sum_{v \in \{A, P\}} a_v h_v, \quad a = \text{softmax}_v(h_v u), \quad
        \mathcal L = \text{CE}(f_S) + \text{BCE}(d(R_\lambda(z_S)), 1)
        + \text{BCE}(d(R_\lambda(z_T)), 0) + w_e(p) \, H(f_T)

    One encoder reads each graph twice: with its adjacency :math:`A`, and with the positive
    pointwise mutual information :math:`P` of nodes that random walks meet. :math:`f` is linear in
    :math:`z`, and the weight :math:`w_e` of the mean entropy :math:`H` rises linearly.

    Differences from the authors' code: negative information is 0, the information of a node on
    itself is a self-loop of 1, and the mean of all weights is not part of the loss. The published
    figures are not reached. ``gatconv``, ``gatdrop`` and ``mlp`` read no weights of the PPMI graph.

    The PPMI depends on the number of nodes, and its random walks are drawn for each graph. A node
    may therefore be predicted otherwise as part of a larger graph.

    Args:
        strength: maximum :math:`\lambda`; before it is reached, :math:`\lambda` is the share of
            training that is done.
        entropy_weight: weight :math:`w_e` at the end.

    References:
        Wu et al., "Unsupervised Domain Adaptive Graph Convolutional Networks", WWW 2020.
    """

    cites = ("wu2020udagcn",)
    in_batches = False
    encoder_defaults = {"features": "none", "hidden": 128, "dropout": 0.4}
    search = {"strength": (0.01, 0.05, 0.2), "entropy_weight": (0.0, 0.01, 0.1)}

    def __init__(
        self, *, strength: Weight = 0.05, entropy_weight: Weight = 0.01, **base: Any
    ) -> None:
        super().__init__(**base)
        self.strength = strength
        self.entropy_weight = entropy_weight

    def new_classifier(self, num_outputs: int) -> Encoder:
        """The encoder of both views; the classes are the head's."""
        return build(self.encoder, self.task.num_features, self.encoder.hidden)

    def build(self, task: ShiftTask | Sizes) -> None:
        super().build(task)
        self.attention = nn.Linear(self.encoder.hidden, 1)
        self.head = nn.Linear(self.encoder.hidden, task.num_known)

    def begin(self) -> None:
        self.source_views = self._views(self.source)
        self.target_views = self._views(self.target)
        self.domain = nn.Sequential(
            nn.Linear(self.encoder.hidden, 40),
            nn.ReLU(),
            nn.Dropout(self.encoder.dropout),
            nn.Linear(40, 1),
        )

    def losses(self) -> dict[str, Tensor]:
        source = self.embed(self.source_views)[self.task.train]
        target = self.embed(self.target_views)[self.task.pool]
        strength = min(self.progress, self.strength)
        log_p = self.head(target).log_softmax(1)
        entropy = -(log_p.exp() * log_p).sum(1).mean()
        return {
            "source": self.source_loss(self.head(source)),
            "domain": adversarial_loss(self.domain, strength, source, target),
            "entropy": self.entropy_weight * self.progress * entropy,
        }

    def embed(self, views: list[View]) -> Tensor:
        """The mixed embedding ``[V, H]`` of both views."""
        both = torch.stack([self.classifier(view) for view in views], 1)
        return (both * self.attention(both).softmax(1)).sum(1)

    @torch.no_grad()
    def logits(self, graph: Data, role: str = "target") -> Tensor:
        self.eval()
        return self.head(self.embed(self._views(self.prepared(graph))))

    def _views(self, graph: Graph) -> list[View]:
        if graph not in _ppmi_graphs:
            _ppmi_graphs[graph] = graph.rewired(ppmi(graph.adjacency("raw").matrix))
        return [self.classifier.view(graph), self.classifier.view(_ppmi_graphs[graph])]


def ppmi(adjacency: sp.csr_array, walks: int = 40, length: int = 10) -> sp.csr_array:
    r"""PPMI matrix of random walks, ``[V, V]``, without its diagonal.

    .. math:: P_{ab} = \max\Big(0, \log \frac{p_{ab} V}{L \sum_c p_{cb}}\Big)

    :math:`p_{ab}` is the share of the visits of walks from :math:`a` that are to node :math:`b`.
    The length of a walk is uniform in 1 to :math:`L`, which is ``length``.
    There are ``walks`` walks from each node, the same at each call.
    """
    rng = np.random.default_rng(0)
    num_nodes = adjacency.shape[0]
    first = adjacency.indptr.astype(np.int64)
    degree = np.diff(adjacency.indptr)
    start = np.repeat(np.flatnonzero(degree), walks)
    left = rng.integers(1, length + 1, len(start))
    here = start
    met = []
    while len(start):
        drawn = first[here] + (rng.random(len(here)) * degree[here]).astype(np.int64)
        here = adjacency.indices[drawn].astype(np.int64)
        met.append(start * num_nodes + here)
        left = left - 1
        start, here, left = (part[left > 0] for part in (start, here, left))

    pair, count = np.unique(np.concatenate([start, *met]), return_counts=True)
    a, b = np.divmod(pair, num_nodes)
    share = count / np.bincount(a, count, minlength=num_nodes)[a]
    total = np.bincount(b, share, minlength=num_nodes)
    information = np.log(share * np.count_nonzero(degree) / (length * total[b]))
    kept = (information > 0) & (a != b)
    values = information[kept].astype(np.float32)
    return sp.csr_array((values, (a[kept], b[kept])), shape=adjacency.shape)
