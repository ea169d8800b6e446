"""Why a model predicts the class of a node, in words."""

from __future__ import annotations

from collections import Counter
from typing import Sequence

from graphgym_srnc.core.text import aligned, clean, counted, listed, short
from graphgym_srnc.data.names import DERIVED, Names
from graphgym_srnc.methods.shared.validation import OutOfFold
from graphgym_srnc.report.held_out import name_of
from graphgym_srnc.train.explain import Effect, Explanation

SHOWN = 8  # most important links and words of an explanation
LEAST = 0.001  # change of a probability that is shown


def lines(
    classes: Sequence[str], found: Explanation, node: int, names: Names, given: Sequence[str] | None
) -> list[str]:
    """An explanation of a node, with names of classes and the given label of each node, if any."""
    own = classes[found.label]
    best = found.posterior.topk(min(3, len(classes)))
    ranked = [f"{classes[k]} {_percent(p)}" for p, k in zip(best.values.tolist(), best.indices)]
    told = [f"{_named(names, node)}: predicted {own}. Most probable: {listed(ranked)}."]
    if given and given[node]:
        told[0] += f" Its given label is {clean(given[node])}."
    told += [_on_both(classes, found), *_on_words(classes, found, names)]
    return told + _on_links(classes, found, names, given) + _on_mixture(classes, found)


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


def _on_both(classes: Sequence[str], found: Explanation) -> str:
    """Whether the prediction needs the node's own features or its links more."""
    own = classes[found.label]
    features = found.without_features
    told = f"Without its own features P({own}) would be {_fate(classes, found, features)}"
    if not found.neighbours:
        return f"{told}. It has no links."
    links = found.without_links
    count = counted(len(found.neighbours), "link")
    told += f"; without its {count} {_fate(classes, found, links)}."
    if abs(features.probability - links.probability) < LEAST:
        return told
    needed = "features" if features.probability < links.probability else "links"
    return f"{told} It needs its {needed} more."


def _on_mixture(classes: Sequence[str], found: Explanation) -> list[str]:
    """The classifiers of a mixture with their shares, and what followed; empty without one."""
    if not found.votes:
        return []
    total = sum(weight for weight, _, _ in found.votes.values())
    votes = [["  classifier", "share in the mixture", "most probable class"]]
    for kind, (weight, k, p) in found.votes.items():
        share = _percent(weight / total)
        votes.append([f"  {name_of(kind)}", share, f"{classes[k]} {_percent(p)}"])
    own = classes[found.label]
    steps = [["  how the probability came about", f"P({own})"]]
    for name, p in found.steps.items():
        steps.append([f"  {name}", _percent(p)])
    return [*aligned(votes).splitlines(), *aligned(steps).splitlines()]


def _on_links(
    classes: Sequence[str], found: Explanation, names: Names, given: Sequence[str] | None
) -> list[str]:
    """The effects of single links, or the classes of the neighbours."""
    if not found.neighbours:
        return []
    own = classes[found.label]

    def kind(other: int) -> str:
        label = given[other] if given else ""
        return f"{clean(label)} (label)" if label else classes[found.neighbours[other]]

    if not any(_matters(found, effect) for effect in found.links):
        kinds = Counter(kind(effect.part) for effect in found.links).most_common()
        counts = listed([f"{name} {count}" for name, count in kinds])
        no_link = (
            f"No single link of {len(found.links)} tried changes P({own}) by 0.1 points or more."
        )
        return [f"{no_link} Classes of the neighbours: {counts}."]
    table = [["  without the link to", f"P({own})", "class of the neighbour"]]
    for effect in found.links[:SHOWN]:
        fate = _fate(classes, found, effect)
        table.append([f"  {_named(names, effect.part)}", fate, kind(effect.part)])
    return aligned(table).splitlines()


def _on_words(classes: Sequence[str], found: Explanation, names: Names) -> list[str]:
    """The single words or features without which the prediction is less sure."""
    own = classes[found.label]
    what = "word or other feature" if names.words else "feature"
    before = float(found.posterior[found.label])
    read = [one for one in found.words if not _word(names, one).startswith(DERIVED)]
    words = [one for one in read if one.probability < before and _matters(found, one)]
    if not words:
        count = len(read)
        no_word = f"No single {what} of {count} tried raises P({own}) by 0.1 points or more."
        return [no_word] if read else []
    shown = [f"{_word(names, effect)} {_percent(effect.probability)}" for effect in words]
    return [f"P({own}) if a single {what} of it were missing: {', '.join(shown[:SHOWN])}"]


def _matters(found: Explanation, effect: Effect) -> bool:
    """Whether the class or its shown probability changes."""
    change = abs(effect.probability - float(found.posterior[found.label]))
    return effect.label != found.label or change >= LEAST


def _fate(classes: Sequence[str], found: Explanation, effect: Effect) -> str:
    """The probability without a part, and the class that is predicted then."""
    text = _percent(effect.probability)
    changed = effect.label != found.label
    return f"{text}, so {classes[effect.label]} instead" if changed else text


def _percent(probability: float) -> str:
    return f"{100 * probability:.1f} %"


def _named(names: Names, node: int) -> str:
    return short(names.ids[node] if names.ids else str(node), 40)


def _word(names: Names, effect: Effect) -> str:
    return short(names.words[effect.part], 30) if names.words else f"column {effect.part}"
