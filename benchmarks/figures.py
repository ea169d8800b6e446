"""The plots of docs/results, from the same scores as its tables."""

from __future__ import annotations

import io
import math
from pathlib import Path
from typing import Any, Sequence

import scores
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from PIL import Image

from graphgym_srnc.plots.style import INK, PALETTE, encode, style
from graphgym_srnc.report.statistics import mean

BLUE, ORANGE, GREEN, GREY = PALETTE[0], PALETTE[1], PALETTE[2], "#777777"
DPI = 130
"""Pixels per inch: a figure of 7.4 inches is 962 pixels wide, readable at 800."""

OURS_DOT = {"marker": "o", "ls": "", "ms": 7, "color": BLUE, "mec": INK, "mew": 0.5}
RIVAL_DOT = {"marker": "^", "ls": "", "ms": 6, "color": ORANGE, "mec": INK, "mew": 0.5}
PLAIN_DOT = {"marker": "s", "ls": "", "ms": 5, "color": "#AAAAAA", "mec": GREY, "mew": 0.5}


def figure(width: float, height: float, columns: int = 1, **options: Any) -> tuple[Figure, Any]:
    """A figure in the common style, and its axes."""
    made = Figure(figsize=(width, height), dpi=DPI)
    return made, made.subplots(1, columns, **options)


def legend(
    made: Figure, handles: Sequence[Any], names: Sequence[str], at: str, **more: Any
) -> None:
    made.legend(handles, names, loc=f"outside {at} center", **({"ncols": 3} | more))


def half(ends: tuple[float, float]) -> float:
    """Half the width of an interval, 0 where there is none."""
    return 0.0 if math.isnan(ends[0]) else (ends[1] - ends[0]) / 2


def summary() -> Figure:
    """SRNC+, the strongest other method and a plain GCN for each shift, and paired differences."""
    lines = scores.summary_lines()
    made, (axes, right) = figure(7.4, 5.4, 2, sharey=True, width_ratios=(5, 3))
    for y, line in enumerate(lines):
        best = max(line.ours, line.theirs)
        axes.plot([line.plain, best], [y, y], color="#DDDDDD", lw=1.2, zorder=1)
        draw_difference(right, line.difference, y, line.ends)
    ys = range(len(lines))
    axes.plot([line.theirs for line in lines], [y + 0.16 for y in ys], **RIVAL_DOT, zorder=2)
    axes.plot([line.plain for line in lines], ys, **PLAIN_DOT, zorder=2)
    axes.plot([line.ours for line in lines], [y - 0.16 for y in ys], **OURS_DOT, zorder=3)
    axes.set_yticks(ys, [f"{line.label}\n({line.rival}; {line.n})" for line in lines], fontsize=7)
    axes.set_ylim(len(lines) - 0.4, -0.6)
    axes.set_xlabel("Micro-F1 on test nodes in % (OCNNC: HS)", fontsize=8)
    right.set_xlabel("SRNC+ minus other, points", fontsize=8)
    right.tick_params(axis="y", length=0)
    right.axvline(0, color=INK, lw=0.8)
    axes.grid(axis="x")
    right.grid(axis="x")
    handles = [Line2D([], [], **dot) for dot in (OURS_DOT, RIVAL_DOT, PLAIN_DOT)]
    legend(made, handles, ["SRNC+", "strongest other method (in brackets)", "plain GCN"], "upper")
    legend_of_differences(made, "lower")
    return made


DIFFERENCES = {
    "95 % interval above 0 (uncorrected)": (BLUE, BLUE),
    "95 % interval below 0 (uncorrected)": (ORANGE, ORANGE),
    "95 % interval with 0": (GREY, GREY),
    "no interval: only the mean is stored": (GREY, "white"),
}
"""Colours of the line and the dot of a difference."""


def draw_difference(axes: Any, gap: float, y: float, ends: tuple[float, float]) -> None:
    """A paired difference with its interval, in the look of ``DIFFERENCES``."""
    above, below, unclear, without = DIFFERENCES.values()
    color, fill = unclear if ends[0] <= 0 <= ends[1] else above if gap > 0 else below
    if math.isnan(ends[0]):
        color, fill = without
    look = {"fmt": "o", "ms": 5, "color": color, "capsize": 2.5, "mfc": fill}
    axes.errorbar(gap, y, xerr=half(ends) or None, **look)


def legend_of_differences(made: Figure, at: str) -> None:
    looks = [{"color": color, "mfc": fill} for color, fill in DIFFERENCES.values()]
    handles = [
        Line2D([], [], marker="o", ls="-" if i < 3 else "", **look) for i, look in enumerate(looks)
    ]
    legend(made, handles, [*DIFFERENCES], at, ncols=2)


RIVALS = {
    "New classes, 20 labels: Cora": ("cora", ("pgl-chosen-5", "pgl-chosen-2", "pgl-gcn", "erm")),
    "New classes, 20 labels: CiteSeer": (
        "citeseer",
        ("pgl-chosen-5", "pgl-chosen-2", "pgl-gcn", "erm"),
    ),
    "Another network: citation": ("citation", ("a2gnn", "cmd-corrected", "erm-corrected", "erm")),
    "Another time: synthetic": ("arxiv_like", ("erm-corrected", "grade", "erm")),
    "Another place: localized labels": ("localized", ("srnc", "cmd-ppr", "erm-corrected", "erm")),
    "Network and new classes: OCNNC (HS)": ("ocnnc", ("gnnsafe", "pgl", "uaga", "erm")),
    "Network, one class unlabelled": ("both", ("erm-ppr", "erm")),
}
"""Methods of the forest plot by shift."""


def forest_groups() -> dict[str, list[tuple[str, float, tuple[float, float]]]]:
    """By shift: a method with its n, SRNC+ minus it, and the interval."""
    out = {}
    for label, (name, rows) in RIVALS.items():
        shift = scores.shifts()[name]
        pairs = [(scores.plain_name(shift, row), shift.gaps(row)) for row in rows]
        out[label] = [(f"{row} (n = {len(gaps)})", gaps.mean, gaps.ends) for row, gaps in pairs]
        if label.startswith("New classes, 20 labels: CiteSeer"):
            own = "Own graph, 10 % labelled"
            out[own] = [
                point(line, f", {line.label.rpartition(': ')[2]}") for line in scores.own_lines()
            ]
    for line in scores.summary_lines():
        for words, label in (
            ("OCNNC", "Network and new classes: OCNNC (HS)"),
            ("unlabelled", "Network, one class unlabelled"),
            ("synthetic graph", "24 kinds of synthetic graph"),
        ):
            if words in line.label:
                out.setdefault(label, []).insert(0, point(line))
    return out


def point(line: scores.Line, more: str = "") -> tuple[str, float, tuple[float, float]]:
    return f"{line.rival}{more} (n = {line.n.split()[0]})", line.difference, line.ends


def forest() -> Figure:
    """Paired differences with their intervals."""
    groups = forest_groups()
    made, axes = figure(7.4, 8.2)
    y, ticks = 0.0, []
    for label, rows in groups.items():
        ticks.append((y, label))
        for name, gap, ends in rows:
            y += 1
            draw_difference(axes, gap, y, ends)
            ticks.append((y, name))
        y += 1.35
    axes.axvline(0, color=INK, lw=0.8)
    axes.set_yticks(*zip(*ticks), fontsize=7)
    for tick, (_, text) in zip(axes.get_yticklabels(), ticks):
        tick.set_weight("bold" if text in groups else "normal")
    axes.tick_params(axis="y", length=0)
    axes.set_ylim(y - 0.2, -0.8)
    axes.set_xlim(-8, 26)
    axes.grid(axis="x")
    axes.set_xlabel("SRNC+ minus the method in points (OCNNC: HS, else Micro-F1)")
    legend_of_differences(made, "upper")
    return made


def slopes() -> Figure:
    """Each set of masked classes: PGL+GCN and SRNC+."""
    made, both = figure(7.4, 3.9, 2)
    for axes, name in zip(both, ("cora", "citeseer")):
        shift = scores.shifts()[name]
        found = []
        for row in ("pgl-gcn", "srnc-plus"):
            by_split = shift.of(row).groupby(["masked", "split"], sort=False).micro_f1
            found.append(by_split.agg(scores.average).groupby("masked", sort=False).agg(mean))
        pairs = [(left, found[1][masked]) for masked, left in found[0].items()]
        for left, right in pairs:
            color = BLUE if right > left else ORANGE
            axes.plot([0, 1], [left, right], "o-", ms=3, lw=1, alpha=0.75, color=color)
        means = [mean(scores) for scores in found]
        axes.plot([0, 1], means, "D-", color=INK, ms=6, lw=2.2)
        for x, value, align in zip((-0.06, 1.06), means, ("right", "left")):
            axes.text(x, value, f"{value:.1f}", va="center", ha=align, weight="bold")
        axes.set_xticks([0, 1], ["PGL+GCN", "SRNC+"])
        axes.set_xlim(-0.3, 1.3)
        wins = sum(right > left for left, right in pairs)
        graph = shift.blocks[name]
        axes.set_title(f"{graph}: SRNC+ higher on {wins} of {len(pairs)} sets")
        axes.grid(axis="y")
    both[0].set_ylabel("Micro-F1 on test nodes in %")
    handles = [
        Line2D([], [], color=BLUE),
        Line2D([], [], color=ORANGE),
        Line2D([], [], color=INK, marker="D", lw=2.2),
    ]
    legend(made, handles, ["SRNC+ higher", "PGL+GCN higher or equal", "mean"], "lower")
    return made


def ablations() -> Figure:
    """What is lost without each component, by kind of task."""
    _, *lines = scores.read("ablations")
    kinds = {"own graph": ORANGE, "20 labels": BLUE, "two graphs": GREEN, "all": INK}
    made, axes = figure(7.4, 0.5 * len(lines) + 1.2)
    for y, line in enumerate(lines):
        for offset, (kind, color) in zip((-0.27, -0.09, 0.09, 0.27), kinds.items()):
            if line[kind]:
                change, error = float(line[kind]), float(line[f"{kind} ±"])
                axes.errorbar(change, y + offset, xerr=error, fmt="o", ms=4, color=color)
    axes.set_yticks(range(len(lines)), [line["without"] for line in lines], fontsize=7.5)
    axes.set_ylim(len(lines) - 0.5, -0.5)
    axes.axvline(0, color=INK, lw=0.8)
    axes.grid(axis="x")
    axes.set_xlabel("change of Micro-F1 without the component, points (95 % interval)", fontsize=8)
    handles = [Line2D([], [], color=color, marker="o", lw=1) for color in kinds.values()]
    missing = "no point: tasks of this kind do not use the component"
    legend(made, handles, [*kinds], "upper", ncols=4, title=missing)
    return made


PLOTS = (summary, forest, slopes, ablations)


def draw_all(folder: Path) -> list[Path]:
    """Write every plot; equal scores give equal files."""
    files = []
    for draw in PLOTS:
        with style():
            data = io.BytesIO(encode(draw()))
        files.append(folder / f"{draw.__name__}.png")
        # 64 colours halve the file and look the same.
        colours = Image.open(data).convert("RGB").quantize(64, Image.Quantize.MEDIANCUT)
        colours.save(files[-1], optimize=True)
    return files
