"""Post-hoc scores: the confidence that a node is of a known class."""

from __future__ import annotations

import copy
import zlib
from functools import partial
from typing import Annotated, Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch_geometric.data import Data

from graphgym_srnc.backbones import Encoder, Graph, View, dense
from graphgym_srnc.core.options import OneOf
from graphgym_srnc.core.task import ShiftTask, Sizes
from graphgym_srnc.losses import openness
from graphgym_srnc.methods.shared.prediction import ROLES
from graphgym_srnc.methods.shared.supervised import Supervised

SCORES = ("max_logit", "entropy", "energy", "gnnsafe", "grasp", "odin", "openmax")
"""Scores beside the largest softmax (Hendrycks and Gimpel, ICLR 2017)."""

Confidence = Annotated[str, OneOf("max_softmax", *SCORES)]

TEMPERATURE = 1000.0
PERTURBATION = 0.0014
"""Temperature of ODIN, and its step in units of the root mean square of the encoder's input."""


class Scored(Supervised):
    """A supervised method with a choice of confidence scores.

    Args:
        confidence: score in open-set shift that is larger if a node more likely is of a known
            class: ``max_softmax``, ``max_logit``, ``entropy``, ``energy``, ``gnnsafe`` (energy
            propagated over the graph), ``grasp`` (with added edges between training nodes),
            ``odin`` or ``openmax``. Only ``max_softmax`` uses ``smoothing``; the others read the
            raw logits. ``grasp`` adds edges on the graph of the training nodes alone, so part of
            this graph has other scores than the whole.
    """

    weighs_labels = True
    scorer: GRASP | OpenMax | None
    input_scale: Tensor

    def __init__(self, *, confidence: Confidence = "max_softmax", **base: Any) -> None:
        super().__init__(**base)
        self.confidence_name = confidence

    @property
    def is_post_hoc(self) -> bool:
        """Whether the confidence is a score of its own instead of the largest softmax."""
        return self.task.open_set and self.confidence_name != "max_softmax"

    def build(self, task: ShiftTask | Sizes) -> None:
        super().build(task)
        self.scorer = None
        if self.confidence_name == "odin":
            self.register_buffer("input_scale", torch.ones(len(ROLES)))
        if self.is_post_hoc and self.confidence_name in ("grasp", "openmax"):
            self.scorer = GRASP() if self.confidence_name == "grasp" else OpenMax(task.num_known)

    @torch.no_grad()
    def store_statistics(self) -> None:
        if self.scorer is not None:
            logits = self.logits(self.task.source, self.task.role_of(self.task.source))
            self.scorer.fit(logits[self.task.train], self.labels, self.source, self.task.train)

    @torch.no_grad()
    def uncorrected(self, graph: Data, role: str = "target") -> Tensor:
        """Scores ``[V, N]``; scores other than max_softmax add a column: minus the confidence."""
        logits = self.logits(graph, role)
        scores = self.smoothed(logits, graph)
        if not self.is_post_hoc:
            return scores
        confidence = self.post_hoc(logits, self.prepared(graph), role)
        return torch.cat([scores, -confidence[:, None]], 1)

    def post_hoc(self, logits: Tensor, graph: Graph, role: str) -> Tensor:
        """The confidence ``[V]`` by its name from the logits ``[V, N]`` on a graph."""
        match self.confidence_name:
            case "max_logit":
                return openness.max_logit(logits)
            case "entropy":
                return openness.neg_entropy(logits)
            case "odin":
                estimate = partial(input_scale, self.classifier, graph)
                scale = self.statistic(self.input_scale, graph.data, role, estimate)
                return odin(self.classifier, graph, scale)
        energy = openness.energy(logits)
        if self.confidence_name == "gnnsafe":
            return openness.propagate(energy, graph.adjacency("mean"))
        return energy if self.scorer is None else self.scorer(logits, energy, graph)

    def confidence(self, scores: Tensor) -> Tensor:
        return -scores[:, -1] if self.is_post_hoc else super().confidence(scores)

    def log_odds(self, confidence: Tensor) -> Tensor:
        return confidence if self.is_post_hoc else super().log_odds(confidence)


class GRASP(nn.Module):
    """The negative energy propagated with added edges between training nodes.

    No edge is added on another graph than theirs (Ma et al., NeurIPS 2024).
    """

    train_nodes: Tensor
    checksum: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("train_nodes", torch.empty(0, dtype=torch.long))
        self.register_buffer("checksum", torch.tensor(-1))

    def fit(self, logits: Tensor, labels: Tensor, graph: Graph, train: Tensor) -> None:
        """Store the training nodes ``[n]`` of a graph."""
        self.train_nodes = train.clone()
        self.checksum.fill_(_checksum(graph))

    def forward(self, logits: Tensor, energy: Tensor, graph: Graph) -> Tensor:
        """Confidence ``[V]`` from logits ``[V, N]`` and their negative energy ``[V]``."""
        there = _checksum(graph) == int(self.checksum)
        adjacency = graph.adjacency("raw")
        train = self.train_nodes if there else self.train_nodes[:0]
        confidence = openness.max_softmax(logits.double()).to(logits.dtype)
        anchor = openness.anchors(confidence, adjacency, train)
        return openness.propagate_with_anchors(energy, adjacency, anchor)

    def _load_from_state_dict(self, state: dict[str, Any], prefix: str, *rest: Any) -> None:
        # The number of training nodes does not follow from the sizes of the task.
        self.train_nodes = self.train_nodes.new_empty(state[f"{prefix}train_nodes"].shape)
        super()._load_from_state_dict(state, prefix, *rest)


def _checksum(graph: Graph) -> int:
    """Checksum that identifies the edges of a graph and their weights."""
    matrix = graph.adjacency("raw").matrix
    of_edges = zlib.crc32(matrix.indices, zlib.crc32(matrix.indptr))
    return zlib.crc32(matrix.data, of_edges) if graph.is_weighted else of_edges


class OpenMax(nn.Module):
    """The largest share that OpenMax leaves to a known class (Bendale and Boult, CVPR 2016)."""

    def __init__(self, num_known: int) -> None:
        super().__init__()
        self.register_buffer("centre", torch.ones(num_known, num_known))
        for name in ("shape", "scale", "shift"):
            self.register_buffer(name, torch.ones(num_known))

    def fit(self, logits: Tensor, labels: Tensor, graph: Graph, train: Tensor) -> None:
        """Learn from logits ``[n, N]`` and labels of training nodes."""
        self.load_state_dict(openness.fit_openmax(logits, labels))

    def forward(self, logits: Tensor, energy: Tensor, graph: Graph) -> Tensor:
        """Confidence ``[V]`` from logits ``[V, N]``."""
        return openness.openmax(logits, self.state_dict())[:, :-1].amax(1)


def input_scale(classifier: Encoder, graph: Graph) -> Tensor:
    """Root mean square of the entries of the encoder's input on a graph."""
    return dense(classifier.view(graph).x).detach().square().mean().sqrt()


def odin(classifier: Encoder, graph: Graph, scale: Tensor) -> Tensor:
    r"""The largest softmax of :math:`f(\tilde x) / T`, ``[V]`` (Liang et al., ICLR 2018).

    .. math:: \tilde x = x - \epsilon \bar x \, \text{sign} \nabla_x \text{CE}(f(x) / T, \hat y)

    :math:`x` is the input of the encoder's first layer, and :math:`\bar x` its ``scale``, see
    :func:`input_scale`, which is about 1 for the authors' images.
    """
    view = classifier.view(graph)
    x = dense(view.x).detach()
    blocks = [copy.copy(block) for block in view.blocks]
    for block in blocks:
        block.product = None  # made from the unperturbed features

    with torch.enable_grad():
        scaled = classifier(View(x.requires_grad_(), blocks)) / TEMPERATURE
        loss = F.cross_entropy(scaled, scaled.detach().argmax(1), reduction="sum")
        (gradient,) = torch.autograd.grad(loss, x)
    moved = View(x.detach() - PERTURBATION * scale * gradient.sign(), blocks)
    return openness.max_softmax(classifier(moved) / TEMPERATURE)
