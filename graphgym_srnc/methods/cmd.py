"""CMD: alignment by central moment discrepancy (Zellinger et al., ICLR 2017)."""

from __future__ import annotations

from graphgym_srnc.losses.discrepancy import cmd
from graphgym_srnc.methods.shared.aligned import Aligned


class CMD(Aligned):
    r"""Train a plain GNN with the central moment discrepancy (CMD) of source and target states.

    .. math:: \mathcal L = \text{CE}_S + w \, d_\text{CMD}(h_S, h_T), \quad
        d_\text{CMD} = \lVert \text{E} h_S - \text{E} h_T \rVert_2
        + \sum_{k=2}^5 \lVert c_k(h_S) - c_k(h_T) \rVert_2

    :math:`c_k` are central moments of each coordinate. CMD is a metric on a bounded interval only,
    so set ``gnn.act tanh``, as the shipped configs do. Otherwise a tanh is applied before it.

    When to use: graphs that differ in their features. The cost is linear in the number of nodes.

    Args:
        weight: weight :math:`w` of the discrepancy.

    References:
        Zellinger et al., "Central Moment Discrepancy (CMD) for Domain-Invariant Representation
        Learning", ICLR 2017.
    """

    cites = ("zellinger2017cmd",)
    with_backbone = "{}-CMD"
    search = {"weight": (0.01, 0.1, 1.0, 5.0)}

    term = "cmd"
    bounded = True
    discrepancy = staticmethod(cmd)
