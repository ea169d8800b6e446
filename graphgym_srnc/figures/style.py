"""The one style of all figures, and how a figure becomes a file. No pyplot, hence no window."""
from __future__ import annotations

import io
from contextlib import AbstractContextManager
from pathlib import Path

import matplotlib
from cycler import cycler
from matplotlib.figure import Figure

from graphgym_srnc.atomic import write_bytes
from graphgym_srnc.errors import InputError

PALETTE = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#D9C400", "#332288",
           "#999933", "#882255", "#44AA99", "#777777")
"""Okabe and Ito's colours (their yellow darker, for white paper), Tol's muted ones that differ from
them, and grey, told apart with the common colour blindnesses; a second turn changes the marker."""

MARKERS = ("o", "^", "s", "D", "v")
INK, PALE = "#222222", "#BBBBBB"

STYLE = {
    "font.family": "sans-serif", "font.sans-serif": ["DejaVu Sans"], "font.size": 9,
    "axes.titlesize": 10, "figure.titlesize": 11, "xtick.labelsize": 8, "ytick.labelsize": 8,
    "legend.fontsize": 8, "legend.frameon": False, "figure.dpi": 110, "axes.axisbelow": True,
    "axes.spines.top": False, "axes.spines.right": False, "axes.edgecolor": "#555555",
    "axes.prop_cycle": cycler(color=PALETTE), "grid.color": "#E2E2E2", "grid.linewidth": 0.6,
    "hatch.linewidth": 0.6, "figure.constrained_layout.use": True,
    # A dollar in the name of a class is no formula.
    "text.parse_math": False,
    # Type 42 keeps the letters of a PDF letters; the salt fixes the ids in an SVG.
    "pdf.fonttype": 42, "svg.hashsalt": "graphgym-srnc",
}

UNDATED = {"png": "Software", "pdf": "CreationDate", "svg": "Date"}
"""Formats, and what to leave out of each so that equal figures are equal files."""


def style() -> AbstractContextManager:
    """The style of all figures, as a context or a decorator."""
    return matplotlib.rc_context(STYLE)


@style()
def encode(figure: Figure, kind: str = "png") -> bytes:
    """A figure as a file of a kind in ``UNDATED``; the same bytes each time."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format=kind, metadata={UNDATED[kind]: None})
    return buffer.getvalue()


def save(figure: Figure, path: Path) -> Path:
    """Write a figure, whole or not at all, in the format that the suffix names.

    Raises:
        InputError: the suffix is none of png, pdf and svg.
    """
    kind = path.suffix.lower().removeprefix(".")
    if kind not in UNDATED:
        allowed = ", ".join(f".{known}" for known in UNDATED)
        raise InputError("figure", str(path), f"a file name that ends in {allowed}")
    write_bytes(path, encode(figure, kind))
    return path
