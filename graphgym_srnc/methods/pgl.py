"""PGL: progressive graph learning (Luo et al., ICML 2020) on one graph."""

from __future__ import annotations

import math
from functools import partial
from typing import Annotated, Any

import torch
from torch import Tensor, nn
from torch_geometric.data import Data

from graphgym_srnc.core.options import Count, Few, Range, Share
from graphgym_srnc.core.task import ShiftTask, Sizes
from graphgym_srnc.methods.shared.base import Method
from graphgym_srnc.methods.shared.training import Term, all_logits, cross_entropies, minimise


class PGL(Method):
    r"""Retrain the GNN from scratch in each episode on labels and a growing set of pseudo-labels.

    .. math:: \mathcal L = \text{CE}(f(x_S), y_S) + \text{CE}(f(x_K), \hat y_K)
        + \text{CE}(f(x_R), N + 1)

    In episode :math:`m` of :math:`1/\alpha`, :math:`K` holds the :math:`m\alpha\beta|U|` most
    confident of the unlabelled nodes :math:`U`, with the class that the last model predicts.
    :math:`R` holds the :math:`m\alpha(1-\beta)|U|` least confident ones, the pseudo-unknown nodes.

    Differences from the authors' code: PGL adapts one set of images to another; on one graph there
    is no edge network and no adversarial alignment. All pseudo-labels come from the newest model.

    When to use: open-set shift with validation nodes of the unknown class. It is the paper's
    strongest baseline.

    Args:
        enlarging: share :math:`\alpha` of the unlabelled nodes that get a pseudo-label per episode.
        confident: share :math:`\beta` of those that get a known class.
        steps: gradient steps per episode.
        members: number of networks from different initial weights, whose posteriors are averaged.

    References:
        Luo et al., "Progressive Graph Learning for Open-Set Domain Adaptation", ICML 2020.
    """

    cites = ("luo2020pgl",)
    with_backbone = "PGL+{}"
    search = {"enlarging": (0.1, 0.2), "confident": (0.2, 0.4, 0.6, 0.8)}
    weighs_labels = True
    number: Tensor

    def __init__(
        self,
        *,
        enlarging: Annotated[float, Range(0, 1, closed="right")] = 0.1,
        confident: Share = 0.6,
        steps: Count = 100,
        members: Few = 1,
        **base: Any,
    ) -> None:
        super().__init__(**base)
        self.enlarging = enlarging
        self.confident = confident
        self.steps = steps
        self.members = members
        self.episodes = round(1 / enlarging)
        self.register_buffer("number", torch.tensor(0))

    def build(self, task: ShiftTask | Sizes) -> None:
        super().build(task)
        self.classifier, *others = (
            self.new_classifier(task.num_outputs) for _ in range(self.members)
        )
        self.others = nn.ModuleList(others)

    def start(self, task: ShiftTask) -> dict[str, float]:
        self.setup(task)
        self.number.zero_()
        empty = task.pool[:0]
        return self._train(empty, empty, empty)

    def episode(self) -> dict[str, float]:
        pool = self.task.pool
        p = self.predict(self.task.target)[pool].softmax(1)[:, : self.task.num_known]
        confidence, prediction = p.max(1)
        self.number.add_(1)

        order = confidence.argsort(descending=True)
        share = min(1.0, int(self.number) * self.enlarging) * len(order)
        known = order[: int(share * self.confident)]
        unknown = order[len(order) - int(share * (1 - self.confident)) :]
        return self._train(pool[known], prediction[known], pool[unknown])

    @torch.no_grad()
    def logits(self, graph: Data, role: str = "target") -> Tensor:
        """Logits ``[V, N(+1)]``; of several members the logarithm of their mean posterior."""
        networks = [self.classifier, *self.others]
        prepared = self.prepared(graph)
        made = [all_logits(member, prepared, self.batch_size) for member in networks]
        # The extra logit is untrained before there are pseudo-unknown nodes.
        made = [z[:, : self.task.num_known] if self.number == 0 else z for z in made]
        if len(made) == 1:
            return made[0]
        return torch.stack(made).log_softmax(2).logsumexp(0) - math.log(len(made))

    def _train(self, nodes: Tensor, labels: Tensor, unknown: Tensor) -> dict[str, float]:
        """Train new networks, with pseudo-labels ``[n]`` of nodes and pseudo-unknown nodes."""
        self.initialise()
        task = self.task
        if not task.open_set:
            unknown = unknown[:0]
        pseudo = [
            Term("pseudo_known", self.target, nodes, labels),
            Term("pseudo_unknown", self.target, unknown, torch.full_like(unknown, task.num_known)),
        ]
        pseudo = [term for term in pseudo if len(term.nodes)]
        # Before there are pseudo-labels, the logits of known classes learn alone.
        width = None if pseudo else task.num_known
        labels = self.labels
        labelled = [Term("source", self.source, task.train, labels, 1.0, width, self.label_weights)]
        networks: list[Any] = [self.classifier, *self.others]
        figures = []
        sizes = (self.batch_size, self.fanout)
        for network in networks:
            losses = [cross_entropies(network, terms, *sizes) for terms in (labelled, pseudo)]
            optimizer = self.make_optimizer(p for p in network.parameters() if p.requires_grad)
            both = partial(lambda first, second: first() | second(), *losses)
            figures.append(minimise(network, optimizer, both, self.steps))
        mean = {name: sum(each[name] for each in figures) / len(figures) for name in figures[0]}
        if pseudo:
            mean |= {"pseudo_labels": len(nodes), "pseudo_unknowns": len(unknown)}
        return mean
