"""G2Pxy: an unknown class learnt from mixed hidden states (Zhang et al., IJCAI 2023)."""

from __future__ import annotations

from typing import Annotated

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch_geometric.data import Data

from graphgym_srnc.backbones import Encoder, build
from graphgym_srnc.core.options import Count, Positive, Range, Weight
from graphgym_srnc.core.task import ShiftTask, Sizes
from graphgym_srnc.methods.shared.supervised import Supervised


class G2Pxy(Supervised):
    r"""Learn the unknown class from mixtures of hidden states, called proxies (a variant of G2Pxy).

    .. math:: \mathcal L = \text{CE}_{N+1} + w_1 \text{CE}(f \text{ without the true class}, N+1)
        + w_2 \text{CE}(\text{inter}, N + 1) + w_3 \text{CE}(\text{external}, N + 1)

    Episode 0 learns the known classes. Each later step draws :math:`\lambda \sim \text{Beta}(1, 1)`
    and makes inter-class proxies :math:`\lambda z_i + (1 - \lambda) z_j` of adjacent nodes of
    different classes. External proxies :math:`(1 + \lambda) z_b - \lambda c_k` extrapolate from the
    centre :math:`c_k` of a class beyond its least confident nodes :math:`b`. The confidence is
    :math:`\log p_\text{best known class} - \log p_{N+1}`. In close-set shift it is a plain GNN.

    Differences from the authors' code: their external proxies are :math:`z_b - c_k`. Unlabelled
    nodes here take the class that episode 0 predicts, while the authors see training nodes alone.
    All labelled nodes give losses; theirs are split between proxies and losses. Proxies do not
    enter the graph.

    When to use: open-set shift if the unlabelled target must not be read in training.

    Args:
        proxy_dim: dimension of :math:`z`.
        ratio: maximum number of proxies of each kind per step, divided by the number of labelled
            nodes.
        boundary: share of the nodes of a class that count as least confident.
        masked_weight: weight :math:`w_1`.
        inter_weight: weight :math:`w_2`.
        external_weight: weight :math:`w_3`.

    References:
        Zhang et al., "G2Pxy: Generative Open-Set Node Classification on Graphs with Proxy
        Unknowns", IJCAI 2023.
    """

    explicit_unknown = True
    search_open = {"inter_weight": (0.01, 0.1, 1.0), "external_weight": (0.01, 0.1, 1.0)}
    kept = (*Supervised.kept, "named", "pairs", "outer")

    def __init__(
        self,
        *,
        proxy_dim: Count = 128,
        ratio: Positive = 1.0,
        boundary: Annotated[float, Range(0, 1, closed="right")] = 0.1,
        masked_weight: Weight = 1.0,
        inter_weight: Weight = 0.01,
        external_weight: Weight = 0.01,
        **base,
    ) -> None:
        super().__init__(**base)
        self.proxy_dim, self.ratio, self.boundary = proxy_dim, ratio, boundary
        self.masked_weight, self.inter_weight = masked_weight, inter_weight
        self.external_weight = external_weight
        self.register_buffer("number", torch.tensor(-1))

    def new_classifier(self, num_outputs: int) -> Encoder:
        """The encoder of hidden states; the classes are the head's."""
        return build(self.encoder, self.task.num_features, self.proxy_dim)

    def start(self, task: ShiftTask) -> dict[str, float]:
        self.number.fill_(-1)
        return super().start(task)

    def build(self, task: ShiftTask | Sizes) -> None:
        super().build(task)
        self.head = nn.Linear(self.proxy_dim, task.num_outputs)

    def begin(self) -> None:
        if self.task.open_set:
            whole = self.batches if self.batch_size else self.classifier.view
            self.on_graph = whole(self.source)

    def episode(self) -> dict[str, float]:
        self.number += 1
        if self.number == 1 and self.task.open_set:
            self._find_parents()
        return super().episode()

    def losses(self) -> dict[str, Tensor]:
        task = self.task
        if self.taken <= self.steps or not task.open_set:  # in episode 0
            logits = self.head(self.classifier(self.on_source))[:, : task.num_known]
            return {"source": F.cross_entropy(logits, self.labels)}

        z = None if self.batch_size else self.classifier(self.on_graph)
        train = task.train[self.drawn]
        pairs, outer = self._draw_parents(train)
        named = self.named[outer]
        if self.batch_size:
            # From here on nodes are rows of a view of these nodes alone.
            nodes, row = torch.cat([train, *pairs, outer]).unique(return_inverse=True)
            z = self.classifier(self.on_graph.at(nodes))
            sizes = [len(train), len(pairs[0]), len(pairs[1]), len(outer)]
            train, *pairs, outer = row.split(sizes)

        logits = self.head(z[train])
        centre = class_centres(z[train], self.labels, task.num_known)[named]
        # Beta(1, 1) is the uniform distribution.
        inter = mix(z[pairs[0]], z[pairs[1]], torch.rand(len(pairs[0]), 1, device=z.device))
        external = mix(z[outer], centre, 1 + torch.rand(len(outer), 1, device=z.device))
        return {
            "source": F.cross_entropy(logits, self.labels),
            "masked": self.masked_weight * masked_cross_entropy(logits, self.labels),
            "inter": self.inter_weight * unknown_cross_entropy(self.head(inter)),
            "external": self.external_weight * unknown_cross_entropy(self.head(external)),
        }

    def _draw_parents(self, train: Tensor) -> tuple[Tensor, Tensor]:
        """Pairs ``[2, n]`` and boundary nodes ``[n]`` that the proxies of a step are made of."""
        pairs, outer = self.pairs, self.outer
        count = max(1, round(self.ratio * len(train)))
        if not pairs.size(1):
            pairs = train[random_pairs(self.labels, count)]
        elif pairs.size(1) > count:
            pairs = pairs[:, torch.randint(pairs.size(1), (count,), device=pairs.device)]

        if self.batch_size:  # it has centres of its own classes only
            outer = outer[torch.isin(self.named[outer], self.labels)]
        if len(outer) > count:
            outer = outer[torch.randint(len(outer), (count,), device=outer.device)]
        return pairs, outer

    @torch.no_grad()
    def _find_parents(self) -> None:
        """The classes, adjacent pairs and boundary nodes, by the classifier of episode 0."""
        task = self.task
        self.eval()
        z = super().logits(task.source) if self.batch_size else self.classifier(self.on_graph)
        confidence, self.named = self.head(z)[:, : task.num_known].softmax(1).max(1)
        self.named[task.train] = self.labels
        edges = self.source.edges
        self.pairs = edges[:, self.named[edges[0]] != self.named[edges[1]]]
        self.outer = boundary_nodes(confidence, self.named, self.boundary)

    @torch.no_grad()
    def logits(self, graph: Data, role: str = "target") -> Tensor:
        logits = self.head(super().logits(graph, role))
        # Before there are proxies the last logit is untrained.
        return logits[:, : self.task.num_known] if self.number == 0 else logits


def masked_cross_entropy(logits: Tensor, label: Tensor) -> Tensor:
    """Cross-entropy of the last class where a node's own class is left out.

    Args:
        logits: ``[n, N + 1]``.
        label: classes, ``[n]``.
    """
    true_class = F.one_hot(label, logits.size(1)).bool()
    return unknown_cross_entropy(logits.masked_fill(true_class, float("-inf")))


def unknown_cross_entropy(logits: Tensor) -> Tensor:
    """Cross-entropy of the last class, mean over nodes, of logits ``[n, N + 1]``."""
    return -logits.log_softmax(1)[:, -1].mean()


def mix(first: Tensor, second: Tensor, share: Tensor) -> Tensor:
    """The mixture ``[n, K]`` of two states with ``share`` ``[n, 1]`` of the first; above 1 it lies
    beyond the first."""
    return share * first + (1 - share) * second


def class_centres(z: Tensor, label: Tensor, num_classes: int) -> Tensor:
    """Mean state ``[N, K]`` of each class of states ``[n, K]``; 0 for one without a node."""
    total = z.new_zeros(num_classes, z.size(1)).index_add(0, label, z)
    # bincount would wait for a GPU.
    size = label.new_zeros(num_classes).index_add(0, label, torch.ones_like(label))
    return total / size.clamp(min=1)[:, None]


def boundary_nodes(confidence: Tensor, label: Tensor, share: float) -> Tensor:
    """Ids of the least sure ``share`` of each class's nodes, one at least, of figures ``[V]``."""
    order = confidence.argsort(stable=True)
    order = order[label[order].argsort(stable=True)]
    size = torch.bincount(label)
    first = (size.cumsum(0) - size)[label[order]]
    rank = torch.arange(len(order), device=order.device) - first
    return order[rank < (size * share).ceil()[label[order]]]


def random_pairs(label: Tensor, count: int) -> Tensor:
    """Random pairs ``[2, count]`` of positions in ``label`` ``[n]`` with different classes."""
    order = label.argsort(stable=True)
    first = torch.randint(len(label), (count,), device=label.device)
    # Of positions sorted by class, those after a class's block, taken cyclically, are all of other
    # classes.
    begin, end = (
        torch.searchsorted(label[order], label[first], right=side) for side in (False, True)
    )
    others = len(label) - (end - begin)
    step = (torch.rand(count, device=label.device) * others).long()
    return torch.stack([first, order[(end + step) % len(label)]])
