"""The HTML page of a discovery: an interactive map, a card of each node, a list, and tables."""

from __future__ import annotations

import base64
import colorsys
import hashlib
from pathlib import Path
from types import MappingProxyType
from typing import Any, Mapping, NamedTuple, Sequence

import numpy as np
import scipy.sparse as sp

from graphgym_srnc.backbones import prepare
from graphgym_srnc.core.text import plain, short
from graphgym_srnc.data.describe import FEW
from graphgym_srnc.own.discover import number, table
from graphgym_srnc.own.discover.analysis import Analysis
from graphgym_srnc.own.discover.clusters import Discovery, layout
from graphgym_srnc.own.discover.representation import features
from graphgym_srnc.plots import embedding
from graphgym_srnc.plots.style import GREY, PALETTE
from graphgym_srnc.report.html import fill

# Maximum number of nodes on the map and of letters of a node's text, for a page below 60 MB.
MOST_NODES, LONGEST_TEXT = 200_000, 120
SIDE = 2**16 - 1  # coordinates are whole numbers from 0 to this, by the longer side of the map
RAMP = ("#2C7BB6", "#7FB6D6", "#C9B458", "#F0954A", "#C7361B")  # P(unknown) from 0 to 1 in fifths
NEIGHBOURS, MANY_NODES = 12, 20_000  # neighbours kept of a node; half of them on larger maps
CHOICES, NODE_WORDS = 3, 6  # most probable classes, and typical words, kept of a node
STRONG, PALE = ((0.42, 0.62), 0.6), ((0.77, 0.87), 0.55)  # lightness of turns, and saturation
SCRIPT = "".join(
    Path(__file__).with_name(name).read_text(encoding="utf-8") for name in ("map.js", "nodes.js")
)
DIGEST = "sha256-" + base64.b64encode(hashlib.sha256(SCRIPT.encode()).digest()).decode()
"""The script of the page, and its digest in the policy of the page, which runs no other script."""


def render(
    title: str,
    found: Analysis,
    commands: Mapping[str, str] = MappingProxyType({}),
    labels: Mapping[str, int] = MappingProxyType({}),
    warnings: Sequence[str] = (),
) -> str:
    """The page as HTML that needs no other file.

    Args:
        title: title of the page.
        found: the clusters.
        commands: ``again`` writes the page again, ``naming`` names the clusters, and ``merge``
            begins the commands of ``table.merges``; each may be absent or "".
        labels: number of training labels of each known class.
        warnings: on classes with few labels and nodes with few neighbours.
    """
    discovery = found.discovery
    return fill(
        Path(__file__).with_name("page.html"),
        title=plain(title),
        lead=found.lead,
        head=found.head,
        meaning=table.MEANINGS[found.head],
        rows=found.new,
        known=found.rows[: len(discovery.known)],
        fits=found.fits,
        suggested=number.suggested(found.fits),
        on_number=table.on_number(found.fits, len(discovery.new)),
        on_small=table.ON_SMALL if any(row.cluster.small for row in found.new) else "",
        nodes=len(discovery.cluster),
        map=map_data(found),
        script=SCRIPT,
        digest=DIGEST,
        commands={name: plain(command) for name, command in commands.items()},
        labels=labels,
        few=FEW,
        warnings=warnings,
        left_out=table.left_out(found.rows),
        merges=table.merges(found.new, plain(commands.get("merge", ""))),
        used=len(discovery.new),
    )


def map_data(found: Analysis) -> dict[str, Any]:
    """What the script of the page reads, as JSON values; arrays of numbers are base64."""
    discovery = found.discovery
    shown = embedding.sample(len(discovery.cluster), MOST_NODES)
    places = _places(discovery, shown)
    doubt = discovery.seeds.doubt.numpy()
    names = [_short_name(row) for row in found.new]
    nodes = [table.shown_node(found.names, node) for node in shown.tolist()]
    return {
        "nodes": _packed(shown, "<u4"),
        "x": _packed(places[:, 0]),
        "y": _packed(places[:, 1]),
        "head": found.head,
        "colourings": [made._asdict() for made in _colourings(found, names, shown)],
        "p": _packed(doubt[shown] * SIDE),
        "typical": _packed(discovery.typical.numpy()[shown] * SIDE),
        "marks": _marks(discovery, names, places, shown),
        "ids": [short(node.id, LONGEST_TEXT) for node in nodes],
        "titles": [short(node.title, LONGEST_TEXT) for node in nodes],
        "texts": [short(node.text, LONGEST_TEXT) for node in nodes],
        "urls": [found.names.urls[node] for node in shown] if found.names.urls else None,
        **_reasons(found, shown),
    }


def _places(discovery: Discovery, shown: np.ndarray) -> np.ndarray:
    """Positions ``[n, 2]`` of the shown nodes as whole numbers; y points down, as on a screen."""
    points = layout(discovery)[shown]
    low, high = points.min(0), points.max(0)
    places = ((points - low) * (SIDE / max((high - low).max(), 1e-12))).round()
    middle = (SIDE - places.max(0)) // 2
    return (places + middle).astype(int) * (1, -1) + (0, SIDE)


class Colouring(NamedTuple):
    """A way to colour the nodes: groups with names, sizes and colours.

    Args:
        by: its name.
        of: group of each shown node, packed.
        sizes: number of all nodes in each group, also those that are not shown.
        names: of the groups.
        colours: of the groups.
        order: the groups in the order of the legend.
        pale: the groups that are drawn below the others.
    """

    by: str
    of: str
    sizes: list[int]
    names: list[str]
    colours: list[str]
    order: list[int]
    pale: list[int]


def _colourings(found: Analysis, names: Sequence[str], shown: np.ndarray) -> list[Colouring]:
    """Nodes coloured by cluster, by predicted class, by P(unknown), and by part if there are any.

    Sizes of clusters of known classes, and of classes, are those of the predictions.
    """
    discovery = found.discovery
    known, new = len(discovery.known), len(discovery.new)
    classes = [plain(name) for name in discovery.classes]

    def made(
        by: str,
        group: np.ndarray,
        names: Sequence[str],
        colours: Sequence[str],
        pale: Sequence[int] = (),
    ) -> Colouring:
        sizes = np.bincount(group, minlength=len(names)).tolist()
        order = [k for k in range(len(names)) if k not in pale] + [*pale]
        packed = _packed(group[shown])
        return Colouring(by, packed, sizes, [*names], [*colours], order, [*pale])

    by_cluster = [f"known: {name}" for name in classes]
    if not discovery.seeds.predicted:
        by_cluster = [f"{name}, no candidate" for name in classes]
    by_cluster += [f"new {k}{': ' * bool(name)}{name}" for k, name in enumerate(names, 1)]
    by_cluster.append("unknown, in no new cluster")
    colours = [*_colours(known, *PALE), *_colours(new), GREY]
    below = [*range(known + new, known + new + 1), *range(known)]
    doubt = discovery.seeds.doubt.numpy()
    fifth = np.minimum((doubt * len(RAMP)).astype(int), len(RAMP) - 1)
    fifths = [f"{k / 5:.1f} to {(k + 1) / 5:.1f}" for k in range(5)]
    result = [
        made("cluster", discovery.cluster.numpy(), by_cluster, colours, below),
        made("class", discovery.label.numpy(), [*classes, "unknown"], [*_colours(known), GREY], ()),
        made(found.head, fifth, fifths, RAMP),
    ]
    if any(row.parts for row in found.new):
        called, group = ["in no part"], np.zeros(len(discovery.cluster), dtype=int)
        for row in found.new:
            for part, nodes in zip(row.parts, row.cluster.parts):
                group[nodes.numpy()] = len(called)
                words = short(", ".join(part.words[:2]), 30)
                called.append(f"{row.cluster.number}{part.letter}: {words}")
        result.append(made("part", group, called, [GREY, *_colours(len(called) - 1)], [0]))
    return result


def _short_name(row: table.Row) -> str:
    """The name of a new cluster, or its first words."""
    return short(row.cluster.name or ", ".join(row.words[:2]), 30)


def _marks(
    discovery: Discovery, names: Sequence[str], places: np.ndarray, shown: np.ndarray
) -> list[list[Any]]:
    """Labels on the map: place, group, text, and whether the cluster is new.

    The largest new cluster is first, and those of known classes follow.
    """
    drawn = discovery.cluster.numpy()[shown]
    texts = [short(name, 30) for name in discovery.classes]
    texts += [f"{k}{': ' * bool(name)}{name}" for k, name in enumerate(names, 1)]
    known, sizes = len(discovery.known), np.bincount(drawn, minlength=len(texts))
    marks = []
    for place in sorted(range(len(texts)), key=lambda k: (k < known, -sizes[k])):
        if sizes[place]:
            where = _above(places[drawn == place])
            marks.append([*where, place, texts[place], place >= known])
    return marks


def _above(places: np.ndarray) -> list[int]:
    """Where the label of a cluster stands: above the densest part of its nodes ``[n, 2]``."""
    near = places[embedding.densest(places, SIDE / embedding.CELLS)]
    return [int(np.median(near[:, 0])), int(np.quantile(near[:, 1], 0.05))]


def _reasons(found: Analysis, shown: np.ndarray) -> dict[str, Any]:
    """What the cards of nodes show: class probabilities, given labels, neighbours and words."""
    posterior = found.discovery.posterior.numpy()[shown]
    best = np.argsort(-posterior, axis=1, kind="stable")[:, :CHOICES]
    place = {name: k for k, name in enumerate(found.discovery.classes, 1)}
    given = np.array([place.get(found.given[node], 0) for node in shown.tolist()])
    starts, ends, degree = _neighbours(found, shown, given)
    words, of_nodes = _words(found, shown)
    return {
        "best": _packed(best.ravel()),
        "share": _packed(np.take_along_axis(posterior, best, 1).ravel() * SIDE),
        "choices": best.shape[1],
        "given": _packed(given),
        "starts": _packed(starts, "<u4"),
        "ends": _packed(ends, "<u4"),
        "degree": _packed(degree, "<u4"),
        "words": words,
        "wordsOf": _packed(of_nodes.ravel(), "<u4"),
    }


def _neighbours(
    found: Analysis, shown: np.ndarray, given: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Shown neighbours of each shown node, as sparse rows, and degrees.

    Those with a label come first, then those in the same cluster, and then those with few links.
    At most ``NEIGHBOURS`` of each are kept, and half of them on a large map.
    """
    adjacency = prepare(found.graph, "auto").adjacency("raw").matrix
    degree = np.diff(adjacency.indptr)[shown]
    inside = sp.coo_array(adjacency[shown][:, shown])
    cluster = found.discovery.cluster.numpy()[shown]
    is_far = cluster[inside.row] != cluster[inside.col]
    order = np.lexsort((degree[inside.col], is_far, given[inside.col] == 0, inside.row))
    row, column = inside.row[order], inside.col[order]
    first = np.searchsorted(row, np.arange(len(shown)))
    most = NEIGHBOURS if len(shown) <= MANY_NODES else NEIGHBOURS // 2
    kept = np.arange(len(row)) - first[row] < most
    row, column = row[kept], column[kept]
    return np.searchsorted(row, np.arange(len(shown) + 1)), column, degree


def _words(found: Analysis, shown: np.ndarray) -> tuple[list[str], np.ndarray]:
    """Words of the shown nodes that are typical of their cluster.

    Returns:
        The words, and for each node ``[n, NODE_WORDS]`` their numbers from 1, the most typical
        first; 0 = none.
    """
    discovery, of_nodes = found.discovery, np.zeros((len(shown), NODE_WORDS), dtype=int)
    if found.names.words is None:
        return [], of_nodes
    x = features(prepare(found.graph, "none").x)
    group = discovery.cluster.numpy()
    z = table.contrast(x, group, len(discovery.every))
    own = sp.coo_array(sp.csr_array(x[shown]))
    value = z[group[shown][own.row], own.col]
    kept = (value > table.LEAST_Z) & (own.data > 0)
    row, column, value = own.row[kept], own.col[kept], value[kept]
    order = np.lexsort((-value, row))
    row, column = row[order], column[order]
    place = np.arange(len(row)) - np.searchsorted(row, row)
    first = place < NODE_WORDS
    columns, at = np.unique(column[first], return_inverse=True)
    of_nodes[row[first], place[first]] = at + 1
    return [table.column_name(found.names, column) for column in columns], of_nodes


def _colours(count: int, lightness: Sequence[float] = (), saturation: float = 0.0) -> list[str]:
    """Colours that can be told apart: those of ``PALETTE``, or hues of alternating lightness.

    Hues are taken for more colours than ``PALETTE`` has, or if a ``lightness`` is given.
    """
    if not lightness:
        if count <= len(PALETTE):
            return [*PALETTE[:count]]
        lightness, saturation = STRONG
    found = []
    for k in range(count):
        parts = colorsys.hls_to_rgb(k / count, lightness[k % len(lightness)], saturation)
        found.append("#" + "".join(f"{round(255 * part):02X}" for part in parts))
    return found


def _packed(numbers: np.ndarray, kind: str = "<u2") -> str:
    return base64.b64encode(np.asarray(numbers).round().astype(kind).tobytes()).decode()
