"""How sure a trained classifier is that a node is of a known class: the post-hoc scores of open-set recognition, by name."""
from __future__ import annotations

import copy

import torch
from torch import Tensor
from torch.nn import functional as F

from graphgym_srnc.backbones import Encoder, Graph
from graphgym_srnc.backbones.graph import View
from graphgym_srnc.backbones.sparse import Sparse
from graphgym_srnc.losses import openness

SCORES = ("max_softmax", "max_logit", "entropy", "energy", "gnnsafe", "odin", "openmax")
"""Largest softmax (Hendrycks and Gimpel, 2017) and logit, entropy, energy (Liu et al., 2020), energy propagated over the graph (Wu et
al., 2023), largest softmax of a perturbed input (Liang et al., 2018), known share of OpenMax (Bendale and Boult, 2016)."""


@torch.no_grad()
def known_confidence(score: str, classifier: Encoder, graph: Graph, source: Graph, train: Tensor, label: Tensor, temperature: float,
                     perturbation: float) -> Tensor:
    """The score ``[V]`` of every node of a graph, larger = more surely known.

    Args:
        score: one of ``SCORES``.
        classifier: a trained encoder with a logit a known class.
        graph: the graph that is scored.
        source, train, label: the labelled nodes, ``[n]``, that ``openmax`` fits its tails to.
        temperature: of ``energy``, ``gnnsafe`` and ``odin``.
        perturbation: step of ``odin``.
    """
    classifier.eval()
    if score == "odin":
        return odin(classifier, classifier.view(graph), temperature, perturbation)
    logits = classifier(classifier.view(graph))
    if score == "openmax":
        tails = openness.fit_openmax(classifier(classifier.view(source, train)), label)
        return 1 - openness.openmax(logits, tails)[:, -1]
    if score == "gnnsafe":
        return openness.propagate(openness.energy(logits, temperature), graph.adjacency("mean"))
    if score == "energy":
        return openness.energy(logits, temperature)
    return {"max_softmax": openness.max_softmax, "max_logit": openness.max_logit, "entropy": openness.neg_entropy}[score](logits)


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
    return (classifier(View(x.detach() - perturbation * gradient.sign(), blocks)) / temperature).softmax(1).amax(1)
