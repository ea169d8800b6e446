"""What was discovered, as one HTML page that needs nothing beside it."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any, Mapping, Sequence

from graphgym_srnc.core.text import plain
from graphgym_srnc.own.discover.clusters import Discovery
from graphgym_srnc.own.discover.evidence import Evidence
from graphgym_srnc.own.discover.map import DIGEST, SCRIPT
from graphgym_srnc.own.discover.pictures import Picture
from graphgym_srnc.own.discover.table import HEADS, Row, figures
from graphgym_srnc.report.html import fill, png_size

SHOWN = ("p_unknown", "predicted_unknown", "conductance", "silhouette")
"""Figures of clusters of known classes."""


def render(
    title: str,
    rows: Sequence[Row],
    discovery: Discovery,
    evidence: Evidence,
    pictures: Mapping[str, Picture],
    every_node: Mapping[str, Any],
    classes: Sequence[str],
    command: str,
    naming: str = "",
) -> str:
    """The page.

    Args:
        title: what was looked at.
        rows: the new clusters in words.
        discovery: all clusters.
        evidence: on their number.
        pictures: those of :func:`graphgym_srnc.own.discover.pictures.pictures`.
        every_node: what :func:`graphgym_srnc.own.discover.map.data` says of all nodes.
        classes: names of known classes.
        command, naming: what makes the page again, and what names clusters and feeds them back.
    """
    images = {
        name: (caption, base64.b64encode(png).decode(), *(png_size(png) or ()))
        for name, (caption, png) in pictures.items()
    }
    known = [
        (plain(name), len(c.nodes), *figures(c, *SHOWN))
        for name, c in zip(classes, discovery.known)
    ]
    return fill(
        Path(__file__).with_name("page.html"),
        title=plain(title),
        rows=rows,
        heads=HEADS[:-1],
        evidence=evidence,
        images=images,
        known=known,
        nodes=len(discovery.cluster),
        map=every_node,
        script=SCRIPT,
        digest=DIGEST,
        command=plain(command),
        naming=plain(naming),
        called=int((discovery.label == len(known)).sum()),
        total=len(known) + len(discovery.new),
    )
