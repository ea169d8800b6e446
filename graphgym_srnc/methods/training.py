"""Gradient steps and inference that methods share."""
from __future__ import annotations

from typing import Callable, Iterable

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch_geometric.data import Data

from graphgym_srnc import parallel
from graphgym_srnc.backbones import Batches, Encoder, Graph, infer, prepare

MakeOptimizer = Callable[[Iterable[nn.Parameter]], torch.optim.Optimizer]


def adam(parameters: Iterable[nn.Parameter], lr: float = 0.01, weight_decay: float = 5e-4) -> torch.optim.Optimizer:
    """Adam with the paper's learning rate and weight decay (Parameter Settings)."""
    return torch.optim.Adam(parameters, lr=lr, weight_decay=weight_decay, fused=True)


def random_state(device: torch.device) -> tuple[Tensor, ...]:
    """The state of torch's generator and, on a GPU, of the device's own, where dropout and draws of a step come from."""
    return (torch.get_rng_state(), *([] if device.type == "cpu" else [torch.get_device_module(device).get_rng_state(device)]))


def set_random_state(state: tuple[Tensor, ...], device: torch.device) -> None:
    """Put back what :func:`random_state` gave."""
    torch.set_rng_state(state[0])
    if device.type != "cpu":
        torch.get_device_module(device).set_rng_state(state[1], device)


@torch.no_grad()
def all_logits(model: Encoder, graph: Graph, batch_size: int) -> Tensor:
    """Logits ``[V, K]`` of all nodes of a graph in eval mode; of a method that learns from batches, one layer at a time."""
    return infer(model, graph) if batch_size else model.eval()(model.view(graph))


@torch.no_grad()
def hidden_and_group(model: Encoder, features: str, graph: Data) -> tuple[Tensor, Tensor]:
    """The last hidden state ``[V, H]`` of all nodes of a graph, and the number of the largest logit ``[V]``."""
    model.eval()
    logits, hidden = model.embed(model.view(prepare(graph, features)))
    return hidden, logits.argmax(1)


def minimise(model: nn.Module, optimizer: torch.optim.Optimizer, losses: Callable[[], dict[str, Tensor]], steps: int) -> dict[str, float]:
    """Take gradient steps on the sum of the terms that ``losses()`` gives, with the model in training mode.

    Returns:
        The terms at the last step.
    """
    terms: dict[str, Tensor] = {}
    model.train()
    with parallel.own_draws():
        for _ in range(steps):
            terms = losses()
            optimizer.zero_grad()
            sum(terms.values()).backward()
            parallel.average(parameter for group in optimizer.param_groups for parameter in group["params"])
            optimizer.step()
    return parallel.mean({name: float(term.detach()) for name, term in terms.items()})


def fit_labels(model: Encoder, optimizer: torch.optim.Optimizer, graph: Graph, nodes: Tensor, labels: Tensor, steps: int,
               num_classes: int | None = None, batch_size: int = 0, fanout: int = 0) -> float:
    """Minimise the mean cross-entropy (Eq. 2 of the paper) on labelled nodes for a number of steps.

    Args:
        model, optimizer: the classifier and its optimiser.
        graph: the graph that holds the nodes.
        nodes, labels: node ids and classes, both ``[n]``.
        steps: number of gradient steps.
        num_classes: use the first so many logits only, as in pre-training before there is an unknown class.
        batch_size, fanout: those of :class:`Method`.

    Returns:
        The last loss.
    """
    batches = Batches(model, graph, [nodes], batch_size, fanout)

    def losses() -> dict[str, Tensor]:
        view, (drawn,) = batches()
        return {"source": F.cross_entropy(model(view)[:, :num_classes], labels[drawn])}

    return minimise(model, optimizer, losses, steps)["source"]
