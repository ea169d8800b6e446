"""The HTML page of a discovery: an interactive map, a card of each node, a list, and tables."""

from __future__ import annotations

import base64
import colorsys
import hashlib
import math
from pathlib import Path
from typing import Any, Mapping, Sequence

import numpy as np
import pandas
import scipy.sparse as sp
from matplotlib.colors import to_hex

from graphgym_srnc.core.text import apart, cut, plain, short
from graphgym_srnc.data.describe import FEW
from graphgym_srnc.methods.shared.label_scan import FewLabels
from graphgym_srnc.methods.shared.topics import features
from graphgym_srnc.own.discover import feedback, table, words
from graphgym_srnc.own.discover.analysis import Analysis
from graphgym_srnc.own.discover.clusters import Cluster, Discovery, layout
from graphgym_srnc.own.discover.representation import links
from graphgym_srnc.plots import embedding
from graphgym_srnc.plots.style import GREY, PALETTE
from graphgym_srnc.report import held_out
from graphgym_srnc.report.html import fill

# Maximum number of nodes on the map and of letters of a node's text, for a page below 60 MB.
MOST_NODES = 200_000
LONGEST_TEXT = 120
LONGEST_LABEL = 30  # letters of a label on the map
SIDE = 2**16 - 1  # coordinates are whole numbers from 0 to this, by the longer side of the map
GAP = 0.3  # least distance of most dots, in sides of the square that each would have of the map
BLOB = 2 * embedding.CELLS  # cells per side in which a dense place without a label is found
NEAR = SIDE / embedding.CELLS  # distance of a label up to which a place needs no other one
SAME = SIDE / 4  # the same for nodes of its group, which a large group spreads over
LARGE = 0.013  # least share of the nodes in such a place
RAMP = ["#2C7BB6", "#7FB6D6", "#C9B458", "#F0954A", "#C7361B"]  # P(unknown) from 0 to 1 in fifths
NEIGHBOURS = 12  # neighbours kept of a node
MANY_NODES = 20_000  # half of these neighbours on larger maps
CHOICES = 3  # most probable classes kept of a node
NODE_WORDS = 6  # typical words kept of a node
STRONG = (0.4, 0.6)  # lightness of hues, in turn
PALE = (0.72, 0.85)
SATURATION = 0.65
# Hues that look equally far apart, of 360: red, orange, yellow, lime, green, teal, sky, blue, ...
HUES = (0, 28, 48, 62, 130, 175, 200, 230, 265, 295, 330, 360)
STRIDE = 0.38  # share of all hues between neighbours
SCRIPT = "".join(
    Path(__file__).with_name(name).read_text(encoding="utf-8")
    for name in ("map.js", "nodes.js", "names.js")
)
DIGEST = "sha256-" + base64.b64encode(hashlib.sha256(SCRIPT.encode()).digest()).decode()
"""The script of the page, and its digest in the policy of the page, which runs no other script."""


def render(
    title: str,
    found: Analysis,
    commands: Mapping[str, str],
    run: Mapping[str, Any],
    warnings: Sequence[str],
) -> str:
    """The page as HTML that needs no other file.

    Args:
        title: title of the page.
        found: the clusters.
        commands: ``again`` writes the page again, and ``start`` is the start of a command, or of a
            call in Python, that names clusters; each may be absent.
        run: the record of the run, with the labels and the accuracy of each class; may be empty.
        warnings: on classes with few labels and nodes with few neighbours.
    """
    discovery = found.discovery
    shown = map_data(found)
    best = found.suggested
    return fill(
        Path(__file__).with_name("page.html"),
        title=plain(title),
        found=found,
        head=found.head,
        meaning=table.MEANINGS[found.head],
        rows=found.new,
        known=found.rows[: len(discovery.known)],
        suggested=best,
        on_also=table.ON_ALSO,
        on_parts=table.ON_PARTS,
        on_dates=table.ON_DATES,
        on_evidence=table.on_evidence(found.also),
        on_clarity=table.on_clarity(found.head, len(found.new), best),
        on_number=table.on_number(found.fits, found.divided),
        map=shown,
        colours=shown["colourings"][0]["colours"],
        script=SCRIPT,
        digest=DIGEST,
        commands={name: plain(command) for name, command in commands.items()},
        classes=_classes(run),
        accuracy=held_out.figures(run),
        few=FEW,
        warnings=warnings,
    )


def _classes(run: Mapping[str, Any]) -> dict[str, dict[str, int]]:
    """Training ``labels``, and ``judged`` and ``right`` held-out labels, of each known class."""
    judged = run.get("held_out", {}).get("classes", {})
    found = {}
    for name, count in run.get("labels", {}).items():
        own = judged.get(name, {"labels": 0, "right": 0})
        facts = {"labels": count["source"], "judged": own["labels"], "right": own["right"]}
        found[feedback.in_words(name)] = facts
    return found


def map_data(found: Analysis) -> dict[str, Any]:
    """What the script of the page reads, as JSON values; arrays of numbers are base64."""
    discovery = found.discovery
    shown = embedding.sample(len(discovery.cluster), MOST_NODES)
    places = _places(discovery, shown)
    doubt = discovery.seeds.doubt.numpy()
    nodes = [words.shown_node(found.names, node) for node in shown.tolist()]
    return {
        "nodes": _packed(shown, "<u4"),
        "x": _packed(places[:, 0]),
        "y": _packed(places[:, 1]),
        "head": found.head,
        "meaning": table.MEANINGS[found.head].partition(": ")[2],
        "all": "all new clusters" if discovery.seeds.predicted else "all candidates",
        "colourings": _colourings(found, places, shown),
        "p": _packed(doubt[shown] * SIDE),
        "typical": _packed(discovery.typical.numpy()[shown] * SIDE),
        "marks": _marks(found, places, shown),
        "ids": [cut(node.id, LONGEST_TEXT) for node in nodes],
        "titles": [cut(node.title, LONGEST_TEXT) for node in nodes],
        "texts": [cut(node.text, LONGEST_TEXT) for node in nodes],
        "urls": [found.names.urls[node] for node in shown] if found.names.urls else None,
        "dates": [found.names.dates[node] for node in shown] if found.names.dates else None,
        **_reasons(found, shown),
    }


def _places(discovery: Discovery, shown: np.ndarray) -> np.ndarray:
    """Positions ``[n, 2]`` of the shown nodes as whole numbers; y points down, as on a screen."""
    points = layout(discovery)[shown]
    if len(shown) <= MANY_NODES:  # on larger maps such distances cannot be seen
        points = embedding.apart(points, GAP)
    low = points.min(0)
    high = points.max(0)
    places = ((points - low) * (SIDE / max((high - low).max(), 1e-12))).round()
    middle = (SIDE - places.max(0)) // 2
    return (places + middle).astype(int) * (1, -1) + (0, SIDE)


def _colouring(
    by: str,
    group: np.ndarray,
    shown: np.ndarray,
    names: Sequence[str],
    colours: Sequence[str],
    pale: list[int],
) -> dict[str, Any]:
    """A way to colour the nodes, by their ``group`` ``[V]``.

    Returns:
        Its name, the group of each shown node, number of all nodes in each group, also those that
        are not shown, names and colours of the groups, their order in the legend, and those that
        are drawn below the others.
    """
    strong = [k for k in range(len(names)) if k not in pale]
    return {
        "by": by,
        "of": _packed(group[shown]),
        "sizes": np.bincount(group, minlength=len(names)).tolist(),
        "names": names,
        "colours": colours,
        "order": [*strong, *pale],
        "pale": pale,
    }


def _colourings(found: Analysis, places: np.ndarray, shown: np.ndarray) -> list[dict[str, Any]]:
    """Nodes coloured by cluster, by predicted class and by P(unknown).

    Known classes have pale colours, which differ for those that are beside each other on the map.
    Sizes of clusters of known classes, and of classes, are those of the predictions.
    """
    discovery = found.discovery
    known = len(discovery.known)
    classes = [plain(name) for name in discovery.classes]
    new = "new" if discovery.seeds.predicted else "candidate"
    every = [f"known: {name}" for name in classes]
    every += [f"{new} {_new_name(row.cluster, row.heads)}" for row in found.new]
    below = [len(every), *range(known)]
    every.append("unknown, in no new cluster")
    colours = [*_around(places, discovery.cluster.numpy()[shown], known)]
    colours += [*_colours(len(found.new)), GREY]
    fifth = (discovery.seeds.doubt.numpy() * len(RAMP)).astype(int).clip(max=len(RAMP) - 1)
    fifths = [f"{k / 5:.1f} to {(k + 1) / 5:.1f}" for k in range(5)]
    by_class = [*_colours(known), GREY]
    colourings = [
        _colouring("cluster", discovery.cluster.numpy(), shown, every, colours, below),
        _colouring("class", discovery.label.numpy(), shown, [*classes, "unknown"], by_class, []),
        _colouring(found.head, fifth, shown, fifths, RAMP, []),
    ]
    if found.names.dates:
        colourings.append(_by_date(found.names.dates, shown))
    if found.also:
        colourings.append(_few_labels(found, shown))
    return colourings


def _by_date(dates: Sequence[str], shown: np.ndarray) -> dict[str, Any]:
    """Nodes coloured by fifths of their dates, the oldest first."""
    every = pandas.Series([*dates], dtype=object)
    known = every.mask(every == "")
    below = (known.rank(method="min") - 1) / known.count()
    fifth = (len(RAMP) * below).floordiv(1).rank(method="dense") - 1
    spans = every.groupby(fifth).agg(["min", "max"])
    names = [f"{first} to {last}" for first, last in spans.to_numpy()]
    group = fifth.fillna(len(names)).astype(int).to_numpy()
    colours = [*RAMP[: len(names)], GREY]
    return _colouring("date", group, shown, [*names, "unknown"], colours, [])


def _few_labels(found: Analysis, shown: np.ndarray) -> dict[str, Any]:
    """Nodes coloured by group with few labels, see ``FewLabels``."""
    count = len(found.also)
    group = np.full(len(found.discovery.cluster), count)
    names = []
    for k, row in enumerate(found.also):
        group[row.found.nodes.numpy()] = k
        names.append(_new_name(row.found, row.words))
    names.append("all others")
    new = len(found.new)  # the panel beside the map shows these with the first colours
    colours = [*_colours(new + count)[new:], GREY]
    return _colouring(table.FEW_LABELS, group, shown, names, colours, [count])


def _around(places: np.ndarray, group: np.ndarray, count: int) -> list[str]:
    """Pale hues of groups ``0 .. count - 1``, far apart for groups side by side on the map.

    Groups follow each other around the middle of the map, with :data:`STRIDE` of all hues between.
    """
    middles = np.zeros((count, 2))
    for k in np.unique(group[group < count]):
        middles[k] = places[group == k].mean(0)
    right, down = (middles - SIDE / 2).T
    rank = np.arctan2(down, right).argsort().argsort()
    hues = _hues(count, PALE)
    stride = round(STRIDE * count)
    while math.gcd(stride, count) > 1:
        stride += 1
    return [hues[k * stride % count] for k in rank]


def _new_name(one: Cluster | FewLabels, words: Sequence[str]) -> str:
    """The number of a cluster or group, and its name, or its first two words if both are short."""
    both = ", ".join(words[:2])
    name = one.name or (both if len(both) <= LONGEST_LABEL else words[0])
    return f"{one.number}: {short(name, LONGEST_LABEL)}".removesuffix(": ")


def _marks(found: Analysis, places: np.ndarray, shown: np.ndarray) -> list[list[Any]]:
    """Labels on the map: place, group, text, whether the cluster is new, and number of nodes.

    The largest new cluster is first, those of known classes follow, and then other dense places.
    """
    drawn = found.discovery.cluster.numpy()[shown]
    texts = apart(found.discovery.classes, LONGEST_LABEL)
    known = len(texts)
    texts += [_new_name(row.cluster, row.heads) for row in found.new]
    sizes = np.bincount(drawn, minlength=len(texts))
    marks = []
    for place in sorted(range(len(texts)), key=lambda k: (k < known, -sizes[k])):
        if sizes[place]:
            own = places[drawn == place]
            near = own[embedding.densest(own, SIDE / embedding.CELLS)]
            where = np.median(near, 0).astype(int).tolist()
            marks.append([*where, place, texts[place], place >= known, int(sizes[place])])
    return [*marks, *_more_marks(marks, texts, places, drawn)]


def _more_marks(
    marks: Sequence[Sequence[Any]], texts: Sequence[str], places: np.ndarray, drawn: np.ndarray
) -> list[list[Any]]:
    """Labels of dense places far from all others: the largest group there, or two if mixed."""
    found: list[list[Any]] = []
    free = drawn < len(texts)
    for *where, group in [mark[:3] for mark in marks]:
        free &= _is_far(places, where, np.where(drawn == group, SAME, NEAR))
    while free.any():
        near = np.flatnonzero(free)[embedding.densest(places[free], SIDE / BLOB)]
        if len(near) < LARGE * len(places):
            break
        where = np.median(places[near], 0).astype(int).tolist()
        sizes = np.bincount(drawn[near])
        first, *others = (-sizes).argsort(kind="stable")[:2].tolist()
        is_mixed = 2 * sizes[first] < len(near)
        text = f"mixed: {texts[first]}, {texts[others[0]]}" if is_mixed else texts[first]
        found.append([*where, first, text, False, len(near)])
        free[near] = False
        free &= _is_far(places, where, np.where(drawn == first, SAME, NEAR))
    return found


def _is_far(places: np.ndarray, where: Sequence[int], least: np.ndarray) -> np.ndarray:
    return np.hypot(*(places - where).T) > least


def _reasons(found: Analysis, shown: np.ndarray) -> dict[str, Any]:
    """What the cards of nodes show: class probabilities, given labels, neighbours and words."""
    posterior = found.discovery.posterior.numpy()[shown]
    best = np.argsort(-posterior, axis=1, kind="stable")[:, :CHOICES]
    return {
        "best": _packed(best),
        "share": _packed(np.take_along_axis(posterior, best, 1) * SIDE),
        "choices": best.shape[1],
        "given": _packed(found.label.numpy()[shown] + 1),  # 0 = no label
        **_neighbours(found, shown),
        **_words(found, shown),
    }


def _neighbours(found: Analysis, shown: np.ndarray) -> dict[str, str]:
    """Shown neighbours of each shown node, as sparse rows, and degrees.

    Those with a label come first, then those in the same cluster, and then those with few links.
    At most ``NEIGHBOURS`` of each are kept, and half of them on a large map.
    """
    adjacency = links(found.graph)
    degree = np.diff(adjacency.indptr)[shown]
    inside = sp.coo_array(adjacency[shown][:, shown])
    cluster = found.discovery.cluster.numpy()[shown]
    columns = {
        "node": inside.row,
        "has_no_label": found.label.numpy()[shown][inside.col] < 0,
        "is_far": cluster[inside.row] != cluster[inside.col],
        "degree": degree[inside.col],
        "other": inside.col,
    }
    most = NEIGHBOURS if len(shown) <= MANY_NODES else NEIGHBOURS // 2
    near = pandas.DataFrame(columns).sort_values([*columns]).groupby("node").head(most)
    starts = near["node"].searchsorted(np.arange(len(shown) + 1))
    return {
        "starts": _packed(starts, "<u4"),
        "ends": _packed(near["other"], "<u4"),
        "degree": _packed(degree, "<u4"),
    }


def _words(found: Analysis, shown: np.ndarray) -> dict[str, Any]:
    """Words of the shown nodes that are typical of their cluster.

    They are named once. Each node has the numbers of ``NODE_WORDS`` of them from 1, the most
    typical first; 0 = none.
    """
    of_nodes = np.zeros((len(shown), NODE_WORDS), dtype=int)
    columns: Sequence[int] = []
    names = found.names
    if names.words is not None:
        x, names = words.described(features(found.graph), names)
        group = found.discovery.cluster.numpy()
        z = words.contrast(x, group, len(found.discovery.every))
        own = sp.coo_array(sp.csr_array(x[shown]) > 0)
        value = z[group[shown][own.row], own.col]
        frame = pandas.DataFrame({"node": own.row, "z": -value, "word": own.col})
        rows = frame[value > words.LEAST_Z].sort_values(["node", "z", "word"]).groupby("node")
        kept = rows.head(NODE_WORDS)
        number, columns = pandas.factorize(kept["word"], sort=True)
        of_nodes[kept["node"], rows.cumcount()[kept.index]] = number + 1
    return {
        "words": [words.column_name(names, column) for column in columns],
        "wordsOf": _packed(of_nodes, "<u4"),
    }


def _colours(count: int) -> list[str]:
    """Colours that differ clearly: those of ``PALETTE``, or hues."""
    return [*PALETTE[:count]] if count <= len(PALETTE) else _hues(count, STRONG)


def _hues(count: int, lightness: Sequence[float]) -> list[str]:
    """Hues that look equally far apart, with one lightness after the other."""
    places = np.linspace(0, len(HUES) - 1, count, endpoint=False)
    hues = np.interp(places, range(len(HUES)), HUES) / HUES[-1]
    made = (
        colorsys.hls_to_rgb(hue, lightness[k % len(lightness)], SATURATION)
        for k, hue in enumerate(hues.tolist())
    )
    return [to_hex(colour).upper() for colour in made]


def _packed(numbers: np.ndarray, kind: str = "<u2") -> str:
    return base64.b64encode(np.asarray(numbers).round().astype(kind).tobytes()).decode()
