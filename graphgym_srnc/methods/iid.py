"""IID oracle: the plain GNN with every class labelled."""

from __future__ import annotations

from graphgym_srnc.methods.shared.scores import Scored


class IID(Scored):
    """Train a plain GNN on the oracle task, in which every class is labelled.

    The oracle task labels the masked classes, or nodes of the target, which no other method sees.
    In close-set shift the oracle is scored on the other target nodes. ``compare --against iid``
    shows the distance of each method to it.

    When to use: to measure how much of the score is lost to the shift.
    """

    title = "oracle"
    with_backbone = "{} (IID)"
    oracle = True

    def begin(self) -> None:
        self.reported.append("agreement")  # it is the plain GNN itself
