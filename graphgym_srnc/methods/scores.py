"""How sure a trained classifier is that a node is of a known class: the post-hoc scores of open-set recognition, by name."""
from __future__ import annotations

import copy
from typing import Callable

import torch
from torch import Tensor
from torch.nn import functional as F

from graphgym_srnc.backbones import Encoder, Graph, Sparse, View
from graphgym_srnc.losses import openness

SCORES = ("max_softmax", "max_logit", "entropy", "energy", "gnnsafe", "odin", "openmax")
"""Largest softmax (Hendrycks and Gimpel, 2017) and logit, entropy, energy (Liu et al., 2020), energy propagated over the graph (Wu et
al., 2023), largest softmax of a perturbed input (Liang et al., 2018), known share of OpenMax (Bendale and Boult, 2016)."""


CONFIDENCES: dict[str, Callable[[Tensor, float, Graph], Tensor]] = {
    "max_logit": lambda logits, temperature, graph: openness.max_logit(logits),
    "entropy": lambda logits, temperature, graph: openness.neg_entropy(logits),
    "energy": lambda logits, temperature, graph: openness.energy(logits, temperature),
    "gnnsafe": lambda logits, temperature, graph: openness.propagate(openness.energy(logits, temperature), graph.adjacency("mean")),
}
"""Scores ``[V]``, larger = more surely known, that follow from logits ``[V, N]``, the temperature and the graph."""


def openmax(logits: Tensor, tails: dict[str, Tensor]) -> Tensor:
    """1 less the unknown share of OpenMax, ``[V]``, with the tails that ``fit_openmax`` found on training nodes."""
    return 1 - openness.openmax(logits, tails)[:, -1]


def odin(classifier: Encoder, view: View, temperature: float, perturbation: float) -> Tensor:
    r"""Largest softmax of :math:`f(\tilde x) / T`, ``[n]``, with :math:`\tilde x = x - \epsilon \, \text{sign} \nabla_x \text{CE}(f(x) / T,
    \hat y)`; ``x`` is what the encoder's first layer reads, e.g. the smoothed features of SGC."""
    x = torch.from_numpy(view.x.matrix.toarray()).to(view.x.device) if isinstance(view.x, Sparse) else view.x.clone()
    blocks = [copy.copy(block) for block in view.blocks]
    for block in blocks:
        block.product = None  # made from the unperturbed features
    with torch.enable_grad():
        logits = classifier(View(x.requires_grad_(), blocks)) / temperature
        gradient, = torch.autograd.grad(F.cross_entropy(logits, logits.detach().argmax(1), reduction="sum"), x)
    return openness.max_softmax(classifier(View(x.detach() - perturbation * gradient.sign(), blocks)) / temperature)
