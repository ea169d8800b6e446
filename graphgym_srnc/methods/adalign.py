"""ADAlign: alignment of characteristic functions (ICLR 2026)."""

from __future__ import annotations

import itertools
from typing import Any

import torch
from torch import Tensor, nn

from graphgym_srnc.core.options import Share, Steps, Weight
from graphgym_srnc.losses.adversarial import reverse_gradient
from graphgym_srnc.losses.discrepancy import characteristic_discrepancy
from graphgym_srnc.methods.shared.hops import HopMethod

FREQUENCIES = 128  # per step; the authors' 2048 are 128, each repeated 16 times


class ADAlign(HopMethod):
    r"""Align the characteristic functions of hidden states at frequencies where they differ most.

    .. math:: \min_\theta \max_\psi \; \text{CE}(f_S) + \frac{w}{K} \sum_k
        \sqrt{\alpha (|\phi_S| - |\phi_T|)^2 + 2 (1 - \alpha)
        (|\phi_S| |\phi_T| - \text{Re}\, \phi_S \overline{\phi_T})}

    The encoder is that of ``a2gnn``, with equal hops on both graphs. :math:`\phi` are
    characteristic functions at the frequencies :math:`g_\psi(z_k)`, where a perceptron of three
    layers reads normal noise :math:`z_k`.

    Differences from the authors' code: both players learn in one step by a reversed gradient
    instead of in turns. The authors choose epoch and settings of each direction by the target's
    labels; the defaults are the values that most of their citation files share.

    Args:
        weight: weight :math:`w` of the discrepancy.
        amplitude: weight :math:`\alpha` of amplitudes; phases have the rest.
        source_hops: propagation steps of a hidden layer on the source.

    References:
        Chen et al., "Learning Adaptive Distribution Alignment with Neural Characteristic Function
        for Graph Domain Adaptation" (ADAlign), ICLR 2026.
    """

    cites = ("chen2026adalign",)
    encoder_defaults = {**HopMethod.encoder_defaults, "layers": 3, "dropout": 0.25}
    term = "discrepancy"
    search = {
        "weight": (0.2, 0.4, 0.6, 0.8, 1.0),
        "amplitude": (0.2, 0.4, 0.6, 0.8, 1.0),
        "source_hops": (0, 1, 10, 15),
        "target_hops": (1, 10, 15),
    }

    def __init__(
        self, *, weight: Weight = 0.6, amplitude: Share = 0.8, source_hops: Steps = 10, **base: Any
    ) -> None:
        super().__init__(weight=weight, source_hops=source_hops, **base)
        self.amplitude = amplitude

    def begin(self) -> None:
        super().begin()
        width = self.classifier.hidden_dim
        acts = (nn.LeakyReLU(0.2), nn.LeakyReLU(0.2), nn.Tanh())
        layers = ((nn.Linear(width, width), nn.BatchNorm1d(width), act) for act in acts)
        self.frequencies = nn.Sequential(*itertools.chain(*layers))

    def discrepancy(self, source: Tensor, target: Tensor, /) -> Tensor:
        """Discrepancy of characteristic functions at frequencies where it is large."""
        noise = torch.randn(FREQUENCIES, source.size(1), device=source.device)
        frequencies = reverse_gradient(self.frequencies(noise), 1.0)
        return characteristic_discrepancy(source, target, frequencies, self.amplitude)
