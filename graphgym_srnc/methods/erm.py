"""The plain GNN: cross-entropy on the source, and a threshold for the unknown class."""
from __future__ import annotations

from torch import Tensor
from torch.nn import functional as F

from graphgym_srnc.methods.scores import Scored


class ERM(Scored):
    """Empirical risk minimisation on the labelled source nodes (Eq. 2 of the paper).

    In open-set shift a node whose largest softmax (Hendrycks and Gimpel, ICLR 2017), or another
    ``score``, falls below a threshold is unknown; the threshold is cut on validation.
    """

    def losses(self) -> dict[str, Tensor]:
        return {"source": F.cross_entropy(self.classifier(self.on_source), self.labels)}
