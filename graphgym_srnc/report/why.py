"""Why a model predicts the class of a node, in words."""

from __future__ import annotations

from typing import Sequence

from graphgym_srnc.core.text import aligned, clean, counted, listed, short
from graphgym_srnc.data.names import Names
from graphgym_srnc.methods.shared.validation import OutOfFold
from graphgym_srnc.report.held_out import name_of
from graphgym_srnc.train.explain import Effect, Explanation

SHOWN = 8  # most important links and words of an explanation


def lines(
    classes: Sequence[str], found: Explanation, node: int, names: Names, given: Sequence[str] | None
) -> list[str]:
    """An explanation of a node, with names of classes and the given label of each node, if any."""

    def percent(probability: float) -> str:
        return f"{100 * probability:.1f} %"

    def named(other: int) -> str:
        return short(names.ids[other] if names.ids else str(other), 40)

    def fate(effect: Effect) -> str:
        text = percent(effect.probability)
        changed = effect.label != found.label
        return f"{text}, so {classes[effect.label]} instead" if changed else text

    before = float(found.posterior[found.label])
    own = classes[found.label]
    best = found.posterior.topk(min(3, len(classes)))
    ranked = [f"{classes[k]} {percent(p)}" for p, k in zip(best.values.tolist(), best.indices)]
    told = [f"{named(node)}: predicted {own}. Most probable: {listed(ranked)}."]
    if given and given[node]:
        told[0] += f" Its given label is {clean(given[node])}."
    told += _on_mixture(classes, found)
    told.append(f"P({own}) without its own features: {fate(found.without_features)}")
    told.append(f"P({own}) without its {counted(len(found.neighbours), 'link')}: ")
    told[-1] += fate(found.without_links)
    table = [["  without the link to", f"P({own})", "class of the neighbour"]]
    for effect in found.links[:SHOWN]:
        label = given[effect.part] if given else ""
        kind = f"{clean(label)} (label)" if label else classes[found.neighbours[effect.part]]
        table.append([f"  {named(effect.part)}", fate(effect), kind])
    if len(table) > 1:
        told += aligned(table).splitlines()
    words = [effect for effect in found.words if effect.probability < before]
    if words:
        shown = [f"{_word(names, effect)} {percent(effect.probability)}" for effect in words]
        what = "word" if names.words else "feature"
        told.append(f"P({own}) if a single {what} of it were missing: {', '.join(shown[:SHOWN])}")
    return told


def on_label(classes: Sequence[str], node: int, held_out: OutOfFold | None) -> list[str]:
    """What models that did not learn the label of a node predict; empty if there are none."""
    rows = (held_out.nodes == node).nonzero().ravel().tolist() if held_out is not None else []
    if held_out is None or not rows:
        return []
    p = held_out.log_p[rows[0]].exp()
    label = int(p.argmax())
    return [
        "The model has learned the given label of this node, so its reasons may include the label."
        f" Models that did not learn it predict {classes[label]} ({100 * p[label]:.1f} %)."
    ]


def _on_mixture(classes: Sequence[str], found: Explanation) -> list[str]:
    """The classifiers of a mixture with their shares, and what followed; empty without one."""
    if not found.votes:
        return []
    total = sum(weight for weight, _, _ in found.votes.values())
    votes = [["  classifier", "share in the mixture", "most probable class"]]
    for kind, (weight, k, p) in found.votes.items():
        share = f"{100 * weight / total:.1f} %"
        votes.append([f"  {name_of(kind)}", share, f"{classes[k]} {100 * p:.1f} %"])
    own = classes[found.label]
    steps = [["  how the probability came about", f"P({own})"]]
    for name, p in found.steps.items():
        steps.append([f"  {name}", f"{100 * p:.1f} %"])
    return [*aligned(votes).splitlines(), *aligned(steps).splitlines()]


def _word(names: Names, effect: Effect) -> str:
    return short(names.words[effect.part], 30) if names.words else f"column {effect.part}"
