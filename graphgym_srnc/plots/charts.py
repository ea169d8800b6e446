"""Charts of scores and labels: confusion, reliability, mean ranks, label shift, curves."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Mapping, Sequence

import numpy as np
import pandas

from graphgym_srnc.core.text import short
from graphgym_srnc.plots.style import INK, MARKERS, PALE, PALETTE, Figure, look, panel, style

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from graphgym_srnc.io.records import Result

COUNTED = 24  # maximum number of classes with counts in a confusion matrix
LONGEST = 40  # maximum length of a name


@style()
def critical_difference_figure(
    ranks: Mapping[str, float], cd: float, title: str = "", test: str = "Nemenyi's test"
) -> Figure:
    """Critical difference diagram of mean ranks (Demšar, JMLR 2006); bars are ``cd`` wide.

    Two methods differ significantly if their bars do not overlap. ``test``, its level and its
    number of blocks, stands below.
    """
    order = sorted(ranks, key=lambda name: (ranks[name], name))
    figure, axes = panel(None, (4.9, 0.26 * len(order) + 1.1))
    for place, name in enumerate(order):
        rank = ranks[name]
        axes.plot([rank - cd / 2, rank + cd / 2], [place, place], color=PALETTE[0], linewidth=2)
        axes.plot(rank, place, "o", color=PALETTE[0], markersize=5)
    axes.set_yticks(range(len(order)), [short(name, LONGEST) for name in order])
    axes.set(ylim=(len(order) - 0.5, -0.5), title=short(title, LONGEST))
    axes.set_xlabel("mean rank (1 = best)")
    axes.set_xticks(range(1, len(order) + 1, math.ceil(len(order) / 8)))
    axes.grid(axis="x")
    figure.supxlabel(f"{test}: critical difference {cd:.2f}", fontsize=8)
    return figure


@style()
def confusion_figure(
    counts: np.ndarray, names: Sequence[str], title: str = "", axes: Axes | None = None
) -> Figure:
    """Figure of a confusion matrix ``[C, C]``: row = true class, colour = share of the row.

    Rows are the classes with nodes, columns also those with predictions alone. Up to ``COUNTED``
    columns have counts.
    """
    present = np.flatnonzero(counts.sum(0) + counts.sum(1))
    counts = counts[np.ix_(present, present)]
    totals = counts.sum(1)
    labels = [short(names[index], LONGEST) for index in present.tolist()]
    rows = [f"{label} ({total:,})" for label, total in zip(labels, totals) if total]
    counts = counts[totals > 0]
    totals = totals[totals > 0]
    size = len(present)
    is_counted = len(present) <= COUNTED
    side = max(3.4, (0.42 if is_counted else 0.2) * size + 2)
    figure, axes = panel(axes, (side + 0.6, side), 110 if is_counted else 150)
    share = counts / totals[:, None]
    image = axes.imshow(share, cmap="Blues", vmin=0, vmax=1)
    for row, column in np.argwhere(counts) if is_counted else ():
        colour = "white" if share[row, column] > 0.55 else INK
        text = str(counts[row, column])
        font = 9 if size <= 12 else 6.5
        axes.text(column, row, text, color=colour, ha="center", va="center", fontsize=font)
    across: dict[str, Any] = {"rotation": 40, "ha": "right", "rotation_mode": "anchor"}
    axes.set_xticks(range(size), labels, **(across if is_counted else {"rotation": 90}))
    axes.set_yticks(range(len(rows)), rows)
    axes.set(xlabel="predicted", ylabel="true", title=title)
    axes.tick_params(length=0, labelsize=8 if is_counted else 7)
    axes.spines[:].set_visible(False)
    bar = figure.colorbar(image, ax=axes, shrink=0.75, label="share of the true class")
    bar.outline.set_visible(False)
    return figure


@style()
def reliability_figure(curves: Mapping[str, Sequence[Sequence[float]]], title: str = "") -> Figure:
    """Figure of accuracy against mean probability, by part of the nodes.

    ``curves`` are those of ``graphgym_srnc.train.metrics.reliability``.
    """
    from graphgym_srnc.train.metrics import expected_calibration_error  # imports torch

    figure, axes = panel(None, (4.8, 4.4))
    axes.plot([0, 1], [0, 1], color=PALE, linewidth=1, zorder=0)
    for index, (name, curve) in enumerate(curves.items()):
        sure, right, _ = zip(*curve)
        label = f"{name}, ECE {100 * expected_calibration_error(curve):.1f} %"
        axes.plot(sure, right, **look(index, MARKERS[index]), markersize=4, label=label)
    axes.set(ylabel="share that is right", xlim=(-0.02, 1.02), ylim=(-0.02, 1.02), title=title)
    axes.set_xlabel("probability of the predicted class")
    axes.grid()
    axes.legend(loc="upper left")
    return figure


@style()
def shift_figure(summary: Mapping[str, Any], axes: Axes | None = None) -> Figure:
    """Figure of class sizes of training nodes and target nodes in a summary by ``describe``.

    Classes that have no training node are hatched.
    """
    counts = pandas.DataFrame(summary["labels"]).T
    totals = counts.sum().clip(lower=1)
    shares = (100 * counts / totals).rename(index=lambda name: short(name, LONGEST))
    figure, axes = panel(axes, (6.4, min(1.6 + 0.38 * len(counts), 30)))
    shares.plot.barh(ax=axes, width=0.78, color=list(PALETTE[:2]), edgecolor="white", linewidth=0)
    for bars in axes.containers:
        for bar, count in zip(bars, counts["source"]):
            bar.set_hatch("" if count else "////")
    axes.invert_yaxis()
    axes.set(xlabel="share of nodes (%)", title=f"{summary['name']}: labels of source and target")
    axes.grid(axis="x")
    axes.tick_params(axis="y", length=0)
    texts = ("labelled training nodes", "target nodes")
    parts = [f"{text} ({total:,})" for text, total in zip(texts, totals)]
    axes.legend(parts, ncols=2, loc="upper center", bbox_to_anchor=(0.5, 0), borderaxespad=4.5)
    return figure


def history(results: Mapping[int, Result], block: str, name: str) -> np.ndarray:
    """Values of a score or loss by run and episode, ``[runs, episodes]``; NaN = missing.

    A run that stopped early is extended with the value of its selected episode, as in ``agg/``.
    ``block`` is ``losses``, ``train``, ``val`` or ``test``.
    """
    length = max(len(result["history"]) for result in results.values())
    rows = []
    for result in results.values():
        held = [result["history"][result["selected"]]] * (length - len(result["history"]))
        rows.append([episode[block].get(name, np.nan) for episode in [*result["history"], *held]])
    return np.array(rows, dtype=float)


@style()
def curves_figure(
    panels: Mapping[str, Mapping[str, np.ndarray]], ylabel: str, title: str, rows: Sequence[str]
) -> Figure:
    """Figure of means over runs by episode, with a band of one population standard deviation.

    Each panel has values ``[runs, episodes]`` by method; NaN = missing. ``rows`` are all methods of
    a report, so that each has the same look in all figures.
    """
    methods = set().union(*panels.values())
    height = 3.3 + 0.17 * math.ceil(len(methods) / len(panels))
    figure = Figure(figsize=(3.4 * len(panels), height), dpi=130)
    every = figure.subplots(1, len(panels), squeeze=False, sharey=True)[0]
    for axes, (text, curves) in zip(every, panels.items()):
        for row, values in curves.items():
            finite = np.ma.masked_invalid(values)
            mean = finite.mean(0)
            std = finite.std(0)
            index = rows.index(row)
            x = np.arange(len(mean))
            lines = look(index, MARKERS[index % len(MARKERS)])
            label = short(row, LONGEST)
            axes.plot(x, mean, **lines, markersize=4.5, markevery=max(1, len(x) // 8), label=label)
            axes.fill_between(
                x, mean - std, mean + std, color=lines["color"], alpha=0.16, linewidth=0
            )
        axes.grid()
        axes.set(title=text, xlabel="episode")
        axes.xaxis.get_major_locator().set_params(integer=True)
    every[0].set_ylabel(ylabel)
    figure.suptitle(title)
    handles, labels = every[-1].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(panels))
    return figure
