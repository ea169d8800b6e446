"""Twins: the same method with a part of the labels, whose iterations the other labels judge."""

from __future__ import annotations

from torch import Tensor

from graphgym_srnc.losses.prior import UnknownEvidence
from graphgym_srnc.methods.shared.cross_fit import folds
from graphgym_srnc.methods.shared.plan import DONE, Decision, Judged, Plan, weighted_mean
from graphgym_srnc.methods.shared.unknown_share import with_share

ENOUGH = 300  # labels that one twin leaves out, with which no second twin is needed
CLEAR = 2  # standard errors of a rise after which another iteration follows
UNDONE = (
    "SRNC+ predicts as before its iteration {}, since this lowered the expected accuracy (from"
    " {:.1f} to {:.1f} % of the unlabelled nodes that the labels represent)."
)


def halves(labels: Tensor, always: Tensor) -> list[Tensor]:
    """Which labels ``[n]`` each twin learns: all but a half; one twin leaves out enough of many.

    ``always`` are those that each twin learns, ``[n]``.
    """
    half = folds(labels, 2, always)
    is_enough = (half >= 0).sum() >= 2 * ENOUGH
    return [half != number for number in range(1 if is_enough else 2)]


def recount(
    found: UnknownEvidence, judged: Judged, before: Tensor, plan: Plan, least: float
) -> Decision:
    """Count unknown nodes again after an iteration.

    The number is the mean of both counts, or the new one if there is clearly more evidence. If the
    expected accuracy on held-out labels rises by more than two standard errors, and is not yet
    97 %, another iteration follows. If it falls by more than one, this one is undone.

    Args:
        found: what held-out nodes say after the iteration.
        judged: these nodes, ``[n]``.
        before: what each of them added to the expected accuracy before it, ``[n]``.
        plan: the plan after the iteration.
        least: least share of nodes to predict as unknown.
    """
    gained = found.gained(judged.ranks, judged.correct)
    rise, error = weighted_mean(gained - before, judged.weight)
    is_last = not plan.is_clear or rise <= CLEAR * error or found.accuracy >= DONE
    figures = {
        "recounted_share": found.rank,
        "recounted_least_share": found.least_share,
        "recounted_accuracy": found.accuracy,
    }
    decision = Decision(plan, figures, episodes=plan.iteration if is_last else None)
    if rise < -error:
        accuracies = (weighted_mean(100 * each, judged.weight)[0] for each in (before, gained))
        warning = UNDONE.format(plan.iteration, *accuracies)
        undone = plan._replace(iteration=plan.iteration - 1)
        return decision._replace(plan=undone, warnings={"undone": warning})
    if not plan.is_clear:
        return decision
    more = (found.least_share - plan.least_share) * 2 * len(gained) ** 0.5
    new = with_share(plan, found, least, weight=1.0 if more > CLEAR else 0.5)
    return decision._replace(plan=new, kept=judged.kept(new.unknown_share))
