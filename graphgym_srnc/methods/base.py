"""The contract of a method. ``erm.py`` is the shortest example: copy it to add one of your own."""
from __future__ import annotations

from typing import Callable, Iterable

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch_geometric.data import Data

from graphgym_srnc.backbones import Encoder, EncoderSpec, Graph, prepare
from graphgym_srnc.task import ShiftTask

MakeOptimizer = Callable[[Iterable[nn.Parameter]], torch.optim.Optimizer]


def adam(parameters: Iterable[nn.Parameter], lr: float = 0.01, weight_decay: float = 5e-4) -> torch.optim.Optimizer:
    """Adam with the paper's learning rate and weight decay (Parameter Settings)."""
    return torch.optim.Adam(parameters, lr=lr, weight_decay=weight_decay, fused=True)


class Method(nn.Module):
    """One way to classify the nodes of a target graph under shift.

    The signature of a subclass is its config schema: every keyword with a scalar default becomes ``cfg.<method>.<keyword>``.
    The trainer calls :meth:`start` once (the paper's episode 0), then :meth:`episode` by turns, and between them
    :meth:`predict`, :meth:`calibrate` and :meth:`decide`. A method sees ``task.blind()`` only.

    Args:
        encoder: the backbone that :meth:`build` makes encoders of.
        make_optimizer: optimiser of the classifier from its parameters.
    """

    episodes: int = 0
    """How many episodes the method wants after episode 0."""

    oracle: bool = False
    """True if the method is to be given ``task.oracle``, the task with every class visible."""

    def __init__(self, *, encoder: EncoderSpec = EncoderSpec(), make_optimizer: MakeOptimizer = adam) -> None:
        super().__init__()
        self.encoder, self.make_optimizer = encoder, make_optimizer
        self.warnings: list[str] = []

    def start(self, task: ShiftTask) -> dict[str, float]:
        """Build and pre-train on a blind task; return the loss terms of episode 0."""
        raise NotImplementedError

    def episode(self) -> dict[str, float]:
        """Run one episode; return every loss term and diagnostic figure of it."""
        raise NotImplementedError

    @torch.no_grad()
    def predict(self, graph: Data) -> Tensor:
        """Scores ``[V, N]`` or ``[V, N + 1]`` of all nodes of any graph with the same features; by default ``self.classifier``'s."""
        self.classifier.eval()
        return self.classifier(self.classifier.view(prepare(graph, self.encoder.features)))

    def calibrate(self, scores: Tensor, label: Tensor) -> None:
        """Cut what must be cut with validation labels, from validation scores ``[n, N(+1)]`` and labels ``[n]``."""

    def decide(self, scores: Tensor) -> Tensor:
        """Classes ``[n]`` from scores ``[n, N(+1)]``; the default takes the largest."""
        return scores.argmax(1)

    def views(self) -> dict[str, Callable[[Data], tuple[Tensor, Tensor]]]:
        """What there is to draw, by name: each function gives an embedding ``[V, H]`` and a group ``[V]`` of every node."""
        return {}


def fit_labels(model: Encoder, optimizer: torch.optim.Optimizer, graph: Graph, nodes: Tensor, labels: Tensor, steps: int,
               num_classes: int | None = None) -> float:
    """Minimise the mean cross-entropy (Eq. 2 of the paper) on labelled nodes for a number of full-batch steps.

    Args:
        model, optimizer: the classifier and its optimiser.
        graph: the graph that holds the nodes.
        nodes, labels: node ids and classes, both ``[n]``.
        steps: number of gradient steps.
        num_classes: use the first so many logits only, as in pre-training before there is an unknown class.

    Returns:
        The last loss.
    """
    view, loss = model.view(graph, nodes), torch.tensor(float("nan"))
    model.train()
    for _ in range(steps):
        loss = F.cross_entropy(model(view)[:, :num_classes], labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return float(loss.detach())


def best_threshold(confidence: Tensor, prediction: Tensor, label: Tensor, unknown: int, prior: float | None = None) -> float:
    """The cut below which a node is unknown, by the largest validation Micro-F1; exact over all cuts, in O(n log n).

    Args:
        confidence: how sure the classifier is of its known class, ``[n]``.
        prediction: the known class it would name, ``[n]``.
        label: true classes with ``unknown`` where masked, ``[n]``.
        unknown: label of the unknown class.
        prior: the cut that holds without validation; given one, the cut nearest to it is taken among those that are at most one
            (paired) standard error worse than the best, so that few validation nodes cannot move it far.
    """
    confidence, order = confidence.sort()
    gain = ((label == unknown).long() - (prediction == label).long())[order]
    correct, changed = (F.pad(step.cumsum(0), (1, 0)) for step in (gain, gain.abs()))
    # Cut i names the i least sure nodes unknown: any threshold above the i-th confidence, up to and with the next, does so.
    low, high = F.pad(confidence, (1, 0), value=-torch.inf), F.pad(confidence, (0, 1), value=torch.inf)
    correct[1:-1][confidence[1:] == confidence[:-1]] = -len(label)
    best = int(correct.argmax())
    if prior is None:
        return float(high[best])
    lost = (correct[best] - correct).double()
    error = ((changed - changed[best]).abs() - lost ** 2 / len(label)).clamp(min=0).sqrt()
    cuts = torch.full_like(high, prior).clamp(torch.nextafter(low, torch.full_like(low, torch.inf)), high)
    return float(cuts[(cuts - prior).abs().masked_fill(lost > error, torch.inf).argmin()])
