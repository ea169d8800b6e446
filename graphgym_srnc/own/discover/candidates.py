"""Which nodes new clusters consist of: those predicted as unknown, or else the least certain."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

LEAST_SHARE = 0.1  # of the nodes without a label that are candidates if none is predicted unknown
SIGNIFICANT = 0.01  # p-value below which the labels say that there is an unknown class


class Evidence(NamedTuple):
    """What a model says of the unknown class as a whole.

    Args:
        open_set: whether the model has an unknown class.
        p_value: p-value of the hypothesis that there is no unknown node; -1 = not tested.
        share: estimated share of unknown nodes, from the same test.
    """

    open_set: bool = True
    p_value: float = -1.0
    share: float = 0.0

    @classmethod
    def of(cls, method: Any) -> Evidence:
        """The evidence that a trained method keeps; SRNC+ alone tests for an unknown class."""
        plan = getattr(method, "plan", None)
        open_set = method.task.unknown is not None
        return cls(open_set) if plan is None else cls(open_set, plan.p_value, plan.least_share)

    @property
    def sentence(self) -> str:
        """What it says of new clusters; empty if it supports them or says nothing."""
        if not self.open_set:
            return (
                "The model was trained without an unknown class, so it does not say whether any of"
                " these is a new class."
            )
        if self.p_value <= SIGNIFICANT:
            return ""
        return (
            "The labels give no significant evidence that any of these is a new class"
            f" (p = {self.p_value:.2g}; significant: below {SIGNIFICANT:g})."
        )


class Seeds(NamedTuple):
    """The nodes that new clusters consist of.

    Args:
        nodes: their numbers, ``[n]``.
        doubt: how unlike the known classes each node is, ``[V]``: its probability of the unknown
            class, or if no node is predicted as unknown, 1 less that of its most probable class.
        predicted: whether the model predicts them as unknown; otherwise they are candidates.
    """

    nodes: Tensor
    doubt: Tensor
    predicted: bool

    @property
    def share(self) -> float:
        """Their share of all nodes."""
        return len(self.nodes) / max(len(self.doubt), 1)


def padded(posterior: Tensor, evidence: Evidence) -> Tensor:
    """Posteriors ``[V, N + 1]``, with an unknown class of probability 0 if a model has none."""
    return posterior if evidence.open_set else F.pad(posterior, (0, 1))


def seeds(
    posterior: Tensor, labelled: Tensor | None = None, evidence: Evidence = Evidence()
) -> Seeds:
    """The nodes predicted as unknown, or else the candidates.

    Candidates are the share :data:`LEAST_SHARE` of the nodes without a label whose most probable
    known class is least certain, or more if the labels suggest a larger share.

    Args:
        posterior: of the model, ``[V, N + 1]``, the unknown class last.
        labelled: nodes whose class is known, which are no candidates.
        evidence: what the model says of the unknown class.
    """
    num_known = posterior.size(1) - 1
    unknown = (posterior.argmax(1) == num_known).nonzero().view(-1)
    if len(unknown):
        return Seeds(unknown, posterior[:, -1], True)
    known = posterior[:, :-1] / posterior[:, :-1].sum(1, keepdim=True).clamp(min=1e-12)
    doubt = 1 - known.amax(1)
    free = torch.ones(len(doubt), dtype=torch.bool)
    if labelled is not None:
        free[labelled] = False
    nodes = free.nonzero().view(-1)
    count = max(1, round(max(LEAST_SHARE, evidence.share) * len(nodes)))
    chosen = nodes[doubt[nodes].argsort(descending=True, stable=True)[:count]]
    return Seeds(chosen.sort().values, doubt, False)
