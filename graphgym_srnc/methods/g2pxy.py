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
    number: Tensor
    named: Tensor
    pairs: Tensor
    outer: Tensor
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
        if self.batch_size:
            self.on_nodes = self.batches(self.source)
        else:
            self.on_graph = self.classifier.view(self.source)

    def episode(self) -> dict[str, float]:
        self.number.add_(1)
        if self.number == 1 and self.task.open_set:
            self._find_parents()
        return super().episode()

    def losses(self) -> dict[str, Tensor]:
        task = self.task
        if self.taken <= self.steps or not task.open_set:  # in episode 0
            logits = self.head(self.classifier(self.on_source))[:, : task.num_known]
            return {"source": F.cross_entropy(logits, self.labels)}

        train = task.train[self.drawn]
        if self.batch_size:
            (first, second), outer = self._draw_parents(train)
            named = self.named[outer]
            # From here on nodes are rows of a view of these nodes alone.
            nodes, row = torch.cat([train, first, second, outer]).unique(return_inverse=True)
            z = self.classifier(self.on_nodes.at(nodes))
            train, first, second, outer = row.split([*map(len, (train, first, second, outer))])
        else:
            z = self.classifier(self.on_graph)
            (first, second), outer = self._draw_parents(train)
            named = self.named[outer]

        logits = self.head(z[train])
        centre = class_centres(z[train], self.labels, task.num_known)[named]
        # Beta(1, 1) is the uniform distribution.
        inter = mix(z[first], z[second], torch.rand(len(first), 1, device=z.device))
        external = mix(z[outer], centre, 1 + torch.rand(len(outer), 1, device=z.device))
        return {
            "source": F.cross_entropy(logits, self.labels),
            "masked": self.masked_weight * masked_cross_entropy(logits, self.labels),
            "inter": self.inter_weight * unknown_cross_entropy(self.head(inter)),
            "external": self.external_weight * unknown_cross_entropy(self.head(external)),
        }

    def _draw_parents(self, train: Tensor) -> tuple[Tensor, Tensor]:
        """Pairs ``[2, n]`` and boundary nodes ``[n]`` for the proxies of a step."""
        pairs, outer = self.pairs, self.outer
        count = max(1, round(self.ratio * len(train)))
        if not pairs.size(1):
            pairs = train[random_pairs(self.labels, count)]
        elif pairs.size(1) > count:
            pairs = pairs[:, torch.randint(pairs.size(1), (count,), device=pairs.device)]

        if self.batch_size:  # only classes in the batch have a centre
            outer = outer[torch.isin(self.named[outer], self.labels)]
        if len(outer) > count:
            outer = outer[torch.randint(len(outer), (count,), device=outer.device)]
        return pairs, outer

    @torch.no_grad()
    def _find_parents(self) -> None:
        """Find classes, adjacent pairs and boundary nodes with the classifier of episode 0."""
        task = self.task
        self.eval()
        z = super().logits(task.source) if self.batch_size else self.classifier(self.on_graph)
        confidence, self.named = self.head(z)[:, : task.num_known].softmax(1).max(1)
        self.named[task.train] = self.labels
        edges = self.source.edges
        self.pairs = edges[:, self.named[edges[0]] != self.named[edges[1]]]
        self.outer = boundary_nodes(confidence, self.named, self.boundary)

    @torch.no_grad()
    def logits(self, graph: Data, role: str = "target", nodes: Tensor | None = None) -> Tensor:
        logits = self.head(super().logits(graph, role, nodes))
        # The last logit is untrained before there are proxies.
        return logits[:, : self.task.num_known] if self.number == 0 else logits


def masked_cross_entropy(logits: Tensor, label: Tensor) -> Tensor:
    """Cross-entropy of the last class without the logit of a node's own class.

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
    """Mixture ``[n, K]`` of two states with ``share`` ``[n, 1]`` of the first.

    A share above 1 extrapolates beyond the first state.
    """
    return share * first + (1 - share) * second


def class_centres(z: Tensor, label: Tensor, num_classes: int) -> Tensor:
    """Mean state ``[N, K]`` of each class of states ``[n, K]``; 0 for a class without nodes."""
    total = z.new_zeros(num_classes, z.size(1)).index_add(0, label, z)
    # bincount would synchronise with a GPU.
    size = label.new_zeros(num_classes).index_add(0, label, torch.ones_like(label))
    return total / size.clamp(min=1)[:, None]


def boundary_nodes(confidence: Tensor, label: Tensor, share: float) -> Tensor:
    """Ids of the least confident ``share`` of the nodes of each class, at least one per class."""
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
    # In the order of classes, the cyclic rest after a class's block belongs to other classes.
    begin, end = (
        torch.searchsorted(label[order], label[first], right=side) for side in (False, True)
    )
    others = len(label) - (end - begin)
    step = (torch.rand(count, device=label.device) * others).long()
    return torch.stack([first, order[(end + step) % len(label)]])
