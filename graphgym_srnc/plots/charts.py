"""Charts of scores: means with intervals, confusion matrix, reliability and mean ranks."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Collection, Mapping, NamedTuple, Sequence

import numpy as np
from matplotlib.figure import Figure

from graphgym_srnc.core.text import short
from graphgym_srnc.plots.style import INK, MARKERS, PALE, PALETTE, panel, style

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COUNTED, LONGEST = 24, 40
"""Maximum number of classes with counts in a confusion matrix, and maximum length of a name."""


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
        for place, row in enumerate(rows):
            one = means.get(row)
            if one is None:
                continue
            colour = PALE if row in pale else PALETTE[0]
            axes.plot([one.low, one.high], [place, place], color=colour, linewidth=2)
            axes.plot(one.mean, place, "o", color=colour, markersize=5)
            axes.plot(one.paper, place, "D", color=PALETTE[5], markersize=4, markerfacecolor="none")
        axes.set(title=short(title, LONGEST), xlabel=label)
        axes.grid(axis="x")
    for axes in every.flat[len(panels) :]:
        axes.set_axis_off()
    every[0, 0].set_yticks(range(len(rows)), [short(row, LONGEST) for row in rows])
    every[0, 0].set_ylim(len(rows) - 0.5, -0.5)
    return figure


@style()
def confusion_figure(
    counts: np.ndarray, names: Sequence[str], title: str = "", axes: Axes | None = None
) -> Figure:
    """Figure of a confusion matrix: row = true class with its size, colour = share of the row.

    Up to ``COUNTED`` classes, each cell also shows its count.

    Args:
        counts: the confusion matrix, ``[C, C]``.
        names: names of the classes.
        title: title of the figure.
        axes: axes to draw on; by default those of a new figure.
    """
    counts = np.asarray(counts)
    size = len(counts)
    share = counts / np.maximum(counts.sum(1, keepdims=True), 1)
    counted = size <= COUNTED
    side = max(4.2, (0.48 if counted else 0.2) * size + 2.6)
    figure, axes = panel(axes, (side + 0.6, side), 110 if counted else 150)
    image = axes.imshow(share, cmap="Blues", vmin=0, vmax=1)
    if counted:
        for row, column in np.ndindex(size, size):
            if counts[row, column]:
                axes.text(
                    column,
                    row,
                    str(int(counts[row, column])),
                    ha="center",
                    va="center",
                    fontsize=9 if size <= 12 else 6.5,
                    color="white" if share[row, column] > 0.55 else INK,
                )
    labels = [short(name, LONGEST) for name in names]
    slanted = {"rotation": 40, "ha": "right", "rotation_mode": "anchor"}
    small: dict[str, Any] = {} if counted else {"fontsize": 7}
    look: dict[str, Any] = slanted if max(map(len, labels)) > 3 else {}
    if not counted:
        look = {"rotation": 90, "fontsize": 7}
        axes.set_xticks(np.arange(size) - 0.5, minor=True)
        axes.set_yticks(np.arange(size) - 0.5, minor=True)
        axes.grid(which="minor", linewidth=0.3)
        axes.tick_params(which="minor", length=0)
    axes.set_xticks(range(size), labels, **look)
    axes.set_yticks(
        range(size),
        [f"{label} ({total:,})" for label, total in zip(labels, counts.sum(1).tolist())],
        **small,
    )
    axes.set(xlabel="predicted", ylabel="true", title=title)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    bar = figure.colorbar(image, ax=axes, shrink=0.75, label="share of the true class")
    bar.outline.set_visible(False)
    return figure


@style()
def reliability_figure(
    curves: Mapping[str, Sequence[Sequence[float]]], title: str = "", axes: Axes | None = None
) -> Figure:
    """Figure of accuracy against mean probability.

    A new figure also shows the share of nodes in each bin.

    Args:
        curves: reliability curves by part of the nodes, see
            :func:`graphgym_srnc.train.metrics.reliability`.
        title: title of the figure.
        axes: axes to draw on; by default those of a new figure.
    """
    lower: Axes | None = None
    if axes is None:
        figure = Figure(figsize=(4.8, 5.2))
        upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=(3, 1))
    else:
        figure, upper = panel(axes, (0, 0))
    upper.plot([0, 1], [0, 1], color=PALE, linewidth=1, zorder=0)
    width = 0.05 / len(curves)
    for index, (name, curve) in enumerate(curves.items()):
        sure, right, count = (np.array(part, dtype=float) for part in zip(*curve))
        error = (count * np.abs(right - sure)).sum() / count.sum()
        colour = PALETTE[index % len(PALETTE)]
        upper.plot(
            sure,
            right,
            marker=MARKERS[index % len(MARKERS)],
            markersize=4,
            linewidth=1.3,
            color=colour,
            label=f"{name}, ECE {100 * error:.1f} %",
        )
        offset = (index - (len(curves) - 1) / 2) * width
        if lower is not None:
            lower.bar(sure + offset, 100 * count / count.sum(), width=width, color=colour)
    upper.set(ylabel="share that is right", xlim=(-0.02, 1.02), ylim=(-0.02, 1.02), title=title)
    upper.grid()
    if lower is None:
        upper.set(xlabel="probability of the predicted class")
        upper.legend(loc="upper left")
        return figure
    figure.legend(loc="outside lower center", ncols=2)
    lower.set(xlabel="probability of the predicted class", ylabel="nodes (%)")
    lower.grid(axis="y")
    return figure


@style()
def critical_difference_figure(
    ranks: Mapping[str, float],
    cd: float,
    cliques: Sequence[Sequence[str]],
    title: str = "",
    axes: Axes | None = None,
) -> Figure:
    """Critical difference diagram: mean ranks, with bars over methods that do not differ.

    Args:
        ranks: mean rank of each method, 1 = best; at least two.
        cd: critical difference of two mean ranks; 0 or NaN if the test has none.
        cliques: groups of methods without significant differences.
        title: title of the figure.
        axes: axes to draw on; by default those of a new figure.

    References:
        Demšar (JMLR 2006).
    """
    order = sorted(ranks, key=lambda name: (ranks[name], name))
    has_cd, best = cd > 0, math.floor(ranks[order[0]])
    worst = max(math.ceil(ranks[order[-1]]), best + math.ceil(cd if has_cd else 1))
    half = (len(order) + 1) // 2
    sides = {"left": order[:half], "right": order[: half - 1 : -1]}
    labels = {name: f"{short(name, 40)}  {ranks[name]:.2f}" for name in order}
    bars = _levels(
        [
            (min(ranks[name] for name in clique), max(ranks[name] for name in clique))
            for clique in cliques
            if len(clique) > 1
        ]
    )
    first = 0.55 + 0.32 * (max((level for _, _, level in bars), default=-1) + 1)
    rows = first + half
    widest = sum(max((len(labels[name]) for name in names), default=0) for names in sides.values())
    height = 0.8 + 0.27 * rows + 0.3 * has_cd + 0.25 * bool(title)
    own = axes is None
    figure, axes = panel(axes, (3.6 + 0.075 * widest, height))
    axes.set_xlim(best, worst)
    axes.set_ylim(rows - 0.4, -0.9 * has_cd)
    axes.xaxis.tick_top()
    axes.set_xticks(range(best, worst + 1))
    axes.set_yticks([])
    axes.spines[["left", "right", "bottom"]].set_visible(False)
    axes.spines["top"].set(visible=True, position=("data", 0))
    axes.set_xlabel("mean rank (1 = best)")
    (figure.suptitle if own else axes.set_title)(title)
    margin = 0.03 * (worst - best)
    for side, names in sides.items():
        edge, align = (best - margin, "right") if side == "left" else (worst + margin, "left")
        for row, name in enumerate(names):
            axes.plot(
                [ranks[name], ranks[name], edge],
                [0, first + row, first + row],
                color=INK,
                linewidth=0.9,
                clip_on=False,
            )
            axes.text(edge, first + row, f" {labels[name]} ", ha=align, va="center")
    for low, high, level in bars:
        axes.plot(
            [low - margin / 3, high + margin / 3],
            [0.32 + 0.32 * level] * 2,
            color=PALETTE[5],
            linewidth=3,
            solid_capstyle="butt",
        )
    if has_cd:
        axes.errorbar(
            best + cd / 2, -0.85, xerr=cd / 2, color=INK, capsize=3, linewidth=1.1, clip_on=False
        )
        axes.text(best + cd / 2, -1.0, f"CD = {cd:.2f}", ha="center", va="bottom")
    return figure


def _levels(intervals: Sequence[tuple[float, float]]) -> list[tuple[float, float, int]]:
    """Each interval with the first row on which it overlaps no earlier interval."""
    placed: list[tuple[float, float, int]] = []
    for low, high in sorted(set(intervals)):
        taken = {level for _, end, level in placed if end >= low}
        placed.append((low, high, min({*range(len(placed) + 1)} - taken)))
    return placed
