"""The plots of docs/results, from the same scores as its tables."""

from __future__ import annotations

import io
import math
from pathlib import Path
from typing import Any

import results
from _harness import by_split, masked_of
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from PIL import Image

from graphgym_srnc.plots.style import INK, PALETTE, encode, style
from graphgym_srnc.report.statistics import mean

BLUE, ORANGE, GREEN, GREY = PALETTE[0], PALETTE[1], PALETTE[2], "#777777"
DPI = 130
"""Pixels per inch: a figure of 7.4 inches is 962 pixels wide, readable at 800."""


def figure(width: float, height: float, columns: int = 1, **options: Any) -> tuple[Figure, Any]:
    """A figure in the common style, and its axes."""
    made = Figure(figsize=(width, height), dpi=DPI)
    return made, made.subplots(1, columns, **options)


def half(ends: tuple[float, float]) -> float:
    """Half the width of an interval, 0 where there is none."""
    return 0.0 if math.isnan(ends[0]) else (ends[1] - ends[0]) / 2


def summary() -> Figure:
    """SRNC+, the strongest other method and a plain GCN for each shift."""
    lines = results.summary_lines()
    made, axes = figure(7.4, 5.0)
    for y, line in enumerate(lines):
        axes.plot(
            [line.plain, max(line.ours, line.theirs)], [y, y], color="#DDDDDD", lw=1.2, zorder=1
        )
        axes.errorbar(
            line.theirs,
            y + 0.16,
            xerr=half(line.ends) or None,
            fmt="^",
            ms=6,
            color=ORANGE,
            mec=INK,
            mew=0.5,
            elinewidth=1.6,
            capsize=2.5,
            zorder=2,
        )
    ys = range(len(lines))
    axes.plot(
        [line.plain for line in lines], ys, "s", ms=5, color="#AAAAAA", mec=GREY, mew=0.5, zorder=2
    )
    axes.plot(
        [line.ours for line in lines],
        [y - 0.16 for y in ys],
        "o",
        ms=7,
        color=BLUE,
        mec=INK,
        mew=0.5,
        zorder=3,
    )
    axes.set_yticks(ys, [f"{line.label}\n({line.rival}; {line.n})" for line in lines], fontsize=7)
    axes.set_ylim(len(lines) - 0.4, -0.6)
    axes.set_xlabel("Micro-F1 on test nodes in % (OCNNC: HS)")
    axes.grid(axis="x")
    handles = [
        Line2D([], [], marker="o", ls="", ms=7, color=BLUE, mec=INK, mew=0.5),
        Line2D([], [], marker="^", ls="", ms=6, color=ORANGE, mec=INK, mew=0.5),
        Line2D([], [], marker="s", ls="", ms=5, color="#AAAAAA", mec=GREY, mew=0.5),
    ]
    made.legend(
        handles,
        [
            "SRNC+",
            "strongest other method (in brackets); bar: 95 % interval of the"
            " paired difference to SRNC+",
            "plain GCN",
        ],
        loc="outside upper center",
        ncols=3,
        columnspacing=1.2,
        handletextpad=0.4,
    )
    return made


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


def forest_lines() -> list[tuple[str, list[tuple[str, float, tuple[float, float], int]]]]:
    """By shift: a method, SRNC+ less it, the interval and n."""
    shifts, out = results.shifts(), []
    for label, (name, rows) in RIVALS.items():
        found = []
        for row in rows:
            gaps = results.test(shifts[name], row).gaps
            found.append(
                (
                    results.plain_name(shifts[name], row),
                    mean(gaps),
                    results.interval(gaps),
                    len(gaps),
                )
            )
        out.append((label, found))
    own = [
        (
            f"{line.rival}, {line.label.rpartition(': ')[2]}",
            line.difference,
            line.ends,
            int(line.n.split()[0]),
        )
        for line in results.own_lines()
    ]
    out.insert(2, ("Own graph, 10 % labelled", own))
    tuned = next(line for line in results.summary_lines() if "OCNNC" in line.label)
    next(rows for label, rows in out if "OCNNC" in label).insert(
        0, (tuned.rival, tuned.difference, tuned.ends, int(tuned.n.split()[0]))
    )
    one = next(line for line in results.summary_lines() if "unlabelled" in line.label)
    next(rows for label, rows in out if "unlabelled" in label).insert(
        0, (one.rival, one.difference, one.ends, int(one.n.split()[0]))
    )
    kinds = next(line for line in results.summary_lines() if "synthetic graph" in line.label)
    out.append(("24 kinds of synthetic graph", [(kinds.rival, kinds.difference, kinds.ends, 24)]))
    return out


def forest() -> Figure:
    """Paired differences with their intervals."""
    groups = forest_lines()
    made, axes = figure(7.4, 8.2)
    y, ticks, names = 0.0, [], []
    for label, rows in groups:
        ticks.append(y)
        names.append(label)
        y += 1
        for name, gap, ends, n in rows:
            clear = math.isnan(ends[0]) or ends[0] <= 0 <= ends[1]
            color = GREY if clear else BLUE if gap > 0 else ORANGE
            axes.errorbar(
                gap,
                y,
                xerr=half(ends) or None,
                fmt="o",
                ms=5,
                color=color,
                capsize=2.5,
                mfc="white" if math.isnan(ends[0]) else color,
            )
            ticks.append(y)
            names.append(f"{name} (n = {n})")
            y += 1
        y += 0.35
    axes.axvline(0, color=INK, lw=0.8)
    axes.set_yticks(ticks, names, fontsize=7)
    for tick, text in zip(axes.get_yticklabels(), names):
        tick.set_weight("bold" if text in dict(groups) else "normal")
    axes.tick_params(axis="y", length=0)
    axes.set_ylim(y - 0.2, -0.8)
    axes.set_xlim(-8, 26)
    axes.grid(axis="x")
    axes.set_xlabel("SRNC+ minus the method in points (OCNNC: HS, else Micro-F1)")
    made.legend(
        [
            Line2D([], [], marker="o", ls="-", color=BLUE),
            Line2D([], [], marker="o", ls="-", color=GREY),
            Line2D([], [], marker="o", ls="", color=GREY, mfc="white"),
        ],
        ["95 % interval without 0", "95 % interval with 0", "no interval: only the mean is stored"],
        loc="outside upper center",
        ncols=3,
    )
    return made


def slopes() -> Figure:
    """Each set of masked classes: PGL+GCN and SRNC+."""
    made, both = figure(7.4, 3.9, 2)
    for axes, name in zip(both, ("cora", "citeseer")):
        shift = results.shifts()[name]
        found = {}
        for row in ("pgl-gcn", "srnc-plus"):
            runs = shift.table[row][name]
            score, masked = by_split(runs, "micro_f1"), {}
            for run in runs.values():
                split = run["split"][:12]
                masked.setdefault(masked_of(run), {})[split] = score[split]
            found[row] = {key: mean(values.values()) for key, values in masked.items()}
        wins = 0
        for key, left in found["pgl-gcn"].items():
            right = found["srnc-plus"][key]
            wins += right > left
            axes.plot(
                [0, 1],
                [left, right],
                "o-",
                ms=3,
                lw=1,
                alpha=0.75,
                color=BLUE if right > left else ORANGE,
            )
        means = [mean(found[row].values()) for row in ("pgl-gcn", "srnc-plus")]
        axes.plot([0, 1], means, "D-", color=INK, ms=6, lw=2.2)
        for x, value in zip((-0.06, 1.06), means):
            axes.text(
                x,
                value,
                f"{value:.1f}",
                va="center",
                ha="right" if x < 0 else "left",
                weight="bold",
            )
        axes.set_xticks([0, 1], ["PGL+GCN", "SRNC+"])
        axes.set_xlim(-0.3, 1.3)
        axes.set_title(
            f"{next(iter(shift.blocks.values()))}: SRNC+ higher on {wins} of"
            f" {len(found['pgl-gcn'])} sets"
        )
        axes.grid(axis="y")
    both[0].set_ylabel("Micro-F1 on test nodes in %")
    made.legend(
        [
            Line2D([], [], color=BLUE),
            Line2D([], [], color=ORANGE),
            Line2D([], [], color=INK, marker="D", lw=2.2),
        ],
        ["SRNC+ higher", "PGL+GCN higher or equal", "mean"],
        loc="outside lower center",
        ncols=3,
    )
    return made


def ablations() -> Figure:
    """What is lost without each component on Cora and CiteSeer."""
    lines = [line for line in results.read("ablations-citation") if line["all"]]
    made, axes = figure(7.4, 4.6)
    for y, line in enumerate(lines):
        sure = float(line["Holm"]) < 0.05
        for offset, kind, color in ((-0.2, "own", ORANGE), (0.2, "few", BLUE)):
            if line[kind]:
                axes.barh(
                    y + offset, float(line[kind]), 0.36, color=color, alpha=1 if sure else 0.4
                )
                value = float(line[kind])
                axes.text(
                    value + (0.06 if value > 0 else -0.06),
                    y + offset,
                    line[f"{kind} wins"],
                    va="center",
                    ha="left" if value > 0 else "right",
                    fontsize=6.5,
                )
    names = [results.ABLATED[line["without"]] for line in lines]
    axes.set_yticks(range(len(lines)), names, fontsize=7.5)
    axes.set_ylim(len(lines) - 0.4, -0.6)
    axes.set_xlim(-5.6, 0.9)
    axes.axvline(0, color=INK, lw=0.8)
    axes.grid(axis="x")
    axes.set_xlabel(
        "change of Micro-F1 without the component, points\n(beside a bar: splits on"
        " which Micro-F1 is higher without it)",
        fontsize=8,
    )
    made.legend(
        [Patch(color=ORANGE), Patch(color=BLUE), Patch(color=GREY), Patch(color=GREY, alpha=0.4)],
        ["own graph, 10 % labelled", "20 labels per class", "p < 0.05 (both, Holm)", "p ≥ 0.05"],
        loc="outside upper center",
        ncols=4,
    )
    return made


def homophily() -> Figure:
    """Gain on 24 kinds of synthetic graph by homophily."""
    kinds = results.read("synthetic")
    made, both = figure(7.4, 3.4, 2, sharey=True)
    for axes, row, name in zip(both, ("erm", "pgl"), ("GCN", "PGL+GCN")):
        for level, color in ((0.5, ORANGE), (0.7, BLUE), (0.9, GREEN)):
            chosen = [line for line in kinds if float(line["homophily"]) == level]
            chosen.sort(key=lambda line: int(line["classes"]))
            for i, line in enumerate(chosen):
                gap, error = float(line[f"less {row}"]), float(line[f"less {row} ±"])
                x = level + (i - (len(chosen) - 1) / 2) * 0.018
                axes.errorbar(
                    x,
                    gap,
                    yerr=half(results.around(gap, error, int(line["n"]))),
                    fmt="o",
                    ms=4,
                    color=color,
                    elinewidth=0.9,
                    capsize=1.5,
                )
            centre = next(
                float(line[f"less {row}"])
                for line in results.read("synthetic-2")
                if (line["factor"], line["level"]) == ("homophily", str(level))
            )
            axes.plot([level - 0.075, level + 0.075], [centre] * 2, color=INK, lw=1.6)
            axes.text(level, 29.5, f"mean {centre:+.1f}", ha="center", fontsize=8)
        axes.axhline(0, color=INK, lw=0.8)
        axes.set_xticks([0.5, 0.7, 0.9])
        axes.set_xlabel("homophily (within one: 4 to 40 classes from left to right)", fontsize=8)
        axes.set_title(f"SRNC+ minus {name}")
        axes.grid(axis="y")
        axes.set_ylim(-5, 32)
    both[0].set_ylabel("points of Micro-F1, 95 % interval")
    return made


def speed() -> Figure:
    """Time of stock GraphGym over ours, whole runs."""
    lines = [line for line in results.read("speed") if line["against"] == "stock GraphGym"]
    made, both = figure(7.4, 3.2, 2, sharey=True)
    graphs = {"cora": "Cora", "citeseer": "CiteSeer", "pubmed": "PubMed"}
    methods = {"erm": ("plain GCN", GREY), "srnc": ("SRNC", ORANGE), "srnc-plus": ("SRNC+", BLUE)}
    titles = {"whole run": "whole process", "without imports": "without imports"}
    for axes, (measure, title) in zip(both, titles.items()):
        for i, (method, (_, color)) in enumerate(methods.items()):
            for x, graph in enumerate(graphs):
                line = next(
                    line
                    for line in lines
                    if (line["measure"], line["graph"], line["method"]) == (measure, graph, method)
                )
                ratio = float(line["ratio"])
                place = x + (i - 1) * 0.27
                axes.bar(place, ratio, 0.25, color=color)
                axes.text(place, ratio * 1.06, f"{ratio:.1f}", ha="center", fontsize=7)
        axes.set_yscale("log")
        axes.set_ylim(1, 140)
        axes.set_yticks([1, 2, 5, 10, 20, 50, 100], ["1", "2", "5", "10", "20", "50", "100"])
        axes.minorticks_off()
        axes.set_xticks(range(len(graphs)), list(graphs.values()))
        axes.set_title(title)
        axes.grid(axis="y")
    both[0].set_ylabel("time of stock GraphGym / ours")
    made.legend(
        [Patch(color=color) for _, color in methods.values()],
        [name for name, _ in methods.values()],
        loc="outside lower center",
        ncols=3,
    )
    return made


PLOTS = {
    "summary": summary,
    "forest": forest,
    "slopes": slopes,
    "ablations": ablations,
    "homophily": homophily,
    "speed": speed,
}


def draw_all(folder: Path) -> list[Path]:
    """Write every plot; equal scores give equal files."""
    files = []
    for name, draw in PLOTS.items():
        with style():
            data = io.BytesIO(encode(draw()))
        files.append(folder / f"{name}.png")
        # 64 colours halve the file and look the same.
        Image.open(data).convert("RGB").quantize(64, Image.Quantize.MEDIANCUT).save(
            files[-1], optimize=True
        )
    return files
