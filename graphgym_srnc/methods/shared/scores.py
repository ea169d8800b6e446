"""Post-hoc scores: the confidence that a node is of a known class."""

from __future__ import annotations

import copy
import zlib
from typing import Annotated, Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch_geometric.data import Data

from graphgym_srnc.backbones import Encoder, Graph, View, dense
from graphgym_srnc.core.options import OneOf, Weight
from graphgym_srnc.core.task import ShiftTask, Sizes
from graphgym_srnc.losses import openness
from graphgym_srnc.methods.shared.supervised import Supervised


class Score(nn.Module):
    r"""Confidence ``[V]`` that nodes are of a known class; larger values mean more likely known.

    Args:
        num_known: number of known classes :math:`N`.
        temperature: temperature :math:`T` that divides logits; 0 = the default of the score.
        perturbation: step :math:`\epsilon` of scores that perturb the input.
    """

    learns: bool = False
    """Whether :meth:`fit` learns anything."""

    own_temperature: float = 1.0
    """The temperature of the score's authors."""

    def __init__(self, num_known: int, temperature: float, perturbation: float) -> None:
        super().__init__()
        self.temperature = temperature or self.own_temperature
        self.perturbation = perturbation

    def fit(self, logits: Tensor, labels: Tensor, graph: Graph, train: Tensor) -> None:
        """Learn from the training nodes ``train`` ``[n]`` of a graph, their logits and labels."""

    def forward(self, logits: Tensor, graph: Graph, classifier: Encoder) -> Tensor:
        """Confidence from the classifier's logits ``[V, N]`` on a graph."""
        raise NotImplementedError


class MaxLogit(Score):
    """The largest logit (Hendrycks et al., ICML 2022)."""

    def forward(self, logits: Tensor, graph: Graph, classifier: Encoder) -> Tensor:
        return openness.max_logit(logits)


class Entropy(Score):
    """The negative entropy of the softmax."""

    def forward(self, logits: Tensor, graph: Graph, classifier: Encoder) -> Tensor:
        return openness.neg_entropy(logits)


class Energy(Score):
    """The negative energy (Liu et al., NeurIPS 2020)."""

    def forward(self, logits: Tensor, graph: Graph, classifier: Encoder) -> Tensor:
        return openness.energy(logits, self.temperature)


class GNNSafe(Energy):
    """The negative energy propagated over the graph (Wu et al., ICLR 2023)."""

    def forward(self, logits: Tensor, graph: Graph, classifier: Encoder) -> Tensor:
        energy = super().forward(logits, graph, classifier)
        return openness.propagate(energy, graph.adjacency("mean"))


class GRASP(Energy):
    """The negative energy propagated with added edges (Ma et al., NeurIPS 2024).

    The edges join training nodes, which are identified by their graph. On another graph no edge is
    added.
    """

    learns = True
    train_nodes: Tensor
    checksum: Tensor

    def __init__(self, num_known: int, temperature: float, perturbation: float) -> None:
        super().__init__(num_known, temperature, perturbation)
        self.register_buffer("train_nodes", torch.empty(0, dtype=torch.long))
        self.register_buffer("checksum", torch.tensor(-1))

    def fit(self, logits: Tensor, labels: Tensor, graph: Graph, train: Tensor) -> None:
        self.train_nodes = train.clone()
        self.checksum.fill_(_checksum(graph))

    def forward(self, logits: Tensor, graph: Graph, classifier: Encoder) -> Tensor:
        energy, adjacency = super().forward(logits, graph, classifier), graph.adjacency("raw")
        there = _checksum(graph) == int(self.checksum)
        train = self.train_nodes if there else self.train_nodes[:0]
        confidence = openness.max_softmax(logits.double()).to(logits.dtype)
        anchor = openness.anchors(confidence, adjacency, train)
        return openness.propagate_with_anchors(energy, adjacency, anchor)

    def _load_from_state_dict(self, state: dict[str, Any], prefix: str, *rest: Any) -> None:
        # The number of training nodes does not follow from the sizes of the task.
        self.train_nodes = self.train_nodes.new_empty(state[f"{prefix}train_nodes"].shape)
        super()._load_from_state_dict(state, prefix, *rest)


class ODIN(Score):
    r"""The largest softmax of :math:`f(\tilde x) / T` at a perturbed input (ODIN, ICLR 2018).

    .. math:: \tilde x = x - \epsilon \bar x \, \text{sign} \nabla_x \text{CE}(f(x) / T, \hat y)

    :math:`x` is the input of the encoder's first layer, for example the smoothed features of SGC.
    :math:`\bar x` is the root mean square of its entries, which is about 1 for the authors' images.
    """

    own_temperature = 1000.0

    def forward(self, logits: Tensor, graph: Graph, classifier: Encoder) -> Tensor:
        view = classifier.view(graph)
        x = dense(view.x).detach()
        blocks = [copy.copy(block) for block in view.blocks]
        for block in blocks:
            block.product = None  # made from the unperturbed features

        with torch.enable_grad():
            scaled = classifier(View(x.requires_grad_(), blocks)) / self.temperature
            loss = F.cross_entropy(scaled, scaled.detach().argmax(1), reduction="sum")
            (gradient,) = torch.autograd.grad(loss, x)
        step = self.perturbation * x.detach().square().mean().sqrt()
        moved = View(x.detach() - step * gradient.sign(), blocks)
        return openness.max_softmax(classifier(moved) / self.temperature)


class OpenMax(Score):
    """The largest share that OpenMax leaves to a known class (Bendale and Boult, CVPR 2016).

    A node is rejected below a threshold, or if the unknown class has a larger share (their
    Algorithm 2).
    """

    learns = True

    def __init__(self, num_known: int, temperature: float, perturbation: float) -> None:
        super().__init__(num_known, temperature, perturbation)
        self.register_buffer("centre", torch.ones(num_known, num_known))
        self.register_buffer("shape", torch.ones(num_known))
        self.register_buffer("scale", torch.ones(num_known))
        self.register_buffer("shift", torch.zeros(num_known))

    def fit(self, logits: Tensor, labels: Tensor, graph: Graph, train: Tensor) -> None:
        for name, value in openness.fit_openmax(logits, labels).items():
            getattr(self, name).copy_(value)

    def forward(self, logits: Tensor, graph: Graph, classifier: Encoder) -> Tensor:
        return openness.openmax(logits, dict(self.named_buffers()))[:, :-1].amax(1)


SCORES: dict[str, type[Score]] = {
    "max_logit": MaxLogit,
    "entropy": Entropy,
    "energy": Energy,
    "gnnsafe": GNNSafe,
    "grasp": GRASP,
    "odin": ODIN,
    "openmax": OpenMax,
}
"""Scores beside the largest softmax (Hendrycks and Gimpel, ICLR 2017)."""


def _checksum(graph: Graph) -> int:
    """Checksum that identifies the edges of a graph."""
    matrix = graph.adjacency("raw").matrix
    return zlib.crc32(matrix.indices, zlib.crc32(matrix.indptr))


class Scored(Supervised):
    """A supervised method with a choice of confidence scores.

    Args:
        score: confidence that a node is of a known class, in open-set shift: ``max_softmax``,
            ``max_logit``, ``entropy``, ``energy``, ``gnnsafe`` (energy propagated over the graph),
            ``grasp`` (with added edges between training nodes), ``odin`` or ``openmax``. Only
            ``max_softmax`` uses ``smoothing``; the others read the raw logits.
        temperature: temperature of ``energy``, ``gnnsafe``, ``grasp`` and ``odin``; 0 = the default
            of the score, which is 1, or 1000 for ``odin``.
        perturbation: step of ``odin`` along the sign of the gradient of the encoder's input, in
            units of the root mean square of that input.
    """

    def __init__(
        self,
        *,
        score: Annotated[str, OneOf("max_softmax", *SCORES)] = "max_softmax",
        temperature: Weight = 0.0,
        perturbation: Weight = 0.0014,
        **base,
    ) -> None:
        super().__init__(**base)
        self.score, self.temperature, self.perturbation = score, temperature, perturbation

    scorer: Score | None

    def build(self, task: ShiftTask | Sizes) -> None:
        super().build(task)
        self.scorer = None
        if task.open_set and self.score != "max_softmax":
            self.scorer = SCORES[self.score](task.num_known, self.temperature, self.perturbation)

    @torch.no_grad()
    def remember(self) -> None:
        if self.scorer is not None and self.scorer.learns:
            logits = self.logits(self.task.source, self.task.role_of(self.task.source))
            train = self.task.train
            self.scorer.fit(logits[train], self.labels, self.source, train)

    @torch.no_grad()
    def uncorrected(self, graph: Data, role: str = "target") -> Tensor:
        """Scores ``[V, N]``; scores other than max_softmax add a column: minus the confidence."""
        logits = self.logits(graph, role)
        scores = self.smoothed(logits, graph)
        if self.scorer is None:
            return scores
        confidence = self.scorer(logits, self.prepared(graph), self.classifier)
        return torch.cat([scores, -confidence[:, None]], 1)

    def confidence(self, scores: Tensor) -> Tensor:
        return super().confidence(scores) if self.scorer is None else -scores[:, -1]

    def log_odds(self, confidence: Tensor) -> Tensor:
        return super().log_odds(confidence) if self.scorer is None else confidence
