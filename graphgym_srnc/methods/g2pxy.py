"""G2Pxy: an unknown class learnt from mixed hidden states (Zhang et al., IJCAI 2023)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch_geometric.data import Data
from torch_geometric.nn.pool.select.topk import topk
from torch_geometric.utils import scatter

from graphgym_srnc.backbones import Encoder, build
from graphgym_srnc.core.options import Weight
from graphgym_srnc.core.task import ShiftTask, Sizes
from graphgym_srnc.methods.shared.supervised import Supervised

PROXY_DIM = 128
BOUNDARY = 0.1
"""Dimension of hidden states, and share of the nodes of a class that count as least confident."""


class G2Pxy(Supervised):
    r"""Learn the unknown class from mixtures of hidden states, called proxies (a variant of G2Pxy).

    .. math:: \mathcal L = \text{CE}_{N+1} + \text{CE}(f \text{ without the true class}, N+1)
        + w_1 \text{CE}(\text{inter}, N + 1) + w_2 \text{CE}(\text{external}, N + 1)

    Episode 0 learns the known classes. Each later step draws :math:`\lambda \sim \text{Beta}(1, 1)`
    and makes inter-class proxies :math:`\lambda z_i + (1 - \lambda) z_j` of adjacent nodes of
    different classes. External proxies :math:`(1 + \lambda) z_b - \lambda c_k` extrapolate from the
    centre :math:`c_k` of a class beyond its least confident nodes :math:`b`. In close-set shift it
    is a plain GNN.

    Differences from the authors' code: their external proxies are :math:`z_b - c_k`. Unlabelled
    nodes here take the class that episode 0 predicts; the authors see training nodes alone, split
    between proxies and losses. Proxies do not enter the graph.

    When to use: open-set shift if the unlabelled target must not be read in training.

    Args:
        inter_weight, external_weight: weights :math:`w_1` and :math:`w_2`.

    References:
        Zhang et al., "G2Pxy: Generative Open-Set Node Classification on Graphs with Proxy
        Unknowns", IJCAI 2023.
    """

    cites = ("zhang2023g2pxy",)
    explicit_unknown = True
    in_batches = False
    number: Tensor
    search_open = {"inter_weight": (0.01, 0.1, 1.0), "external_weight": (0.01, 0.1, 1.0)}
    checkpointed = (*Supervised.checkpointed, "predicted", "pairs", "outer")

    def __init__(
        self, *, inter_weight: Weight = 0.01, external_weight: Weight = 0.01, **base: Any
    ) -> None:
        super().__init__(**base)
        self.inter_weight = inter_weight
        self.external_weight = external_weight

    def new_classifier(self, num_outputs: int) -> Encoder:
        """The encoder of hidden states; the classes are the head's."""
        return build(self.encoder, self.task.num_features, PROXY_DIM)

    def build(self, task: ShiftTask | Sizes) -> None:
        super().build(task)
        self.head = nn.Linear(PROXY_DIM, task.num_outputs)
        self.register_buffer("number", torch.tensor(-1))  # of the last episode

    def begin(self) -> None:
        self.on_graph = self.classifier.view(self.source)

    def episode(self) -> dict[str, float]:
        self.number.add_(1)
        if self.number == 1 and self.task.open_set:
            self.find_parents()
        return super().episode()

    def losses(self) -> dict[str, Tensor]:
        task = self.task
        if self.steps_done <= self.steps or not task.open_set:  # in episode 0
            logits = self.head(self.classifier(self.on_source))[:, : task.num_known]
            return {"source": F.cross_entropy(logits, self.labels)}

        z = self.classifier(self.on_graph)
        first, second = self.drawn_parents(self.pairs)
        outer = self.drawn_parents(self.outer)
        logits = self.head(z[task.train])
        centres = scatter(z[task.train], self.labels, dim_size=task.num_known, reduce="mean")
        centre = centres[self.predicted[outer]]
        # Beta(1, 1) is the uniform distribution.
        share = torch.rand(len(first), 1, device=z.device)
        inter = share * z[first] + (1 - share) * z[second]
        share = 1 + torch.rand(len(outer), 1, device=z.device)
        external = share * z[outer] + (1 - share) * centre
        terms = {
            "source": F.cross_entropy(logits, self.labels),
            "masked": masked_cross_entropy(logits, self.labels),
            "inter": self.inter_weight * unknown_cross_entropy(self.head(inter)),
            "external": self.external_weight * unknown_cross_entropy(self.head(external)),
        }
        if not len(first):  # no edge joins two classes
            del terms["inter"]
        return terms

    def drawn_parents(self, parents: Tensor) -> Tensor:
        """Some of the pairs ``[2, n]`` or nodes ``[n]``, at most as many as labelled nodes."""
        count = parents.size(-1)
        most = len(self.task.train)
        if count <= most:
            return parents
        return parents[..., torch.randint(count, (most,), device=parents.device)]

    @torch.no_grad()
    def find_parents(self) -> None:
        """Find classes, adjacent pairs and boundary nodes with the classifier of episode 0."""
        task = self.task
        self.eval()
        logits = self.head(self.classifier(self.on_graph))[:, : task.num_known]
        confidence, self.predicted = logits.softmax(1).max(1)
        self.predicted[task.train] = self.labels
        edges = self.source.edges
        self.pairs = edges[:, self.predicted[edges[0]] != self.predicted[edges[1]]]
        self.outer = topk(-confidence, BOUNDARY, self.predicted)

    @torch.no_grad()
    def logits(self, graph: Data, role: str = "target") -> Tensor:
        logits = self.head(super().logits(graph, role))
        # The last logit is untrained before there are proxies.
        return logits[:, : self.task.num_known] if self.number == 0 else logits


def masked_cross_entropy(logits: Tensor, label: Tensor) -> Tensor:
    """Cross-entropy of the last class of ``[n, N + 1]`` without the logit of the true class."""
    true_class = F.one_hot(label, logits.size(1)).bool()
    return unknown_cross_entropy(logits.masked_fill(true_class, float("-inf")))


def unknown_cross_entropy(logits: Tensor) -> Tensor:
    """Cross-entropy of the last class, mean over nodes, of logits ``[n, N + 1]``."""
    return -logits.log_softmax(1)[:, -1].mean()
