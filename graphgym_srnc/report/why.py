"""Why a model predicts the class of a node, in words."""

from __future__ import annotations

from typing import Sequence

from graphgym_srnc.core.text import aligned, clean, counted, listed, short
from graphgym_srnc.data.names import Names
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
    for kind, (weight, k, p) in found.votes.items():
        told.append(f"  {name_of(kind)} (weight {weight:.2f}): {classes[k]} {percent(p)}")
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
    if len(found.links) < len(found.neighbours):
        told.append(f"Only {len(found.links)} of the links were left out one by one.")
    words = [effect for effect in found.words if effect.probability < before]
    if words:
        shown = [f"{_word(names, effect)} {percent(effect.probability)}" for effect in words]
        what = "word" if names.words else "feature"
        told.append(f"P({own}) without a single {what}: {', '.join(shown[:SHOWN])}")
    return told


def _word(names: Names, effect: Effect) -> str:
    return short(names.words[effect.part], 30) if names.words else f"column {effect.part}"
