"""The IID oracle: the plain GNN with every class labelled, as if there were no shift."""
from __future__ import annotations

from graphgym_srnc.methods.scores import Scored


class IID(Scored):
    """The plain GNN on ``task.oracle``; the paper's ΔF1 is the distance to its Micro-F1."""

    oracle = True
