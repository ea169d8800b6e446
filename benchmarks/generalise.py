"""Does one setting hold on other graphs? SRNC+ beside the plain GNN with a threshold and PGL, on
graphs made in memory.

    python benchmarks/generalise.py --out docs/results/data/synthetic.csv   # 24 kinds, seeds 0 to 4
    python benchmarks/generalise.py --seeds 2 --only 0,7,19 --set gnn.dim_inner 64

All methods run as their configs for Cora say, untouched. What is finished in ``--results`` is not
run again.
"""

from __future__ import annotations

import argparse
import math
from typing import Any, NamedTuple, Sequence

from _harness import Cell, Results, main, markdown, parser, serve

from graphgym_srnc.report.statistics import mean, mean_std

BASELINES = ("erm", "pgl")
OURS = "srnc-plus"
NODES = {4: 2000, 7: 3000, 10: 3000, 15: 4000, 20: 4000, 40: 6000}


class Setting(NamedTuple):
    """A kind of graph."""

    classes: int
    masked: str
    homophily: float
    degree_exponent: float
    imbalance: int

    @property
    def unseen(self) -> int:
        return {"1": 1, "1/3": round(self.classes / 3), "1/2": self.classes // 2}[self.masked]

    def options(self) -> dict[str, Any]:
        """What it changes in a config."""
        options = {
            "num_classes": self.classes,
            "num_unseen": self.unseen,
            "homophily": self.homophily,
            "num_nodes": NODES[self.classes],
            "degree_exponent": self.degree_exponent,
            "class_imbalance": self.imbalance,
        }
        return {
            "dataset.format": "synthetic",
            "dataset.name": "synthetic",
            **{f"synthetic.{key}": value for key, value in options.items()},
        }


# Each level of a factor meets those of the others about equally often; 0 = all nodes have about the
# same degree.
SETTINGS = [
    Setting(*row)
    for row in (
        (4, "1", 0.5, 0, 1),
        (4, "1", 0.9, 0, 10),
        (4, "1/3", 0.5, 2.5, 1),
        (4, "1/2", 0.7, 0, 10),
        (7, "1", 0.7, 0, 1),
        (7, "1/3", 0.9, 2.5, 10),
        (7, "1/2", 0.5, 0, 1),
        (7, "1/2", 0.9, 0, 10),
        (10, "1", 0.7, 2.5, 10),
        (10, "1/3", 0.9, 0, 1),
        (10, "1/3", 0.9, 2.5, 1),
        (10, "1/2", 0.5, 2.5, 10),
        (15, "1", 0.5, 2.5, 10),
        (15, "1/3", 0.5, 0, 10),
        (15, "1/3", 0.7, 0, 10),
        (15, "1/2", 0.9, 2.5, 1),
        (20, "1", 0.5, 2.5, 1),
        (20, "1", 0.9, 0, 10),
        (20, "1/3", 0.7, 2.5, 1),
        (20, "1/2", 0.7, 2.5, 1),
        (40, "1", 0.7, 0, 10),
        (40, "1/3", 0.9, 2.5, 1),
        (40, "1/3", 0.5, 2.5, 10),
        (40, "1/2", 0.7, 0, 1),
    )
]


def cells(number: int, args: argparse.Namespace) -> dict[str, Cell]:
    """The experiment of each method on a kind of graph."""
    return {
        method: Cell(
            "",
            f"{number}-{method}",
            f"paper/open_set/cora-{method}",
            SETTINGS[number].options(),
            range(args.seeds),
        )
        for method in (*BASELINES, OURS)
    }


def difference(ours: Sequence[float], theirs: Sequence[float]) -> tuple[float, float]:
    """Mean of the paired differences and its standard error."""
    centre, std = mean_std([a - b for a, b in zip(ours, theirs)])
    return centre, std / math.sqrt(len(ours) - 1) if len(ours) > 1 else math.nan


def figures(results: Results, name: str) -> list[float]:
    """A figure of the selected episode of each run that has it.

    Episode 0 has no pseudo-labels yet, so its figures are those of what follows it.
    """
    found = []
    for result in results.values():
        episode = max(result["selected"], min(1, len(result["history"]) - 1))
        found.append(result["history"][episode]["losses"].get(name))
    return [value for value in found if value is not None]


def report(args: argparse.Namespace) -> str:
    """A line for each kind of graph, then the mean differences by the level of each factor."""
    lines, below, gaps, commits = [], 0, [], set()
    for number in args.only:
        setting = SETTINGS[number]
        runs = {method: cell.results(args) for method, cell in cells(number, args).items()}
        seeds = sorted(set.intersection(*map(set, runs.values())))
        if not seeds:
            continue
        runs = {method: {seed: results[seed] for seed in seeds} for method, results in runs.items()}
        splits = [[result["split"] for result in results.values()] for results in runs.values()]
        assert all(split == splits[0] for split in splits), "methods ran on different splits"
        commits |= {str(result["commit"]) for part in runs.values() for result in part.values()}

        micro = {
            method: [100 * result["test"]["micro_f1"] for result in results.values()]
            for method, results in runs.items()
        }
        gap = {method: difference(micro[OURS], micro[method]) for method in BASELINES}
        gaps.append((setting, gap))
        worse = [method for method, (centre, error) in gap.items() if centre < -error]
        below += bool(worse)
        ours = runs[OURS]
        lines.append(
            [
                number,
                setting.classes,
                setting.unseen,
                setting.homophily,
                setting.degree_exponent or "-",
                setting.imbalance,
                NODES[setting.classes],
                len(seeds),
                *(f"{mean(values):.1f}" for values in micro.values()),
                *("{:+.1f} ± {:.1f}".format(*gap[method]) for method in BASELINES),
                f"below {', '.join(worse)}" if worse else "",
                f"{mean(figures(ours, 'used_clusters')):.1f}",
                sum(bool(result["warnings"]) for result in ours.values()),
                f"{mean(result['seconds'] for result in ours.values()):.0f}",
            ]
        )
    if not lines:
        return "no results yet\n"

    less = [f"less {method}" for method in BASELINES]
    head = [
        "kind",
        "classes",
        "masked",
        "homophily",
        "degree exponent",
        "imbalance",
        "nodes",
        "n",
        *BASELINES,
        OURS,
        *less,
        "",
        "clusters in use",
        "warned",
        "s",
    ]
    factors = []
    for factor in Setting._fields:
        levels = {getattr(setting, factor) for setting, _ in gaps}
        for level in sorted(levels, key=str if factor == "masked" else float):
            of_level = [gap for setting, gap in gaps if getattr(setting, factor) == level]
            gains = [f"{mean(gap[m][0] for gap in of_level):+.1f}" for m in BASELINES]
            factors.append([factor.replace("_", " "), level, len(of_level), *gains])
    factors.append(
        ["all", "-", len(gaps), *(f"{mean(gap[m][0] for _, gap in gaps):+.1f}" for m in BASELINES)]
    )
    overall = ", ".join(f"{mean(gap[m][0] for _, gap in gaps):+.1f} on {m}" for m in BASELINES)
    return (
        markdown(head, lines) + "Test Micro-F1 in %, mean over n split seeds; differences of "
        f"{OURS} on the same splits, ± standard error. More than one standard error below"
        f" a baseline: {below} of {len(lines)}. Mean over all: {overall}.\n\n"
        + markdown(["factor", "level", "graphs", *less], factors)
        + f"Commit {', '.join(sorted(commits))}.\n"
    )


def begin() -> int:
    options = parser(__doc__, "--results", "results/generalise")
    options.add_argument(
        "--seeds",
        type=int,
        default=5,
        metavar="S",
        help="split seeds 0 to S - 1 (default: %(default)s)",
    )
    options.add_argument(
        "--only", default="", metavar="I,J,...", help="numbers of the kinds of graph to run"
    )
    args = options.parse_args()
    args.only = list(map(int, args.only.split(","))) if args.only else range(len(SETTINGS))
    every = [cell for number in args.only for cell in cells(number, args).values()]
    return serve(args, every, report)


if __name__ == "__main__":
    main(begin)
