"""Charts of scores and labels: means, confusion, reliability, mean ranks, label shift, curves."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Collection, Mapping, NamedTuple, Sequence

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from graphgym_srnc.core.text import short
from graphgym_srnc.plots.style import INK, MARKERS, PALE, PALETTE, class_looks, look, panel, style

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from graphgym_srnc.io.records import Result

COUNTED, LONGEST = 24, 40
"""Maximum number of classes with counts in a confusion matrix, and maximum length of a name."""

LOG_FROM = 30
"""Ratio of the largest to the smallest value from which an axis is logarithmic."""

Curve = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]
"""x, mean, and lower and upper end of the band, each ``[n]``."""


class Mean(NamedTuple):
    """Mean score with its confidence interval (NaN if there is none) and the mean in the paper."""

    mean: float
    low: float = math.nan
    high: float = math.nan
    paper: float = math.nan


@style()
def scores_figure(
    panels: Mapping[str, Mapping[str, Mean]],
    rows: Sequence[str],
    label: str,
    pale: Collection[str] = (),
) -> Figure:
    """Figure of mean scores with intervals, one row per method and one panel per data set.

    Args:
        panels: scores by method, by data set.
        rows: methods from top to bottom.
        label: name of the score.
        pale: rows drawn in grey because they are not competitors, such as an oracle.
    """
    wide = min(3, len(panels))
    deep = math.ceil(len(panels) / wide)
    height = 0.26 * len(rows) + 0.7
    figure = Figure(figsize=(2.0 + 2.9 * wide, height * deep + 0.4), dpi=150)
    every = figure.subplots(deep, wide, squeeze=False, sharey=True)
    for axes, (title, means) in zip(every.flat, panels.items()):
        _dots(axes, means, rows, pale)
        axes.set(title=short(title, LONGEST), xlabel=label)
    for axes in every.flat[len(panels) :]:
        axes.set_axis_off()
    return figure


def _dots(
    axes: Axes, means: Mapping[str, Mean], rows: Sequence[str], pale: Collection[str] = ()
) -> None:
    """Draw means with intervals, one row per method from top to bottom."""
    paper: dict[str, Any] = {"color": PALETTE[5], "markersize": 4, "markerfacecolor": "none"}
    for place, row in enumerate(rows):
        if row in means:
            one, colour = means[row], PALE if row in pale else PALETTE[0]
            axes.plot([one.low, one.high], [place, place], color=colour, linewidth=2)
            axes.plot(one.mean, place, "o", color=colour, markersize=5)
            axes.plot(one.paper, place, "D", **paper)
    axes.set_yticks(range(len(rows)), [short(row, LONGEST) for row in rows])
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.grid(axis="x")


@style()
def confusion_figure(
    counts: np.ndarray, names: Sequence[str], title: str = "", axes: Axes | None = None
) -> Figure:
    """Figure of a confusion matrix: row = true class with its size, colour = share of the row.

    A class without nodes has no row, and no column if it is never predicted. The squares beside
    the names are the colours of the classes in all figures. Up to ``COUNTED`` classes, each cell
    also shows its count.

    Args:
        counts: the confusion matrix, ``[C, C]``.
        names: names of the classes.
        title: title of the figure.
        axes: axes to draw on; by default those of a new figure.
    """
    counts = np.asarray(counts)
    rows = np.flatnonzero(counts.sum(1))
    columns = np.flatnonzero(counts.sum(0) + counts.sum(1))
    counts, totals = counts[np.ix_(rows, columns)], counts.sum(1)
    share = counts / totals[rows, None]
    size, is_small = len(columns), len(columns) <= COUNTED
    side = max(3.4, (0.42 if is_small else 0.2) * size + 2)
    figure, axes = panel(axes, (side + 0.6, side), 110 if is_small else 150)
    image = axes.imshow(share, cmap="Blues", vmin=0, vmax=1)
    for row, column in np.argwhere(counts) if is_small else ():
        colour, text = "white" if share[row, column] > 0.55 else INK, str(counts[row, column])
        font = 9 if size <= 12 else 6.5
        axes.text(column, row, text, color=colour, ha="center", va="center", fontsize=font)
    labels = [short(name, LONGEST) for name in names]
    across: dict[str, Any] = {"rotation": 90, "fontsize": 8 if is_small else 7}
    if is_small:
        across |= {"rotation": 40, "ha": "right", "rotation_mode": "anchor"}
    sizes = [f"{labels[k]} ({totals[k]:,})" for k in rows.tolist()]
    axes.set_xticks(range(size), [labels[k] for k in columns], **across)
    axes.set_yticks(range(len(rows)), sizes, fontsize=across["fontsize"])
    colours = np.array([look["color"] for look in class_looks(names)])
    squares: dict[str, Any] = {"marker": "s", "s": 14, "clip_on": False}
    edges = axes.get_xaxis_transform(), axes.get_yaxis_transform()
    axes.scatter(range(size), [0] * size, c=colours[columns], transform=edges[0], **squares)
    axes.scatter([0] * len(rows), range(len(rows)), c=colours[rows], transform=edges[1], **squares)
    axes.set(xlabel="predicted", ylabel="true", title=title)
    axes.tick_params(length=0, pad=7)
    axes.spines[:].set_visible(False)
    bar = figure.colorbar(image, ax=axes, shrink=0.75, label="share of the true class")
    bar.outline.set_visible(False)
    return figure


@style()
def reliability_figure(
    curves: Mapping[str, Sequence[Sequence[float]]], title: str = "", axes: Axes | None = None
) -> Figure:
    """Figure of accuracy against mean probability.

    Args:
        curves: reliability curves by part of the nodes, see
            :func:`graphgym_srnc.train.metrics.reliability`.
        title: title of the figure.
        axes: axes to draw on; by default those of a new figure.
    """
    figure, axes = panel(axes, (4.8, 4.4))
    axes.plot([0, 1], [0, 1], color=PALE, linewidth=1, zorder=0)
    for index, (name, curve) in enumerate(curves.items()):
        sure, right, count = (np.array(part, dtype=float) for part in zip(*curve))
        error = (count * np.abs(right - sure)).sum() / count.sum()
        label = f"{name}, ECE {100 * error:.1f} %"
        style_of = look(index) | {"marker": MARKERS[index]}
        axes.plot(sure, right, **style_of, markersize=4, label=label)
    axes.set(ylabel="share that is right", xlim=(-0.02, 1.02), ylim=(-0.02, 1.02), title=title)
    axes.set_xlabel("probability of the predicted class")
    axes.grid()
    axes.legend(loc="upper left")
    return figure


@style()
def critical_difference_figure(
    ranks: Mapping[str, float], cd: float, title: str = "", axes: Axes | None = None
) -> Figure:
    """Critical difference diagram: mean ranks with bars as wide as the critical difference.

    Two methods differ significantly if their bars do not overlap.

    Args:
        ranks: mean rank of each method, 1 = best; at least two.
        cd: critical difference of two mean ranks.
        title: title of the figure.
        axes: axes to draw on; by default those of a new figure.

    References:
        Demšar (JMLR 2006).
    """
    order = sorted(ranks, key=lambda name: (ranks[name], name))
    figure, axes = panel(axes, (6.4, 1.0 + 0.27 * len(order)))
    _dots(axes, {name: Mean(x, x - cd / 2, x + cd / 2) for name, x in ranks.items()}, order)
    axes.set(xlabel=f"mean rank (1 = best), CD = {cd:.2f}", title=title)
    return figure


@style()
def shift_figure(summary: Mapping[str, Any], axes: Axes | None = None) -> Figure:
    """Figure of class sizes of training nodes and target nodes.

    Classes that have no training node are hatched.

    Args:
        summary: ``name`` of a task and ``labels``, the number of nodes of each class in ``source``
            and ``target``, as returned by :func:`graphgym_srnc.data.describe.describe`.
        axes: axes to draw on; by default those of a new figure.
    """
    names, counts = list(summary["labels"]), list(summary["labels"].values())
    places = np.arange(len(names))
    own = axes is None
    figure, axes = panel(axes, (6.4, min(1.6 + 0.38 * len(names), 30)))
    parts = {"source": "labelled training nodes", "target": "all target nodes"}
    for index, (side, part) in enumerate(parts.items()):
        sizes = np.array([count[side] for count in counts])
        total = max(int(sizes.sum()), 1)
        bars = axes.barh(
            places + 0.4 * index - 0.2,
            100 * sizes / total,
            height=0.38,
            color=PALETTE[index],
            label=f"{part} ({total:,})",
            edgecolor="white",
            linewidth=0,
        )
        for bar, count in zip(bars, counts):
            bar.set_hatch("" if count["source"] else "////")
    axes.set_yticks(places, [short(name, LONGEST) for name in names])
    axes.set_ylim(len(names) - 0.4, -0.6)
    title = f"{summary['name']}: labels of source and target"
    axes.set(xlabel="share of nodes (%)", title=title)
    axes.grid(axis="x")
    axes.tick_params(axis="y", length=0)
    if own:
        figure.legend(loc="outside lower center", ncols=2)
    else:
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.15), ncols=2)
    return figure


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
    panels: Mapping[str, Mapping[str, Curve]],
    ylabel: str,
    title: str = "",
    key: str = "",
    names: Sequence[str] = (),
) -> Figure:
    """Figure of curves with bands, one per method, in panels with a common scale.

    Args:
        panels: curves by name, by title of the panel.
        ylabel: label of the y axis.
        title: title of the figure.
        key: the config key whose values are x; empty = x are episodes.
        names: all names of a report, so that a method has the same look in each of its figures.
    """
    every = dict.fromkeys([*names, *(name for curves in panels.values() for name in curves)])
    looks = {
        name: look(index) | {"marker": MARKERS[index % len(MARKERS)], "markersize": 4.5}
        for index, name in enumerate(every)
    }
    figure = Figure(figsize=(4.2 * len(panels) + 1.6, 3.6), dpi=130)
    row = figure.subplots(1, len(panels), squeeze=False, sharey=True)[0]
    for axes, (text, curves) in zip(row, panels.items()):
        for name, curve in curves.items():
            x, mean, low, high = curve
            axes.plot(x, mean, **looks[name], markevery=max(1, len(x) // 8))
            axes.fill_between(x, low, high, color=looks[name]["color"], alpha=0.16, linewidth=0)
        axes.grid()
        axes.set(title=text, xlabel=key or "episode")
        if key:
            _scale(axes, sorted({float(value) for x, *_ in curves.values() for value in x}))
        else:
            axes.xaxis.get_major_locator().set_params(integer=True)
    row[0].set_ylabel(ylabel)
    figure.suptitle(title)
    # From top to bottom as the curves end in the last panel.
    ends = {name: mean[-1] if len(mean) else -math.inf for name, (_, mean, *_) in curves.items()}
    handles = [
        Line2D([], [], **looks[name], label=short(name, LONGEST))
        for name in sorted(ends, key=ends.__getitem__, reverse=True)
    ]
    figure.legend(handles=handles, loc="outside right center", fontsize=10)
    return figure


def _scale(axes: Axes, values: Sequence[float]) -> None:
    """Set the ticks to the values, on a logarithmic scale if they span a wide range."""
    if values[0] > 0 and values[-1] / values[0] >= LOG_FROM:
        axes.set_xscale("log")
    if len(values) <= 12:
        axes.set_xticks(values, [f"{value:g}" for value in values])
        axes.set_xticks([], minor=True)
