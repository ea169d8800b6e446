"""How many nodes are predicted as unknown, as labels decide it before the first iteration."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from graphgym_srnc.core.task import DRAWN_MASK, ShiftTask, covers
from graphgym_srnc.losses.prior import UnknownEvidence, unknown_evidence
from graphgym_srnc.losses.ranks import least_detectable_share
from graphgym_srnc.methods.shared.plan import SIGNIFICANT, TESTS, Decision, Judged, Plan

LEAST_COMPARABLE = 50  # unlabelled nodes that held-out labels are compared with
WEAK = 0.2  # p-value up to which there is a weak sign
NO_UNKNOWN = "no unknown class"  # code of the next warning
NO_SIGN = (
    "The labels show {} sign of an unknown class (p = {:.2g}; a clear sign: at most 0.05), so no"
    " node is predicted as unknown."
)
VARIES = 0.5  # p-value up to which another division of the labels may give a clear sign
ON_OTHER_SEEDS = (
    " The p-value depends on how labels are divided at random: on one table it was 0.005 to 0.33"
    " with four seeds."
)
UNUSUAL = 0.05  # least share of the nodes that labels were drawn from below the threshold
UNUSUAL_PRECISION = 0.5
"""Share of these nodes that are of an unknown class: 38 to 88 % in seven tables."""
_UNUSUAL = (
    f" Nodes are predicted as unknown if they are less certain than {100 * (1 - UNUSUAL):.0f} % of"
    " the nodes that labels were drawn from. Some may be of known classes that have changed: in"
    " seven tables, 38 to 88 % were of classes without labels. So their probability of being"
    f" unknown is set to {100 * UNUSUAL_PRECISION:.0f} % on average."
)
UNUSUAL_OTHERS = (
    "Only {:.0f} % of the unlabelled nodes could have been drawn as labelled ones, such as those of"
    " the same time. These show no clear sign of an unknown class (p = {:.2g}), and the"
    " labels do not test the others." + _UNUSUAL
)
MOST_UNUSUAL = 1 / 3
"""Share of the other nodes above which classes have changed: 52 % where they had, and 5 to 16 % in
seven tables with new classes."""
DRIFT = (
    "Classifiers are less certain of {:.0f} % of the nodes from which no labels were drawn, such as"
    f" those of another time, than of {100 * (1 - UNUSUAL):.0f} % of the others. So classes have"
    " changed. New classes cannot be told from these, so no node is predicted as unknown. Expect a"
    " much lower accuracy there, and label some of these nodes, drawn at random."
)
NOTHING_TO_TEST = (
    "Nearly all nodes that could have been drawn as labelled ones, such as those of the same time,"
    " have labels, so nothing tests for an unknown class." + _UNUSUAL
)
TOO_SMALL = "detectable share"  # code of the next warning
DETECTABLE = (
    "{:,} labels may not show an unknown class that has less than about {:.0f} % of the nodes, nor"
    " a larger one that is much like a known class. If you know that there is one, set"
    " `abstain=False`, or label some of its nodes for validation."
)


class Unlabelled(NamedTuple):
    """The unlabelled nodes of the target.

    Args:
        nodes: their ids, ``[u]``.
        is_drawn: whether a node could have been drawn as a labelled one, ``[u]``.
        represented: whether labels represent all nodes, see :func:`covers`.
    """

    nodes: Tensor
    is_drawn: Tensor
    represented: bool

    @classmethod
    def of(cls, task: ShiftTask, labelled: Tensor) -> Unlabelled:
        """Those of a task, beside labelled nodes ``[n]``."""
        every = torch.ones_like(task.target.y, dtype=torch.bool)
        is_drawn = task.target.get(DRAWN_MASK, every)[task.pool]
        return cls(task.pool, is_drawn, covers(task.target, labelled))

    @property
    def comparable(self) -> Tensor:
        """Ids of the nodes that could have been drawn; of all nodes if these are too few."""
        return self.nodes if self.lack_comparable else self.nodes[self.is_drawn]

    @property
    def lack_comparable(self) -> bool:
        """Whether labels were drawn from a part of the target that has hardly any other nodes."""
        return bool(self.is_drawn.sum() < LEAST_COMPARABLE and not self.is_drawn.all())

    def unusual_rank(self, judged: Judged) -> float:
        """Least share of comparable nodes whose confidence is too low for a known class.

        It is 0 unless there are other nodes, which may be of an unknown class that these lack, and
        which no labels represent.
        """
        if self.represented:
            return 0.0
        return float(judged.ranks.quantile(UNUSUAL)) if self.lack_comparable else UNUSUAL

    def unusual_share(self, certainty: Tensor, rank: float) -> float:
        """Share of the other nodes whose certainty is below a rank of comparable ones."""
        others = self.nodes[~self.is_drawn]
        if not rank or not len(others):
            return 0.0
        bound = certainty[self.comparable].quantile(rank)
        return float((certainty[others] < bound).float().mean())


def decide_on_unknown(
    judged: Judged,
    unlabelled: Unlabelled,
    certainty: Tensor,
    plan: Plan,
    abstain: bool,
) -> Decision:
    """Choose how many nodes are predicted as unknown, after the test for these.

    If classifiers are less certain of over a third of the nodes that no labels represent, classes
    have changed. New ones cannot be told from these, so no node is unknown. None is without a clear
    sign either, unless labels were drawn from a part of the nodes alone.

    Args:
        judged: held-out nodes.
        unlabelled: the nodes that they are compared with, and others.
        certainty: log-odds of the classifiers, averaged over links, of all nodes, ``[V]``. Label
            density would call nodes of another time unusual, since only others have labels.
        plan: the plan with the result of the test.
        abstain: option of the method.
    """
    rank = unlabelled.unusual_rank(judged)
    found = unknown_evidence(*judged)
    is_tested = not unlabelled.lack_comparable
    figures = {"least_unknown_share": found.least_share} if is_tested else {}
    unusual = unlabelled.unusual_share(certainty, rank) if abstain else 0.0
    if unusual > MOST_UNUSUAL:
        warnings = {NO_UNKNOWN: DRIFT.format(100 * unusual)}
        return _none_unknown(plan._replace(is_clear=False), figures, warnings)
    if not is_tested:
        return _unusual_unknown(judged, rank, plan, figures, NOTHING_TO_TEST)
    if plan.is_clear or not abstain:
        chosen = with_share(plan, found, rank)
        figures |= {"expected_accuracy": found.accuracy, "expected_error": found.error}
        return Decision(chosen, figures, kept=judged.kept(chosen.unknown_share))
    if not unlabelled.represented:
        share = 100 * float(unlabelled.is_drawn.float().mean())
        warning = UNUSUAL_OTHERS.format(share, plan.p_value)
        return _unusual_unknown(judged, rank, plan, figures, warning)
    return _none_unknown(plan, figures, _no_sign(plan))


def with_share(plan: Plan, found: UnknownEvidence, least: float, weight: float = 1.0) -> Plan:
    """A plan that predicts as many nodes as unknown as evidence says, and a ``least`` share.

    The numbers are weighted means of those of the plan and the new ones.
    """

    def mean(now: float, new: float) -> float:
        return (1 - weight) * now + weight * new

    return plan._replace(
        unknown_share=mean(plan.unknown_share, max(found.rank, least)),
        least_share=mean(plan.least_share, found.least_share),
        expected=mean(plan.expected, found.known_accuracy),
        precision=mean(plan.precision, found.precision),
    )


def _none_unknown(plan: Plan, figures: dict[str, float], warnings: dict[str, str]) -> Decision:
    """Predict no node as unknown."""
    return Decision(plan._replace(finds_unknown=False), figures, warnings, ("unknown share",))


def _unusual_unknown(
    judged: Judged, rank: float, plan: Plan, figures: dict[str, float], warning: str
) -> Decision:
    """Predict nodes as unknown that are less certain than nearly all held-out nodes."""
    return Decision(
        plan._replace(unknown_share=rank, precision=UNUSUAL_PRECISION),
        figures | {"unusual_share": rank},
        {NO_UNKNOWN: warning},
        episodes=1 if plan.adapts else None,
        kept=judged.kept(rank),
    )


def _no_sign(plan: Plan) -> dict[str, str]:
    """Warnings that no node is predicted as unknown, and of what the labels may not show."""
    sign = "no significant" if plan.p_value > WEAK else "only a weak"
    least = least_detectable_share(plan.tested, SIGNIFICANT / TESTS)
    more = ON_OTHER_SEEDS if plan.p_value <= VARIES else ""
    return {
        NO_UNKNOWN: NO_SIGN.format(sign, plan.p_value) + more,
        TOO_SMALL: DETECTABLE.format(plan.tested, 100 * least),
    }
