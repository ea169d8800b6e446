"""Gradient steps, mini-batches and inference, also of several processes that train together."""

from __future__ import annotations

import math
from contextlib import AbstractContextManager
from typing import Callable, Iterable, Mapping, NamedTuple, Sequence, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch_geometric.data import Data

from graphgym_srnc.backbones import Batches, Encoder, Graph, infer, prepare
from graphgym_srnc.core import parallel, progress
from graphgym_srnc.core.options import Weight

MakeOptimizer = Callable[[Iterable[nn.Parameter]], torch.optim.Optimizer]

gather = parallel.gather  # rows of all processes, for a loss that is not a mean over rows

WINDOW = 20  # steps of a mean loss, two of which are compared for convergence
LANES = 16  # number of values that the widest instructions of a processor handle at once
CHECK_EVERY = 5  # steps between two checks for convergence, since a device waits for each


def adam(
    parameters: Iterable[nn.Parameter], *, lr: Weight = 0.01, weight_decay: Weight = 5e-4
) -> torch.optim.Optimizer:
    """Adam with the paper's learning rate and weight decay (Parameter Settings).

    Args:
        lr: learning rate.
        weight_decay: weight decay.
    """
    return torch.optim.Adam(parameters, lr=lr, weight_decay=weight_decay, fused=True)


def minimise(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    losses: Callable[[], dict[str, Tensor]],
    steps: int,
    until_converged: bool = False,
) -> dict[str, float]:
    """Take gradient steps on the sum of the terms of ``losses()``, and return the last terms.

    Processes that train together average their gradients. A loss that is not a mean over nodes must
    read the rows of all processes, see :func:`gather`. There are ``steps`` at most;
    ``until_converged`` stops when the loss has :func:`converged`.

    Raises:
        FloatingPointError: a term is NaN or infinite. On a GPU only the last terms are checked, by
            the trainer, since each check would wait for the device.
    """
    terms: dict[str, Tensor] = {}
    history: list[Tensor] = []
    model.train()
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    is_on_cpu = all(parameter.device.type == "cpu" for parameter in model.parameters())
    with parallel.own_draws() as is_alone:
        for _ in progress.steps(steps):
            terms = losses()
            total = cast(Tensor, sum(terms.values()))
            if is_alone and is_on_cpu and not math.isfinite(total.item()):
                check_finite({name: term.item() for name, term in terms.items()})
                check_finite({"the sum of all terms": total.item()})
            for parameter in parameters:
                parameter.grad = None
            total.backward()
            parallel.average(parameters)
            optimizer.step()
            if until_converged:
                history.append(total.detach())
                if len(history) % CHECK_EVERY == 0 and converged(history):
                    break
    return parallel.mean({name: float(term.detach()) for name, term in terms.items()})


def check_finite(terms: Mapping[str, float]) -> None:
    """Raise a FloatingPointError that names every term that is NaN or infinite."""
    wrong = [f"{name} is {value}" for name, value in terms.items() if not math.isfinite(value)]
    if wrong:
        raise FloatingPointError(f"{', '.join(wrong)}. A lower learning rate may help (`lr`)")


def converged(losses: Sequence[Tensor]) -> bool:
    r"""Whether a loss :math:`L_1 \dots L_t` no longer falls (line 12 of Algorithm 1).

    .. math:: 0.9\, \bar L_{t-40..t-20} < \bar L_{t-20..t} < 0.5\, L_1

    The second condition matters with many classes, where the loss starts with a plateau.
    """
    if len(losses) < 2 * WINDOW:
        return False
    first, *recent = torch.stack([losses[0], *losses[-2 * WINDOW :]]).tolist()
    before = sum(recent[:WINDOW]) / WINDOW
    last = sum(recent[WINDOW:]) / WINDOW
    return 0.9 * before < last < 0.5 * first


def log_softmax(logits: Tensor) -> Tensor:
    """Log posteriors of logits, both ``[n, C]``.

    Rows are padded to :data:`LANES`, since torch handles shorter rows up to seven times slower.
    """
    count = logits.size(1)
    if count >= LANES:
        return logits.log_softmax(1)
    return F.pad(logits, (0, LANES - count), value=-torch.inf).log_softmax(1)[:, :count]


def cross_entropy(logits: Tensor, labels: Tensor, weights: Tensor | None) -> Tensor:
    r"""Weighted mean :math:`\sum_i w_i \ell_i / \sum_i w_i` of the cross-entropy of nodes.

    Args:
        logits, labels: ``[n, N]`` and ``[n]``.
        weights: weight of each node, ``[n]``; None = 1.
    """
    log_p = log_softmax(logits)
    if weights is None:
        return F.nll_loss(log_p, labels)
    each = F.nll_loss(log_p, labels, reduction="none")
    return (weights * each).sum() / weights.sum().clamp(min=1e-12)


class Term(NamedTuple):
    """One term of a loss: the cross-entropy (Eq. 2 of the paper) on some nodes.

    Args:
        name, weight: name and weight of the term.
        graph, nodes, labels: ids ``[n]`` of the nodes in their graph, and their classes ``[n]``.
        num_classes: number of logits to use; None = all.
        node_weights: weight of each node, ``[n]``; None = 1.
    """

    name: str
    graph: Graph
    nodes: Tensor
    labels: Tensor
    weight: float = 1.0
    num_classes: int | None = None
    node_weights: Tensor | None = None


def cross_entropies(
    model: Encoder,
    terms: Sequence[Term],
    batch_size: int = 0,
    fanout: int = 0,
    *,
    outputs: Callable[[Tensor], Tensor] = lambda logits: logits,
) -> Callable[[], dict[str, Tensor]]:
    """A function that returns the loss terms at the next step, from ``outputs`` of the logits."""
    views = {}
    for graph in dict.fromkeys(term.graph for term in terms):
        # Nodes of one graph share one view, since their neighbourhoods overlap.
        group = tuple(term for term in terms if term.graph is graph)
        nodes = [term.nodes for term in group]
        views[graph] = group, Batches(model, graph, nodes, batch_size, fanout)

    def step() -> dict[str, Tensor]:
        losses = {}
        for group, draw in views.values():
            view, drawn = draw()
            labels = [term.labels[index] for term, index in zip(group, drawn)]
            logits = outputs(model(view)).split([len(y) for y in labels])
            for term, index, z, y in zip(group, drawn, logits, labels):
                own = term.node_weights
                loss = cross_entropy(
                    z[:, : term.num_classes], y, None if own is None else own[index]
                )
                losses[term.name] = term.weight * loss
        return losses

    return step


def fit_terms(
    model: Encoder,
    optimizer: torch.optim.Optimizer,
    terms: Sequence[Term],
    steps: int,
    *sizes: int,
    until_converged: bool = False,
) -> dict[str, float]:
    """Minimise :func:`cross_entropies` with batch ``sizes``, and return the last losses by name."""
    losses = cross_entropies(model, terms, *sizes)
    return minimise(model, optimizer, losses, steps, until_converged=until_converged)


@torch.no_grad()
def all_logits(model: Encoder, graph: Graph, batch_size: int) -> Tensor:
    """Logits ``[V, K]`` of all nodes of a graph; with batches one layer at a time."""
    if batch_size:
        return infer(model, graph)
    return model.eval()(model.view(graph))


@torch.no_grad()
def hidden_and_group(model: Encoder, features: str, graph: Data) -> tuple[Tensor, Tensor]:
    """The last hidden state ``[V, H]`` of all nodes, and the index of the largest logit ``[V]``."""
    model.eval()
    logits, hidden = model.embed(model.view(prepare(graph, features)))
    return hidden, logits.argmax(1)


def random_state(device: torch.device) -> tuple[Tensor, ...]:
    """The state of torch's generator and, on a GPU, of the device's own."""
    if device.type == "cpu":
        return (torch.get_rng_state(),)
    return torch.get_rng_state(), torch.get_device_module(device).get_rng_state(device)


def random_draws_apart(device: torch.device) -> AbstractContextManager[None]:
    """Context after which random draws continue as if it had drawn none."""
    devices = [] if device.type == "cpu" else [device]
    return torch.random.fork_rng(devices, device_type=device.type)


def set_random_state(state: tuple[Tensor, ...], device: torch.device) -> None:
    """Put back what :func:`random_state` gave."""
    torch.set_rng_state(state[0])
    if device.type != "cpu":
        torch.get_device_module(device).set_rng_state(state[1], device)
