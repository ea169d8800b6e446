"""MMD: alignment by maximum mean discrepancy (Long et al., ICML 2015)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from graphgym_srnc.core.options import Weight
from graphgym_srnc.losses.adversarial import ganin_schedule
from graphgym_srnc.losses.discrepancy import mmd
from graphgym_srnc.methods.shared.aligned import aligned
from graphgym_srnc.methods.shared.scores import Scored

SAMPLE = 1024  # nodes of each graph drawn per step; the cost grows with its square


class MMD(Scored):
    r"""Train a plain GNN with the maximum mean discrepancy (MMD) between source and target states.

    .. math:: \mathcal L = \text{CE}_S + w(p) \, \text{MMD}^2(h_S, h_T)

    The biased estimate has five Gaussian kernels, whose squared widths are 1/4 to 4 times the mean
    squared distance of all pairs.

    Differences from the authors' code: :math:`w(p)` rises from 0 by the schedule of ``dann``, since
    states would shrink before they are informative.

    When to use: distributions that differ in more than their moments.

    Args:
        weight: largest weight :math:`w`.

    References:
        Long et al., "Learning Transferable Features with Deep Adaptation Networks", ICML 2015.
        Gretton et al., "A Kernel Two-Sample Test", JMLR 2012.
    """

    cites = ("long2015dan", "gretton2012mmd")
    with_backbone = "{}-MMD"
    search = {"weight": (0.1, 0.5, 1.0, 2.0)}

    def __init__(self, *, weight: Weight = 0.1, **base: Any) -> None:
        super().__init__(**base)
        self.weight = weight

    def begin(self) -> None:
        self.on_target = self.target_view()

    def losses(self) -> dict[str, Tensor]:
        strength = ganin_schedule(self.progress)
        return aligned(self, "mmd", self.weight, sampled_mmd, strength=strength)


def sampled_mmd(*states: Tensor) -> Tensor:
    """MMD of at most :data:`SAMPLE` drawn rows of source and of target states ``[n, H]``."""
    x, y = (h[torch.randperm(len(h), device=h.device)[:SAMPLE]] for h in states)
    return mmd(x, y)
