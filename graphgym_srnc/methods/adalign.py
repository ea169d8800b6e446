"""ADAlign: alignment of characteristic functions (ICLR 2026)."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch_geometric.data import Data

from graphgym_srnc.backbones import HopEncoder, with_hops
from graphgym_srnc.core.options import Count, Natural, Share, Weight
from graphgym_srnc.losses.adversarial import reverse_gradient
from graphgym_srnc.losses.characteristic import characteristic_discrepancy
from graphgym_srnc.methods.shared.scores import Scored


class ADAlign(Scored):
    r"""Align the characteristic functions of hidden states at frequencies where they differ most.

    .. math:: \min_\theta \max_\psi \; \text{CE}(f_S) + \frac{w}{K} \sum_k
        \sqrt{\alpha (|\phi_S| - |\phi_T|)^2 + 2 (1 - \alpha)
        (|\phi_S| |\phi_T| - \text{Re}\, \phi_S \overline{\phi_T})}

    The encoder is that of ``a2gnn``, with equal hops on both graphs. :math:`\phi` are
    characteristic functions at the frequencies :math:`g_\psi(z_k)`, where a perceptron
    :math:`g_\psi` of three layers reads normal noise :math:`z_k`.

    Differences from the authors' code: both players learn in one step by a reversed gradient; they
    alternate. They choose the epoch and the settings of each direction by the target's labels. The
    defaults are the values that most of their citation files share, the same for all directions.

    When to use: in comparisons with recent methods.

    Args:
        weight: weight :math:`w` of the discrepancy.
        amplitude: weight :math:`\alpha` of amplitudes; phases have the rest.
        frequencies: number :math:`K` of frequencies per step. The authors' 2048 are 128, each
            repeated 16 times.
        source_hops, target_hops: propagation steps of each hidden layer on either graph.

    References:
        ADAlign, ICLR 2026.
    """

    classifier: HopEncoder
    in_batches = False
    encoder_defaults = {
        "kind": "mlp",
        "features": "none",
        "hidden": 128,
        "layers": 3,
        "dropout": 0.25,
    }
    search = {
        "weight": (0.2, 0.4, 0.6, 0.8, 1.0),
        "amplitude": (0.2, 0.4, 0.6, 0.8, 1.0),
        "source_hops": (0, 1, 10, 15),
        "target_hops": (1, 10, 15),
    }

    def __init__(
        self,
        *,
        weight: Weight = 0.6,
        amplitude: Share = 0.8,
        frequencies: Count = 128,
        source_hops: Natural = 10,
        target_hops: Natural = 10,
        **base,
    ) -> None:
        super().__init__(**base)
        self.weight, self.amplitude, self.frequencies = weight, amplitude, frequencies
        self.source_hops, self.target_hops = source_hops, target_hops

    def new_classifier(self, num_outputs: int) -> HopEncoder:
        """The encoder with hops, by default those of the target."""
        return with_hops(self.encoder, self.task.num_features, num_outputs, self.target_hops)

    def begin(self) -> None:
        self.on_source = self.classifier.view(self.source, hops=self.source_hops)
        self.on_target = self.classifier.view(self.target)
        width = self.classifier.hidden_dim
        self.seeker = nn.Sequential(
            *(
                module
                for act in (nn.LeakyReLU(0.2), nn.LeakyReLU(0.2), nn.Tanh())
                for module in (nn.Linear(width, width), nn.BatchNorm1d(width), act)
            )
        )

    def losses(self) -> dict[str, Tensor]:
        train, pool = self.task.train, self.task.pool
        logits, source = self.classifier.embed(self.on_source)
        terms = {"source": F.cross_entropy(logits[train], self.labels)}
        if self.weight:
            target = self.classifier.embed(self.on_target)[1]
            noise = torch.randn(self.frequencies, source.size(1), device=source.device)
            sought = reverse_gradient(self.seeker(noise), 1.0)
            terms["discrepancy"] = self.weight * characteristic_discrepancy(
                source[train], target[pool], sought, self.amplitude
            )
        return terms

    @torch.no_grad()
    def logits(self, graph: Data, role: str = "target") -> Tensor:
        """Logits after the hops of the source on a source graph, and of the target on any other."""
        hops = self.source_hops if role == "source" else self.target_hops
        return self.classifier.eval()(self.classifier.view(self.prepared(graph), hops=hops))
