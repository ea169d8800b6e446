"""Unknown-class threshold: confidence, decision and posterior."""

from __future__ import annotations

from typing import Annotated

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch_geometric.data import Data

from graphgym_srnc.backbones import Graph
from graphgym_srnc.core.options import OneOf
from graphgym_srnc.core.task import ShiftTask
from graphgym_srnc.losses.prior import known_share

Cut = Annotated[str, OneOf("validation", "share")]

KEPT = 0.95
"""Share of known validation nodes to predict as known if no validation node is unknown."""


class Threshold(nn.Module):
    """Confidence, unknown-class threshold, decision and posterior of a method.

    It reads the attributes below, :meth:`prepared` and the options of the method.
    """

    task: ShiftTask
    threshold: Tensor
    cut: str
    smoothing: int
    warnings: list[str]

    prior: float | None = None
    """Threshold if no validation node is unknown; None = the one that :data:`KEPT` gives."""

    calibrated: bool = True
    """Whether the threshold is set on validation nodes."""

    explicit_unknown: bool = False
    """Whether the last of ``N + 1`` scores is the score of the unknown class."""

    def prepared(self, graph: Data) -> Graph:
        """The graph with features scaled as the encoder reads them."""
        raise NotImplementedError

    def confidence(self, scores: Tensor) -> Tensor:
        """Confidence ``[n]`` that a node is of a known class, from scores ``[n, N(+1)]``.

        It is the largest softmax of a known class. If the unknown class has a score, it is the
        difference between the largest score of a known class and that score. The threshold and the
        AUROC of the unknown class refer to it.
        """
        unknown = self.task.unknown
        learned = self.explicit_unknown or self.task.unknown_found
        if unknown is not None and learned and scores.size(1) > unknown:
            return scores[:, :unknown].amax(1) - scores[:, unknown]
        return scores.softmax(1)[:, : self.task.num_known].amax(1)

    def calibrate(self, scores: Tensor, label: Tensor, on_target: Tensor) -> None:
        """Set the threshold.

        If no validation node is unknown, the best Micro-F1 would predict none as unknown. The
        threshold is then ``prior``, or predicts :data:`KEPT` of them as known.

        Args:
            scores, label: scores ``[n, K]`` and labels ``[n]`` of the validation nodes.
            on_target: scores of the target nodes, ``[V, K]``.
        """
        if not self.task.open_set:
            return
        unknown = label == self.task.num_known
        confidence = self.confidence(scores)
        if self.cut == "share":
            cut = threshold_by_share(confidence[~unknown], self.confidence(on_target))
        elif not self.calibrated:
            return
        elif unknown.any():
            known = scores[:, : self.task.num_known].argmax(1)
            cut = best_threshold(confidence, known, label, self.task.num_known)
        elif self.prior is None:
            cut = float(confidence.quantile(1 - KEPT))
            self.warnings.append(
                "No validation node belongs to an unknown class. The unknown-class threshold is set"
                f" so that {100 * KEPT:.0f} % of the validation nodes are predicted as known."
            )
        else:
            cut = self.prior
        self.threshold.fill_(cut)

    def decide(self, scores: Tensor) -> Tensor:
        """Classes ``[n]``: the most probable known class, or unknown below the threshold."""
        known = scores[:, : self.task.num_known].argmax(1)
        if not self.task.open_set:
            return known
        return torch.where(self.confidence(scores) < self.threshold, self.task.num_known, known)

    def posterior(self, scores: Tensor) -> Tensor:
        r"""Probabilities ``[n, N(+1)]``, whose maximum is the class of :meth:`decide`.

        .. math:: \log p_u - \max_c \log p_c = \ell(t) - \ell(s)

        The softmax of the known scores gives the ratios between known classes. The ratio of the
        unknown class :math:`u` follows from the threshold :math:`t`, the confidence :math:`s` and
        :meth:`log_odds` :math:`\ell`.
        """
        log_p = scores[:, : self.task.num_known].double().log_softmax(1)
        if not self.task.open_set:
            return log_p.exp()

        sure = self.confidence(scores)
        lead = self.log_odds(self.threshold.double()) - self.log_odds(sure.double())
        lead = lead.clamp(-50, 50)
        # The decision counts at a tie, also if rounding causes it.
        lead = torch.where(sure < self.threshold, lead.clamp(min=1e-9), lead.clamp(max=0))
        return torch.cat([log_p, (log_p.amax(1) + lead)[:, None]], 1).softmax(1)

    def log_odds(self, confidence: Tensor) -> Tensor:
        r"""Log-odds of a confidence: :math:`\log \frac{s}{1 - s}` of a probability :math:`s`."""
        return confidence if self.explicit_unknown else confidence.logit(eps=1e-12)

    def smoothed(self, logits: Tensor, graph: Data) -> Tensor:
        """Logits ``[V, K]``, or with ``smoothing`` the logarithm of their smoothed softmax."""
        if not self.smoothing:
            return logits
        return self.smooth(logits.softmax(1), graph, self.smoothing).clamp(min=1e-12).log()

    @torch.no_grad()
    def smooth(self, p: Tensor, graph: Data, steps: int) -> Tensor:
        r"""Personalised PageRank over a posterior ``[V, K]``, whose rows then sum to 1.

        .. math:: P \leftarrow 0.9 \hat A P + 0.1 P_0
        """
        result, prepared = p, self.prepared(graph)
        for _ in range(steps):
            result = 0.9 * (prepared.adjacency("gcn") @ result) + 0.1 * p
        return F.normalize(result, p=1, dim=1)


def threshold_by_share(held_out: Tensor, on_target: Tensor) -> float:
    """Threshold that predicts the estimated share of unknown target nodes as unknown.

    Args:
        held_out: confidence of nodes of known classes without those of training, ``[n]``.
        on_target: confidence of all target nodes, ``[V]``.
    """
    ordered = on_target.sort().values
    unknown = round((1 - known_share(held_out, on_target)) * len(ordered))
    return float(ordered[unknown]) if unknown < len(ordered) else float("inf")


def best_threshold(confidence: Tensor, prediction: Tensor, label: Tensor, unknown: int) -> float:
    """Threshold with the largest validation Micro-F1 of all thresholds, in O(n log n).

    Args:
        confidence: confidence that a node is of a known class, ``[n]``.
        prediction: the most probable known class, ``[n]``.
        label: true classes, ``[n]``.
        unknown: label of the unknown class.
    """
    confidence, order = confidence.sort()
    gain = ((label == unknown).long() - (prediction == label).long())[order]
    correct = F.pad(gain.cumsum(0), (1, 0))

    # Entry i predicts the i least confident nodes as unknown, as does every threshold above the
    # i-th confidence, up to and including the next one.
    high = F.pad(confidence, (0, 1), value=torch.inf)
    correct[1:-1][confidence[1:] == confidence[:-1]] = -len(label)
    return float(high[correct.argmax()])
