"""Gradient steps and inference that methods share."""

from __future__ import annotations

from typing import Callable, Iterable, NamedTuple, Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch_geometric.data import Data

from graphgym_srnc.backbones import Batches, Encoder, Graph, infer, prepare
from graphgym_srnc.core import parallel, progress
from graphgym_srnc.core.options import Weight

MakeOptimizer = Callable[[Iterable[nn.Parameter]], torch.optim.Optimizer]

WINDOW, FALL, BELOW = 20, 0.9, 0.5
"""A loss has converged when its mean over so many steps is no tenth below that over as many before,
and less than half of the first step's: with many classes it stays at chance before it falls."""

LOOK = 5
"""Steps between two looks at whether a loss has converged, since a device waits for each."""


def adam(
    parameters: Iterable[nn.Parameter], *, lr: Weight = 0.01, weight_decay: Weight = 5e-4
) -> torch.optim.Optimizer:
    """Adam with the paper's learning rate and weight decay (Parameter Settings)."""
    return torch.optim.Adam(parameters, lr=lr, weight_decay=weight_decay, fused=True)


def minimise(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    losses: Callable[[], dict[str, Tensor]],
    steps: int,
    until_converged: bool = False,
) -> dict[str, float]:
    """Take gradient steps on the sum of the terms that ``losses()`` gives, in training mode, all of
    them or, in a single process, until it has converged.

    Processes that train together average their gradients. A loss that is no mean over nodes has to
    read the rows of all of them, see :func:`graphgym_srnc.core.parallel.gather`.

    Returns:
        The terms at the last step.
    """
    terms: dict[str, Tensor] = {}
    history: list[Tensor] = []
    model.train()
    with parallel.own_draws():
        for _ in progress.steps(steps):
            terms = losses()
            total = sum(terms.values())
            optimizer.zero_grad()
            total.backward()
            parallel.average(p for group in optimizer.param_groups for p in group["params"])
            optimizer.step()
            if until_converged:
                history.append(total.detach())
                if len(history) % LOOK == 0 and converged(history):
                    break
    return parallel.mean({name: float(term.detach()) for name, term in terms.items()})


def converged(losses: Sequence[Tensor]) -> bool:
    r"""Whether a loss, :math:`L_1 \dots L_t` by step, has been learned and no longer falls,
    :math:`0.9\, \bar L_{t-40..t-20} < \bar L_{t-20..t} < 0.5\, L_1` (line 12 of Algorithm 1)."""
    if len(losses) < 2 * WINDOW:
        return False
    first, *recent = torch.stack([losses[0], *losses[-2 * WINDOW :]]).tolist()
    before, last = sum(recent[:WINDOW]) / WINDOW, sum(recent[WINDOW:]) / WINDOW
    return FALL * before < last < BELOW * first


class Part(NamedTuple):
    """One term of a classifier's loss: the cross-entropy (Eq. 2 of the paper) on some nodes.

    Args:
        name: of the term.
        graph: the graph that holds the nodes.
        nodes, labels: node ids and classes, both ``[n]``.
        weight: of the term.
        num_classes: use the first so many logits only, as before there is an unknown class.
    """

    name: str
    graph: Graph
    nodes: Tensor
    labels: Tensor
    weight: float = 1.0
    num_classes: int | None = None


def fit_parts(
    model: Encoder,
    optimizer: torch.optim.Optimizer,
    parts: Sequence[Part],
    steps: int,
    batch_size: int = 0,
    fanout: int = 0,
) -> dict[str, float]:
    """Minimise the weighted sum of the mean cross-entropies of some parts.

    Args:
        model, optimizer: the classifier and its optimiser.
        parts: the terms.
        steps: number of gradient steps.
        batch_size, fanout: those of :class:`Method`.

    Returns:
        The last terms by name.
    """
    return minimise(model, optimizer, part_losses(model, parts, batch_size, fanout), steps)


def part_losses(
    model: Encoder, parts: Sequence[Part], batch_size: int = 0, fanout: int = 0
) -> Callable[[], dict[str, Tensor]]:
    """A function that gives the terms of :func:`fit_parts` at its next step.

    Args:
        model: what makes logits of views, an encoder or what can be called like one.
        parts, batch_size, fanout: those of :func:`fit_parts`.
    """
    # Nodes of one graph share one view: their neighbourhoods overlap.
    groups = [
        [part for part in parts if part.graph is graph]
        for graph in dict.fromkeys(part.graph for part in parts)
    ]
    views = [
        Batches(model, group[0].graph, [part.nodes for part in group], batch_size, fanout)
        for group in groups
    ]

    def losses() -> dict[str, Tensor]:
        terms = {}
        for group, draw in zip(groups, views):
            view, drawn = draw()
            labels = [part.labels[index] for part, index in zip(group, drawn)]
            logits = model(view).split([len(y) for y in labels])
            for part, z, y in zip(group, logits, labels):
                terms[part.name] = part.weight * F.cross_entropy(z[:, : part.num_classes], y)
        return terms

    return losses


@torch.no_grad()
def all_logits(
    model: Encoder, graph: Graph, batch_size: int, nodes: Tensor | None = None
) -> Tensor:
    """Logits ``[V, K]`` of all nodes of a graph, or ``[n, K]`` of some, one layer at a time if
    the method trains in batches."""
    if batch_size:
        return infer(model, graph, nodes)
    logits = model.eval()(model.view(graph))
    return logits if nodes is None else logits[nodes]


@torch.no_grad()
def hidden_and_group(model: Encoder, features: str, graph: Data) -> tuple[Tensor, Tensor]:
    """The last hidden state ``[V, H]`` of all nodes, and the index of the largest logit ``[V]``."""
    model.eval()
    logits, hidden = model.embed(model.view(prepare(graph, features)))
    return hidden, logits.argmax(1)
