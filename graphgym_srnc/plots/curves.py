"""Curves with bands over runs: scores by episode, and scores by the value of a config key."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from graphgym_srnc.core.text import short
from graphgym_srnc.plots.style import MARKERS, PALETTE, style

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from graphgym_srnc.io.store import Result

Curve = tuple[Sequence[float], Sequence[float], Sequence[float], Sequence[float]]
"""x, mean, and lower and upper end of the band, each ``[n]``."""

DASHES = ("-", "--", ":", "-.")
LOG_FROM = 30
"""Ratio of the largest to the smallest positive value from which an axis is logarithmic."""


def history(results: Mapping[int, Result], block: str, name: str) -> np.ndarray:
    """Values of a score or loss by run and episode, ``[runs, episodes]``; NaN = missing.

    A run that stopped early is extended with the value of its selected episode, as in ``agg/``.

    Args:
        results: finished runs by seed.
        block: ``losses``, ``train``, ``val`` or ``test``.
        name: the loss term or score.
    """
    length = max(len(result["history"]) for result in results.values())
    rows = []
    for result in results.values():
        held = [result["history"][result["selected"]]] * (length - len(result["history"]))
        rows.append([episode[block].get(name, np.nan) for episode in [*result["history"], *held]])
    return np.array(rows, dtype=float)


def band(values: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mean, mean - std and mean + std (population) over the rows ``[runs, n]``."""
    finite = np.ma.masked_invalid(values)
    mean, std = finite.mean(0).filled(np.nan), finite.std(0).filled(np.nan)
    return mean, mean - std, mean + std


@style()
def curves_figure(
    panels: Mapping[str, Mapping[str, Curve]], ylabel: str, title: str = ""
) -> Figure:
    """Figure of curves with bands by episode, one curve per method, in panels with a common scale.

    Args:
        panels: curves by name, by title of the panel; a name has the same colour in all panels.
        ylabel: label of the y axis.
        title: title of the figure.
    """
    names = list(dict.fromkeys(name for curves in panels.values() for name in curves))
    figure = Figure(figsize=(4.2 * len(panels) + 1.6, 3.6), dpi=150)
    row = figure.subplots(1, len(panels), squeeze=False, sharey=True)[0]
    for axes, (text, curves) in zip(row, panels.items()):
        _draw(axes, curves, names)
        axes.set(title=text, xlabel="episode")
        axes.xaxis.get_major_locator().set_params(integer=True)
    row[0].set_ylabel(ylabel)
    _finish(figure, names, title)
    return figure


@style()
def sensitivity_figure(
    curves: Mapping[str, Curve], key: str, metric: str, title: str = ""
) -> Figure:
    """Figure of a score against the values of a config key, one curve with band per method.

    Args:
        curves: curves by method; x are the values of the key.
        key: the config key.
        metric: name of the score.
        title: title of the figure.
    """
    figure = Figure(figsize=(5.8, 3.6), dpi=150)
    axes = figure.subplots()
    _draw(axes, curves, list(curves))
    _scale(axes, sorted({float(value) for x, *_ in curves.values() for value in x}))
    axes.set(xlabel=key, ylabel=metric)
    _finish(figure, list(curves), title)
    return figure


def _draw(axes: Axes, curves: Mapping[str, Curve], names: Sequence[str]) -> None:
    for name, curve in curves.items():
        x, mean, low, high = (np.asarray(part, dtype=float) for part in curve)
        look = _look(names.index(name))
        axes.plot(x, mean, **look, markersize=4.5, markevery=max(1, len(x) // 8))
        axes.fill_between(x, low, high, color=look["color"], alpha=0.16, linewidth=0)
    axes.grid()


def _look(index: int) -> dict[str, Any]:
    turn, colour = divmod(index, len(PALETTE))
    return {
        "color": PALETTE[colour],
        "linestyle": DASHES[turn % len(DASHES)],
        "marker": MARKERS[index % len(MARKERS)],
    }


def _finish(figure: Figure, names: Sequence[str], title: str) -> None:
    figure.suptitle(title)
    handles = [
        Line2D([], [], **_look(index), markersize=4.5, label=short(name, 40))
        for index, name in enumerate(names)
    ]
    figure.legend(handles=handles, loc="outside right center")


def _scale(axes: Axes, values: Sequence[float]) -> None:
    """Set the ticks to the values, on a logarithmic scale if they span a wide range."""
    positive = [value for value in values if value > 0]
    if positive and values[0] >= 0 and max(positive) / min(positive) >= LOG_FROM:
        # A symmetric scale can show zero, which often turns an option off.
        if values[0] > 0:
            axes.set_xscale("log")
        else:
            axes.set_xscale("symlog", linthresh=min(positive))
    if len(values) <= 12:
        axes.set_xticks(values, [f"{value:g}" for value in values])
        axes.set_xticks([], minor=True)
