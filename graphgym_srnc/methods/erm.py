"""Plain GNN (ERM): cross-entropy on the source, and a threshold for the unknown class."""

from __future__ import annotations

from graphgym_srnc.methods.shared.scores import Scored


class ERM(Scored):
    r"""Train a plain GNN with cross-entropy on the labelled source nodes.

    .. math:: \mathcal L = \text{CE}(f(x_S), y_S)

    In open-set shift a node is unknown if its confidence, the largest softmax probability or
    another ``confidence``, is below a threshold that is chosen on validation nodes.

    When to use: always, as the baseline. ``confidence`` makes it each of the post-hoc methods.

    References:
        Hendrycks and Gimpel, "A Baseline for Detecting Misclassified and Out-of-Distribution
        Examples in Neural Networks", ICLR 2017 (the threshold).
    """

    cites = ("hendrycks2017baseline",)
    with_backbone = "{}"

    def begin(self) -> None:
        self.reported.append("agreement")  # it is the plain GNN itself
