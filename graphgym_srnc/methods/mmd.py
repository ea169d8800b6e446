"""MMD: alignment by maximum mean discrepancy (Long et al., ICML 2015)."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from graphgym_srnc.core.options import Weight
from graphgym_srnc.losses.adversarial import ganin_schedule
from graphgym_srnc.methods.shared.aligned import Aligned, sampled_mmd

SAMPLE = 1024  # nodes of each graph drawn per step; the cost grows with its square


class MMD(Aligned):
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
    term = "mmd"
    search = {"weight": (0.1, 0.5, 1.0, 2.0)}

    def __init__(self, *, weight: Weight = 0.1, **base: Any) -> None:
        super().__init__(weight=weight, **base)

    @property
    def strength(self) -> float:
        return ganin_schedule(self.progress)

    def discrepancy(self, source: Tensor, target: Tensor, /) -> Tensor:
        return sampled_mmd(source, target, SAMPLE)
