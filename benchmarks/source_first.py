"""Is it SRNC+, or where it looks? Other methods that find an unseen class on the source first.

    python benchmarks/source_first.py --out docs/results/data/source-first.csv

The citation networks with an unseen class, as `close_set.py report both` has them. A method finds
the class on the source as on one graph, with the held-out source nodes as validation; a GCN learns
all decisions there, N + 1 classes, and its posterior is smoothed and corrected. The rows of SRNC+
are those of docs/results/data/runs.csv on the same splits. A line of `--results` is a finished run,
which is not run again. GRAPHGYM_SRNC_DATA names the data folder.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import Any

import close_set
import torch
from _harness import finished, known, main, markdown, publish, tests, wins
from torch_geometric.data import Data

from graphgym_srnc.backbones import EncoderSpec
from graphgym_srnc.core.task import ShiftTask
from graphgym_srnc.gym import build_task, load_config
from graphgym_srnc.methods.erm import ERM
from graphgym_srnc.methods.pgl import PGL
from graphgym_srnc.methods.shared.base import Method
from graphgym_srnc.report.statistics import mean
from graphgym_srnc.train import trainer
from graphgym_srnc.train.metrics import classification_scores

SPEC = EncoderSpec(hidden=64, features="auto")
FINDERS: dict[str, tuple[type[Method], dict[str, Any]]] = {
    "GCN": (ERM, {}),
    "PGL+GCN": (PGL, {"confident": close_set.PGL["pgl.confident"]}),
}
"""Who finds the class on the source, with the options of the table's row."""

CARRIED = {"smoothing": 10, "correction": "mean", "correction_power": 0.75}
"""The corrected GCN of the tables, and SRNC+'s own last step."""

OURS = {
    "srnc-plus-source": "SRNC+, first iteration only",
    "srnc-plus": "SRNC+, with iterations on the target",
}


def alone(task: ShiftTask) -> ShiftTask:
    """The source as one graph, whose unlabelled nodes that are not held out are tested."""
    free = torch.ones(task.source.num_nodes, dtype=torch.bool)
    free[task.train] = False
    pool = free.nonzero().ravel()
    free[task.val] = False
    return replace(
        task,
        target=task.source,
        val_graph=None,
        pool=pool,
        test=free.nonzero().ravel(),
        oracle=None,
    )


def with_decisions(task: ShiftTask, nodes: torch.Tensor, decided: torch.Tensor) -> ShiftTask:
    """Close-set shift of ``N + 1`` classes, with decisions on source nodes as labels."""
    label = task.source.y.clone()
    label[nodes] = decided
    source = Data(x=task.source.x, edge_index=task.source.edge_index, y=label, num_nodes=len(label))
    train = torch.cat([task.train, nodes]).sort().values
    return replace(
        task,
        source=source,
        val_graph=source,
        train=train,
        oracle=None,
        num_known=task.num_known + 1,
        open_set=False,
    )


def run(block: str, row: str, seed: int) -> dict[str, Any]:
    """One finished run."""
    changes = close_set.TABLES["both"][block] | {"seed": seed, "cross_graph.split_seed": seed}
    task = build_task(
        load_config(
            "paper/close_set/citation/erm", [str(word) for pair in changes.items() for word in pair]
        )
    )
    kind, options = FINDERS[row]
    finder, source = kind(encoder=SPEC, **options), alone(task)
    trainer.fit(finder, source, seed=seed)
    decided = finder.decide(finder.predict(task.source))[source.test]
    label = task.source.y[source.test]
    right = (decided == label)[label >= 0]

    carrier = ERM(encoder=SPEC, **CARRIED)
    trainer.fit(carrier, with_decisions(task, source.test, decided), seed=seed, selection="last")
    named = carrier.decide(carrier.predict(task.target))[task.test]
    found = classification_scores(named, task.target.y[task.test], task.num_known, True)
    return {
        "block": block,
        "row": row,
        "seed": seed,
        "on_source": float(right.float().mean()),
        **{metric: found[metric] for metric in ("micro_f1", "macro_recall")},
    }


def table(results: list[dict[str, Any]], csv: Path) -> str:
    """Scores of each row, and SRNC+ less each, by direction and masked class."""
    ours = known(csv, "both")
    cells = {(r["block"], r["seed"]) for r in results}
    rows = {
        row: {(r["block"], r["seed"]): r for r in results if r["row"] == row} for row in FINDERS
    }
    for row, name in OURS.items():
        rows[name] = {cell: ours[cell[0], row][cell[1]]["test"] for cell in cells}
    last = rows[OURS["srnc-plus"]]
    gaps = {
        row: [100 * (last[cell]["micro_f1"] - scores[cell]["micro_f1"]) for cell in scores]
        for row, scores in rows.items()
        if scores is not last
    }
    p, lines = tests(gaps), []
    for row, scores in sorted(
        rows.items(), key=lambda item: -mean(score["micro_f1"] for score in item[1].values())
    ):
        means = [
            f"{100 * mean(score[metric] for score in scores.values()):.1f}"
            if all(metric in score for score in scores.values())
            else "-"
            for metric in ("on_source", "micro_f1", "macro_recall")
        ]
        gap = gaps.get(row, [])
        lines.append(
            [
                row,
                len(scores),
                *means,
                f"{mean(gap):+.1f}" if gap else "-",
                wins(gap) if gap else "-",
                *p.get(row, "--"),
            ]
        )
    return markdown(
        [
            "found on the source by",
            "n",
            "right on the source",
            "Micro-F1",
            "macro recall",
            "SRNC+ less it",
            "wins",
            "p Wilcoxon",
            "Holm",
        ],
        lines,
    )


def begin() -> int:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = options.add_argument
    add("--seeds", type=int, default=5, metavar="S")
    add("--results", type=Path, default=Path("results/source_first.jsonl"))
    add("--csv", type=Path, default=Path("docs/results/data/runs.csv"), help="scores of SRNC+")
    add("--out", type=Path, metavar="FILE", help="write the table here too, as .md or .csv")
    args = options.parse_args()
    torch.set_num_threads(1)
    cells = (
        (block, row, seed)
        for seed in range(args.seeds)
        for block in close_set.TABLES["both"]
        for row in FINDERS
    )
    results = finished(args.results, ("block", "row", "seed"), cells, run)
    publish(table(results, args.csv), args.out)
    return 0


if __name__ == "__main__":
    main(begin)
