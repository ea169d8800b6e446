"""The map of the page: what its script draws, as numbers and texts that fit into the page."""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path
from typing import Any, Mapping, Sequence

import numpy as np
from torch import Tensor

from graphgym_srnc.core.text import plain, short
from graphgym_srnc.data.names import Names
from graphgym_srnc.own.discover.clusters import Discovery
from graphgym_srnc.own.discover.pictures import layout
from graphgym_srnc.plots import embedding
from graphgym_srnc.plots.style import PALETTE

MOST_NODES, LONGEST_TEXT = 200_000, 120
"""Nodes that a map shows, and letters of a node's text, so that a page stays below some 40 MB."""

SIDE = 2**16 - 1
"""Places are whole numbers from 0 to this, by the longer side of the map."""

GREY = "#9AA0A6"
RAMP = ("#2C7BB6", "#7FB6D6", "#C9B458", "#F0954A", "#C7361B")
"""Clusters of known classes; P(unknown) from 0 to 1 in fifths."""

SCRIPT = Path(__file__).with_name("map.js").read_text(encoding="utf-8")
DIGEST = "sha256-" + base64.b64encode(hashlib.sha256(SCRIPT.encode()).digest()).decode()
"""What draws, and its name in the policy of the page, which runs no other script."""


def data(
    discovery: Discovery,
    posterior: Tensor,
    classes: Sequence[str],
    names: Names,
    cluster_names: Mapping[int, str],
) -> dict[str, Any]:
    """All that the script reads, as values of JSON; arrays are base64, a number a node.

    Args:
        discovery: the clusters.
        posterior: of the model, ``[V, N + 1]``, the unknown class last.
        classes: names of known classes.
        names: of nodes.
        cluster_names: those that the user has given, by number.
    """
    shown = embedding.sample(len(discovery.cluster), MOST_NODES)
    points = layout(discovery)[shown]
    low, high = points.min(0), points.max(0)
    places = ((points - low) * (SIDE / max((high - low).max(), 1e-12))).round()
    middle = (SIDE - places.max(0)) // 2
    places = (places + middle).astype(int) * (1, -1) + (0, SIDE)  # a screen's y goes down

    groups = [*discovery.known, *discovery.new]
    cluster, p_unknown = discovery.cluster.numpy()[shown], posterior[:, -1].numpy()[shown]
    called = [
        *(f"known: {plain(name)}" for name in classes),
        *(
            ": ".join(filter(None, [f"new {new.number}", cluster_names.get(new.number)]))
            for new in discovery.new
        ),
    ]
    fifth = np.minimum((p_unknown * len(RAMP)).astype(int), len(RAMP) - 1)
    colourings = [
        _colouring(
            "cluster", cluster, called, [GREY] * len(classes) + _colours(len(discovery.new))
        ),
        _colouring(
            "class",
            discovery.label.numpy()[shown],
            [*classes, "unknown"],
            [*_colours(len(classes)), GREY],
        ),
        _colouring(
            "P(unknown)", fifth, [f"{k / 5:.1f} to {(k + 1) / 5:.1f}" for k in range(5)], RAMP
        ),
    ]
    ids = names.ids if names.ids is not None else [f"node {k}" for k in range(len(posterior))]
    texts = names.texts
    return {
        "x": _packed(places[:, 0]),
        "y": _packed(places[:, 1]),
        "colourings": colourings,
        "p": _packed(p_unknown * SIDE),
        "newness": [round(group.newness, 4) for group in groups],
        "marks": [
            _mark(places[inside], name.removeprefix("new "))
            for k, name in enumerate(called)
            if k >= len(classes) and (inside := cluster == k).any()
        ],
        "ids": [short(ids[node], LONGEST_TEXT) for node in shown.tolist()],
        "texts": texts
        and [short(texts[node][: 4 * LONGEST_TEXT], LONGEST_TEXT) for node in shown.tolist()],
    }


def _colouring(
    by: str, group: np.ndarray, names: Sequence[str], colours: Sequence[str]
) -> dict[str, Any]:
    return {
        "by": by,
        "of": _packed(group),
        "names": [plain(name) for name in names],
        "colours": list(colours),
    }


def _mark(places: np.ndarray, text: str) -> list[Any]:
    """Where on the map a cluster is called by its name."""
    return [*np.median(places, 0).round().astype(int).tolist(), short(text, 30)]


def _colours(count: int) -> list[str]:
    return [PALETTE[k % len(PALETTE)] for k in range(count)]


def _packed(numbers: np.ndarray) -> str:
    return base64.b64encode(numbers.round().astype("<u2").tobytes()).decode()
