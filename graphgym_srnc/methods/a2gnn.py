"""Asymmetric adaptive GNN (Liu et al., AAAI 2024): propagate on the target, less on the source."""
from __future__ import annotations

from typing import Annotated

import torch
from torch import Tensor
from torch.nn import functional as F
from torch_geometric.data import Data

from graphgym_srnc.backbones import Encoder, with_hops
from graphgym_srnc.losses.mmd import mmd
from graphgym_srnc.methods.scores import Scored
from graphgym_srnc.options import Natural, Range, Weight

WIDEST = 2.0
"""Of the authors' kernels, which lack the factor 2 of ours in front of the variance."""


class A2GNN(Scored):
    r"""One encoder for both graphs, propagated :math:`s` times on the source and :math:`t` times on
    the target, matched by MMD, then a graph convolution that gives the classes on either.

    .. math:: h = \text{relu}(\hat A^k X W + b), \quad f = \hat A h V + c, \quad
        \mathcal L = \text{CE}(f_S) + w \, \text{MMD}^2(h_S, h_T), \quad k_S = s, \; k_T = t

    With the backbone ``mlp`` of two layers this is the authors' form; of more, :math:`h` passes as
    many hidden layers as there are beside the last one, each with its hops. Of any other backbone
    one layer stands for the first :math:`XW + b`.

    Args:
        weight: :math:`w`, constant. The authors sum five kernels of which ours is the mean, so that
            25 is their 5.
        source_hops: :math:`s`.
        target_hops: :math:`t`.
        sample: nodes of either side drawn for the MMD at each step; the authors average five such
            draws.
    """

    in_batches = False
    encoder_defaults = {"kind": "mlp", "features": "none", "hidden": 128, "dropout": 0.0}
    search = {"weight": (0.1, 1.0, 5.0, 25.0), "target_hops": (2, 5, 10, 15, 30)}

    def __init__(self, *, weight: Weight = 25.0, source_hops: Natural = 0,
                 target_hops: Natural = 10, sample: Annotated[int, Range(2)] = 1000,
                 **base) -> None:
        super().__init__(**base)
        self.weight, self.source_hops, self.target_hops = weight, source_hops, target_hops
        self.sample = sample

    def new_classifier(self, num_outputs: int) -> Encoder:
        """The encoder with hops, by default those of the target."""
        return with_hops(self.encoder, self.task.num_features, num_outputs, self.target_hops)

    def begin(self) -> None:
        self.on_source = self.classifier.view(self.source, hops=self.source_hops)
        self.on_target = self.classifier.view(self.target)

    def losses(self) -> dict[str, Tensor]:
        train, pool = self.task.train, self.task.pool
        logits, source = self.classifier.embed(self.on_source)
        terms = {"source": F.cross_entropy(logits[train], self.labels)}
        if self.weight:
            states = source[train], self.classifier.embed(self.on_target)[1][pool]
            drawn = (h[torch.randperm(len(h), device=h.device)[:self.sample]] for h in states)
            terms["mmd"] = self.weight * mmd(*drawn, WIDEST)
        return terms

    @torch.no_grad()
    def logits(self, graph: Data, role: str = "target") -> Tensor:
        """Logits after the hops of the source on a source graph, and of the target on any other."""
        hops = self.source_hops if role == "source" else self.target_hops
        return self.classifier.eval()(self.classifier.view(self.prepared(graph), hops=hops))
