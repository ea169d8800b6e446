"""The unknown-class threshold: confidence, decision and posterior."""

from __future__ import annotations

from typing import Annotated

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch_geometric.data import Data

from graphgym_srnc.backbones import Graph
from graphgym_srnc.core.options import OneOf
from graphgym_srnc.core.task import ShiftTask, Sizes
from graphgym_srnc.losses.prior import known_share

Cut = Annotated[str, OneOf("validation", "share")]

KEPT = 0.95
"""Share of the known validation nodes that stay known where no validation node is unknown."""


class OpenSetCut(nn.Module):
    """Confidence, unknown-class threshold, decision and posterior of a method.

    It reads ``task``, ``threshold``, ``smoothing``, ``cut``, ``warnings`` and :meth:`prepared` of
    the method.
    """

    task: ShiftTask | Sizes
    threshold: Tensor
    cut: str
    smoothing: int
    warnings: list[str]

    prior: float | None = None
    """Unknown-class threshold without unknown validation nodes; None = that of :data:`KEPT`."""

    calibrated: bool = True
    """Whether validation moves the unknown-class threshold."""

    explicit_unknown: bool = False
    """Whether the last of ``N + 1`` scores is that of the unknown class."""

    def prepared(self, graph: Data) -> Graph:
        """The graph with features scaled as the encoder reads them."""
        raise NotImplementedError

    def confidence(self, scores: Tensor) -> Tensor:
        """How sure it is that a node is of a known class, ``[n]``, from scores ``[n, N(+1)]``.

        By default the largest softmax of a known class, and how far the best known class is above
        the unknown one where that is explicit. The threshold and the AUROC of the unknown class are
        those of this figure.
        """
        known = self.task.num_known
        if self.explicit_unknown and scores.size(1) > known:
            return scores[:, :known].amax(1) - scores[:, known]
        return scores.softmax(1)[:, :known].amax(1)

    def calibrate(self, scores: Tensor, label: Tensor, on_target: Tensor) -> None:
        """Set the threshold by validation scores ``[n, K]``, labels ``[n]``, and target scores.

        Where no validation node is unknown, the best cut by score would be none. It is ``prior``
        then, or lets :data:`KEPT` of them through.
        """
        if not self.task.open_set:
            return
        unknown = label == self.task.num_known
        confidence = self.confidence(scores)
        if self.cut == "share":
            cut = cut_by_share(confidence[~unknown], self.confidence(on_target))
        elif not self.calibrated:
            return
        elif unknown.any():
            known = scores[:, : self.task.num_known].argmax(1)
            cut = best_threshold(confidence, known, label, self.task.num_known)
        elif self.prior is None:
            cut = confidence.quantile(1 - KEPT)
            self.warnings.append(
                "No validation node belongs to an unknown class. The unknown-class threshold is set"
                f" so that {100 * KEPT:.0f} % of the validation nodes are predicted as known."
            )
        else:
            cut = self.prior
        self.threshold.fill_(cut)

    def decide(self, scores: Tensor) -> Tensor:
        """Classes ``[n]`` from scores: the likeliest known one, or unknown below the threshold."""
        known = scores[:, : self.task.num_known].argmax(1)
        if not self.task.open_set:
            return known
        return torch.where(self.confidence(scores) < self.threshold, self.task.num_known, known)

    def posterior(self, scores: Tensor) -> Tensor:
        r"""Probabilities ``[n, N(+1)]`` from scores, the likeliest that of :meth:`decide`.

        The known classes share what the softmax of their own scores gives them. The unknown class
        :math:`u` stands to the likeliest known one as the threshold :math:`t` to the confidence
        :math:`s`, :math:`\log p_u - \max_c \log p_c = \ell(t) - \ell(s)`, with :meth:`log_odds`
        :math:`\ell`.
        """
        log_p = scores[:, : self.task.num_known].double().log_softmax(1)
        if not self.task.open_set:
            return log_p.exp()

        sure = self.confidence(scores)
        lead = self.log_odds(self.threshold.double()) - self.log_odds(sure.double())
        lead = lead.clamp(-50, 50)
        # At a tie, and where rounding makes one, the decision counts.
        lead = torch.where(sure < self.threshold, lead.clamp(min=1e-9), lead.clamp(max=0))
        return torch.cat([log_p, (log_p.amax(1) + lead)[:, None]], 1).softmax(1)

    def log_odds(self, confidence: Tensor) -> Tensor:
        r"""A confidence as log odds: of a probability :math:`s`, :math:`\log \frac{s}{1 - s}`."""
        return confidence if self.explicit_unknown else confidence.logit(eps=1e-12)

    def smoothed(self, logits: Tensor, graph: Data) -> Tensor:
        """The logits ``[V, K]``, or with ``smoothing`` logarithms of their smoothed softmax."""
        if not self.smoothing:
            return logits
        return self.smooth(logits.softmax(1), graph, self.smoothing).clamp(min=1e-12).log()

    @torch.no_grad()
    def smooth(self, p: Tensor, graph: Data, steps: int) -> Tensor:
        r"""Personalised PageRank with restart 0.1 over a posterior ``[V, K]``: so many steps
        of :math:`P \leftarrow 0.9 \hat A P + 0.1 P_0`, then rows that sum to one."""
        result, prepared = p, self.prepared(graph)
        for _ in range(steps):
            result = 0.9 * (prepared.adjacency("gcn") @ result) + 0.1 * p
        return F.normalize(result, p=1, dim=1)


def cut_by_share(held_out: Tensor, on_target: Tensor) -> float:
    """The threshold below which the estimated share of unknown target nodes lies.

    Args:
        held_out: confidence of nodes of known classes that were not trained on, ``[n]``.
        on_target: confidence of all target nodes, ``[V]``.
    """
    ordered = on_target.sort().values
    unknown = round((1 - known_share(held_out, on_target)) * len(ordered))
    return float(ordered[unknown]) if unknown < len(ordered) else float("inf")


def best_threshold(confidence: Tensor, prediction: Tensor, label: Tensor, unknown: int) -> float:
    """The unknown-class threshold with the largest validation Micro-F1.

    The search covers all thresholds, in O(n log n).

    Args:
        confidence: how sure the classifier is of its known class, ``[n]``.
        prediction: the known class it would name, ``[n]``.
        label: true classes with ``unknown`` where masked, ``[n]``.
        unknown: label of the unknown class.
    """
    confidence, order = confidence.sort()
    gain = ((label == unknown).long() - (prediction == label).long())[order]
    correct = F.pad(gain.cumsum(0), (1, 0))

    # Cut i names the i least sure nodes unknown: any threshold above the i-th confidence, up to and
    # with the next, does so.
    high = F.pad(confidence, (0, 1), value=torch.inf)
    correct[1:-1][confidence[1:] == confidence[:-1]] = -len(label)
    return float(high[correct.argmax()])
