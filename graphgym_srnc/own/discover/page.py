"""The HTML page of a discovery: an interactive map of all nodes, and tables."""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path
from types import MappingProxyType
from typing import Any, Mapping, Sequence

import numpy as np

from graphgym_srnc.core.text import plain, short
from graphgym_srnc.data.describe import FEW
from graphgym_srnc.data.names import Names
from graphgym_srnc.own.discover.clusters import Discovery, layout, suggested
from graphgym_srnc.own.discover.table import ON_SMALL, Row, left_out, merges, on_number, on_unknown
from graphgym_srnc.plots import embedding
from graphgym_srnc.plots.style import GREY, PALETTE
from graphgym_srnc.report.html import fill

# Maximum number of nodes on the map and of letters of a node's text, for a page below 40 MB.
MOST_NODES, LONGEST_TEXT = 200_000, 120
SIDE = 2**16 - 1  # coordinates are whole numbers from 0 to this, by the longer side of the map
CELLS = 12  # cells per side in which the densest part of a cluster is found
RAMP = ("#2C7BB6", "#7FB6D6", "#C9B458", "#F0954A", "#C7361B")  # P(unknown) from 0 to 1 in fifths
SCRIPT = Path(__file__).with_name("map.js").read_text(encoding="utf-8")
DIGEST = "sha256-" + base64.b64encode(hashlib.sha256(SCRIPT.encode()).digest()).decode()
"""The script of the map, and its digest in the policy of the page, which runs no other script."""


def render(
    title: str,
    rows: Sequence[Row],
    discovery: Discovery,
    names: Names,
    modularity: Mapping[int, float],
    commands: Mapping[str, str],
    labels: Mapping[str, int] = MappingProxyType({}),
    warnings: Sequence[str] = (),
    split: str = "",
) -> str:
    """The page as HTML that needs no other file.

    Args:
        title: title of the page.
        rows: the clusters in words.
        discovery: all clusters.
        names: of nodes.
        modularity: by number of clusters.
        commands: ``again`` writes the page again, ``naming`` names the clusters, and ``merge``
            begins the commands of ``table.merges``; the last two may be absent.
        labels: number of training labels of each known class.
        warnings: on classes with few labels and nodes with few neighbours.
        split: what the next larger number of clusters would do.
    """
    new = [row for row in rows if row.cluster.number]
    return fill(
        Path(__file__).with_name("page.html"),
        title=plain(title),
        rows=new,
        known=[row for row in rows if not row.cluster.number],
        modularity=modularity,
        suggested=suggested(modularity),
        on_number=on_number(modularity, len(discovery.known), len(discovery.every)),
        on_small=ON_SMALL * any(row.cluster.small for row in new),
        split=split,
        nodes=len(discovery.cluster),
        map=map_data(discovery, names, [row.words if names.words else [] for row in new]),
        script=SCRIPT,
        digest=DIGEST,
        commands={name: plain(command) for name, command in commands.items()},
        labels=labels,
        few=FEW,
        warnings=warnings,
        on_unknown=on_unknown(discovery),
        left_out=left_out(rows),
        merges=merges(new, plain(commands.get("merge", ""))),
        total=len(discovery.every),
    )


def map_data(discovery: Discovery, names: Names, words: Sequence[Sequence[str]]) -> dict[str, Any]:
    """What the script of the map reads, as JSON values; arrays of one number per node are base64.

    Args:
        discovery: the clusters.
        names: of nodes.
        words: typical words of each new cluster, which stand for its name if it has none.
    """
    shown = embedding.sample(len(discovery.cluster), MOST_NODES)
    points = layout(discovery)[shown]
    low, high = points.min(0), points.max(0)
    places = ((points - low) * (SIDE / max((high - low).max(), 1e-12))).round()
    middle = (SIDE - places.max(0)) // 2
    places = (places + middle).astype(int) * (1, -1) + (0, SIDE)  # y points down on a screen

    def colouring(by: str, group: np.ndarray, called: Sequence[str], *colours: str) -> dict:
        own = list(map(plain, called))
        # The legend counts all nodes, also those that are not drawn.
        sizes, of = np.bincount(group, minlength=len(own)).tolist(), _packed(group[shown])
        return {"by": by, "of": of, "sizes": sizes, "names": own, "colours": list(colours)}

    known, cluster = len(discovery.known), discovery.cluster.numpy()
    label, p_unknown = discovery.label.numpy(), discovery.posterior[:, -1].numpy()
    called = [f"known: {plain(name)}" for name in discovery.classes]
    for new, own in zip(discovery.new, words):
        name = new.name or ", ".join(own[:2])
        called.append(": ".join(filter(None, [f"new {new.number}", short(name, 30)])))
    fifth = np.minimum((p_unknown * len(RAMP)).astype(int), len(RAMP) - 1)
    fifths = [f"{k / 5:.1f} to {(k + 1) / 5:.1f}" for k in range(5)]
    by_class, colours = [*discovery.classes, "unknown"], _colours(len(discovery.new), known)
    nodes, drawn = shown.tolist(), cluster[shown]
    sizes = np.bincount(drawn, minlength=len(called))
    ids = [names.ids[node] if names.ids else f"node {node}" for node in nodes]
    texts = [names.texts[node][: 4 * LONGEST_TEXT] for node in nodes] if names.texts else None
    return {
        "x": _packed(places[:, 0]),
        "y": _packed(places[:, 1]),
        "colourings": [
            colouring("cluster", cluster, called, *[GREY] * known, *colours),
            colouring("class", label, by_class, *_colours(known), GREY),
            colouring("P(unknown)", fifth, fifths, *RAMP),
        ],
        "p": _packed(p_unknown[shown] * SIDE),
        "marks": [  # the number and name of a new cluster
            [*_above(places[drawn == k]), k, called[k][4:]]
            for k in np.argsort(-sizes, kind="stable").tolist()
            if k >= known and (drawn == k).any()
        ],
        "ids": [short(id, LONGEST_TEXT) for id in ids],
        "texts": texts and [short(text, LONGEST_TEXT) for text in texts],
    }


def _above(places: np.ndarray) -> list[int]:
    """Where the label of a cluster stands: above the densest part of its nodes ``[n, 2]``."""
    cells = places * CELLS // SIDE
    _, cell, counts = np.unique(cells, axis=0, return_inverse=True, return_counts=True)
    middle = cells[cell.ravel() == counts.argmax()][0]
    near = places[np.abs(cells - middle).max(1) <= 1]
    return [int(np.median(near[:, 0])), int(np.quantile(near[:, 1], 0.05))]


def _colours(count: int, first: int = 0) -> list[str]:
    """Colours of classes, in which new clusters come after the known classes."""
    return [PALETTE[k % len(PALETTE)] for k in range(first, first + count)]


def _packed(numbers: np.ndarray) -> str:
    return base64.b64encode(numbers.round().astype("<u2").tobytes()).decode()
