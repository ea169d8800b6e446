"""Common style of all figures, and export of figures to files, without pyplot."""

from __future__ import annotations

import io
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Iterator, Sequence, cast

from cycler import cycler

from graphgym_srnc.core import environment
from graphgym_srnc.data.labels import UNKNOWN
from graphgym_srnc.io.atomic import write_bytes

# The first import of matplotlib reads a file matplotlibrc of the current folder.
with environment.outside(environment.owned):  # type: ignore[has-type]  # an import cycle
    import matplotlib
    from matplotlib.figure import Figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Distinguishable with common colour vision deficiencies: the colours of Okabe and Ito, with a
# darker yellow for white paper, and muted ones of Tol. Grey means "unknown".
PALETTE = tuple(
    "#0072B2 #E69F00 #009E73 #CC79A7 #56B4E9 #D55E00"
    " #D9C400 #332288 #999933 #882255 #44AA99".split()
)

MARKERS = ("o", "^", "s", "D", "v")
INK = "#222222"
PALE = "#BBBBBB"
FAINT = "#D0D0D0"
GREY = "#9AA0A6"

STYLE: dict[Any, Any] = {
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 9,
    "axes.titlesize": 10,
    "figure.titlesize": 11,
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    "legend.fontsize": 8,
    "legend.frameon": False,
    "figure.dpi": 110,
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#555555",
    "axes.prop_cycle": cycler(color=PALETTE),
    "grid.color": "#E2E2E2",
    "grid.linewidth": 0.6,
    "hatch.linewidth": 0.6,
    "figure.constrained_layout.use": True,
    # A dollar sign in a class name does not start a formula.
    "text.parse_math": False,
    # Type 42 fonts keep PDF text editable; the salt makes SVG ids reproducible.
    "pdf.fonttype": 42,
    "svg.hashsalt": "graphgym-srnc",
}

# Metadata to remove from each format, so that equal figures give identical files.
UNDATED = {"png": "Software", "pdf": "CreationDate", "svg": "Date"}


@contextmanager
def style() -> Iterator[None]:
    """Style of all figures, as a context manager or decorator.

    It does not depend on the user's settings, nor on a file ``matplotlibrc`` in the current folder.
    """
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(STYLE)
        yield


def panel(axes: Axes | None, size: tuple[float, float], dpi: int = 150) -> tuple[Figure, Axes]:
    """Axes and their figure, by default new ones of a size in inches."""
    if axes is None:
        figure = Figure(figsize=size, dpi=dpi)
        return figure, cast("Axes", figure.subplots())
    return cast(Figure, axes.figure.figure), axes  # the whole one, not that of a part


def look(index: int, marker: str = "") -> dict[str, Any]:
    """Colour and marker of an item; by default the marker changes where the colours repeat."""
    turn, colour = divmod(index, len(PALETTE))
    return {"color": PALETTE[colour], "marker": marker or MARKERS[turn % len(MARKERS)]}


def class_looks(names: Sequence[str]) -> list[dict[str, Any]]:
    """Colour and marker of each class of a run: known classes in their order, then unseen ones."""
    return [look(k) | ({"color": GREY} if names[k] == UNKNOWN else {}) for k in range(len(names))]


@style()
def encode(figure: Figure, kind: str = "png") -> bytes:
    """Content of a figure file in a format of ``UNDATED``; the output is reproducible."""
    buffer = io.BytesIO()
    # Cells of a confusion matrix are squares, which leaves margins.
    figure.savefig(buffer, format=kind, metadata={UNDATED[kind]: None}, bbox_inches="tight")
    return buffer.getvalue()


def save(figure: Figure, path: Path) -> Path:
    """Save a figure, completely or not at all, in the format given by the suffix."""
    kind = path.suffix.lower().removeprefix(".")
    write_bytes(path, encode(figure, kind))
    return path
