"""CORAL: alignment of covariances (Sun and Saenko, ECCV Workshops 2016)."""

from __future__ import annotations

from typing import Any

from graphgym_srnc.core.options import Weight
from graphgym_srnc.losses.discrepancy import coral
from graphgym_srnc.methods.shared.aligned import Aligned


class CORAL(Aligned):
    r"""Train a plain GNN with the distance between the covariances of source and target states.

    .. math:: \mathcal L = \text{CE}_S + \frac{w}{4d^2} \lVert C_S - C_T \rVert_F^2

    :math:`C` are covariances of the last hidden state, whose width is :math:`d`.

    When to use: a first try at alignment, with one weight to set.

    Args:
        weight: weight :math:`w`. The distance is small; try 1 to 10,000.

    References:
        Sun and Saenko, "Deep CORAL: Correlation Alignment for Deep Domain Adaptation", ECCV
        Workshops 2016.
    """

    cites = ("sun2016coral",)
    with_backbone = "{}-CORAL"
    term = "coral"
    discrepancy = staticmethod(coral)
    search = {"weight": (1.0, 10.0, 100.0, 1000.0, 10000.0)}

    def __init__(self, *, weight: Weight = 100.0, **base: Any) -> None:
        super().__init__(weight=weight, **base)
