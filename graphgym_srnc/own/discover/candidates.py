"""Which nodes new clusters consist of: those predicted as unknown, or else candidates."""

from __future__ import annotations

from typing import Any, NamedTuple, Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from graphgym_srnc.errors import InputError
from graphgym_srnc.losses.ranks import least_detectable_share
from graphgym_srnc.methods.shared.label_scan import FewLabels, Scan
from graphgym_srnc.methods.shared.plan import SIGNIFICANT, TESTS

LEAST_SHARE = 0.1  # of the nodes without a label that are candidates in a graph without labels
MOST = 4  # groups with few labels that are shown
P_ALONE = 0.05  # p-value of a group alone, from which it is not shown
P_ALSO = 0.8  # p-value from which a group beside new clusters is not shown
P_UNKNOWN = "P(unknown)"
MISSING = "missing labels"
DOUBT = "doubt"


class Evidence(NamedTuple):
    """What a model says of the unknown class as a whole.

    Args:
        open_set: whether the model has an unknown class.
        p_value: p-value of the hypothesis that there is no unknown node; -1 = not tested.
        share: estimated share of unknown nodes, from the same test.
        labels: number of labels of the test.
        is_clear: whether the test shows unknown nodes, or there was none.
    """

    open_set: bool = True
    p_value: float = -1.0
    share: float = 0.0
    labels: int = 0
    is_clear: bool = True

    @classmethod
    def of(cls, method: Any) -> Evidence:
        """The evidence that a trained method keeps; SRNC+ alone tests for an unknown class."""
        plan = getattr(method, "plan", None)
        open_set = method.task.unknown is not None
        if plan is None:
            return cls(open_set)
        return cls(open_set, plan.p_value, plan.least_share, plan.tested, plan.is_clear)

    @property
    def sentence(self) -> str:
        """What it says of new clusters; empty if it supports them or says nothing."""
        if not self.open_set:
            return (
                "The model was trained without an unknown class, so it does not say whether any of"
                " these is a new class."
            )
        if self.is_clear:
            return ""
        said = (
            "The labels give no significant evidence that any of these is a new class"
            f" (p = {self.p_value:.2g}; significant: at most {SIGNIFICANT:g})."
        )
        if not self.labels:
            return said
        least = 100 * least_detectable_share(self.labels, SIGNIFICANT / TESTS)
        return (
            f"{said} {self.labels:,} labels may not show a class below {least:.0f} % of all nodes,"
            " nor a larger one that is much like a known class."
        )


class Seeds(NamedTuple):
    """The nodes that new clusters consist of.

    Args:
        nodes: their numbers, ``[n]``.
        doubt: how unlike the known classes each node is, ``[V]``, from 0 to 1, by the ``measure``.
        measure: ``P(unknown)``; or of candidates ``missing labels``, see :attr:`Scan.missing`, or
            without labels ``doubt``: 1 less the probability of the most probable known class.
        groups: the groups of candidates that lack labels, the clearest first.
    """

    nodes: Tensor
    doubt: Tensor
    measure: str = P_UNKNOWN
    groups: Sequence[FewLabels] = ()

    @property
    def predicted(self) -> bool:
        """Whether the model predicts them as unknown; otherwise they are candidates."""
        return self.measure == P_UNKNOWN

    @property
    def share(self) -> float:
        """Their share of all nodes."""
        return len(self.nodes) / max(len(self.doubt), 1)

    @property
    def likely(self) -> int:
        """Number of groups that are candidates unless the user wants another number."""
        return max(1, sum(group.p_alone < P_ALONE for group in self.groups[:MOST]))

    def first(self, count: int) -> Seeds:
        """Those of the first groups alone."""
        groups = self.groups[:count]
        return self._replace(nodes=torch.cat([one.nodes for one in groups]), groups=groups)


def check_number(num_new: int, seeds: Seeds) -> None:
    """Refuse a number of new clusters that the seeds cannot form.

    Raises:
        InputError: there are fewer seeds than new clusters.
    """
    most = len(seeds.groups) or len(seeds.nodes)
    if not 1 <= num_new <= most:
        what = "nodes predicted as unknown" if seeds.predicted else "nodes least like a known class"
        if seeds.groups:
            what = "groups with fewer labels than expected"
        raise InputError("num_new", num_new, f"1 to {most}, the number of {what}")


def padded(posterior: Tensor, evidence: Evidence) -> Tensor:
    """Posteriors ``[V, N + 1]``, with an unknown class of probability 0 if a model has none."""
    return posterior if evidence.open_set else F.pad(posterior, (0, 1))


def seeds(
    topics: Tensor,
    posterior: Tensor,
    label: Tensor,
    evidence: Evidence = Evidence(),
    drawn: Tensor | None = None,
    covered: bool = True,
) -> Seeds:
    """The nodes predicted as unknown, or else the candidates.

    Candidates are groups with fewer labels than expected. In a graph without labels, and among
    nodes that no labels represent, they are the share :data:`LEAST_SHARE` of the nodes whose class
    is least certain, or more if the labels of the model suggest a larger share of unknown nodes.

    Args:
        topics: ``[V, D]``.
        posterior: of the model, ``[V, N + 1]``, the unknown class last.
        label: class of each labelled node of a known class, ``[V]``; -1 = none.
        evidence: what the model says of the unknown class.
        drawn: nodes from which labels were drawn, ``[V]`` (default: all). Others lack labels.
        covered: whether labels represent all nodes whose classes are wanted.
    """
    unknown = (posterior.argmax(1) == posterior.size(1) - 1).nonzero().view(-1)
    if len(unknown):
        return Seeds(unknown, posterior[:, -1])
    known = known_of(posterior)
    own = torch.ones_like(label, dtype=torch.bool) if drawn is None else drawn
    groups, missing = _few_labels(topics, known, label, own) if covered else ([], label)
    if groups:
        return Seeds(torch.cat([one.nodes for one in groups]), missing, MISSING, groups)
    doubt = 1 - known.amax(1).double()
    free = ((label < 0) & (covered | ~own)).nonzero().view(-1)
    count = max(1, round(max(LEAST_SHARE, evidence.share) * len(free)))
    order = doubt[free].argsort(descending=True, stable=True)
    return Seeds(free[order[:count]].sort().values, doubt, DOUBT)


def _few_labels(
    topics: Tensor, known: Tensor, label: Tensor, own: Tensor
) -> tuple[list[FewLabels], Tensor]:
    """Groups with few labels of some nodes, and :attr:`Scan.missing` of all nodes, ``[V]``.

    Args:
        topics, known, label: as in :class:`Scan`.
        own: the nodes, ``[V]``.
    """
    nodes = own.nonzero().view(-1)
    scan = Scan(topics[nodes], known[nodes], label[nodes])
    groups = [one._replace(nodes=nodes[one.nodes]) for one in scan.groups()]
    missing = scan.missing.new_zeros(len(own)).index_copy(0, nodes, scan.missing)
    return groups, missing


def known_of(posterior: Tensor) -> Tensor:
    """Probabilities of the known classes ``[V, N]``, if a node is of one."""
    return posterior[:, :-1] / posterior[:, :-1].sum(1, keepdim=True).clamp(min=1e-12)


def also_possible(
    topics: Tensor,
    posterior: Tensor,
    label: Tensor,
    before: int = 0,
    drawn: Tensor | None = None,
) -> list[FewLabels]:
    """Groups with few labels of nodes that are predicted as known classes.

    They may be of a further new class. There are at most :data:`MOST`.

    Args:
        topics: ``[V, D]``.
        posterior: of the model, ``[V, N + 1]``, the unknown class last.
        label: class of each labelled node of a known class, ``[V]``; -1 = none.
        before: the largest number of the new clusters.
        drawn: nodes from which labels were drawn, ``[V]`` (default: all). Others lack labels.
    """
    is_known = posterior.argmax(1) < posterior.size(1) - 1
    own = is_known if drawn is None else is_known & drawn
    groups, _ = _few_labels(topics, known_of(posterior), label, own)
    few = [one for one in groups[:MOST] if one.p_alone < P_ALONE and one.p_value < P_ALSO]
    return [group._replace(number=number) for number, group in enumerate(few, before + 1)]
