"""Own graphs with a tenth of the nodes labelled: SRNC+ beside rivals with the same rights.

    python benchmarks/own_graphs.py Cora CiteSeer    # run what is missing, and write the table

Every method is an estimator with its defaults and 64 hidden units, and sees the same labels. The
threshold of each method may follow the estimated share of unknown nodes, and is also measured at
its default. Runs are lines of own-graphs-runs.csv, from which the tables of docs/results are made.
GRAPHGYM_SRNC_DATA names the data folder.
"""

from __future__ import annotations

import argparse
import time
from typing import Any, Callable

import numpy as np
import pandas as pd
import torch
from no_harm import Problem, partly_labelled
from scores import DATA
from sklearn.metrics import recall_score, roc_auc_score

import graphgym_srnc as package
from graphgym_srnc.core import environment
from graphgym_srnc.data import datasets
from graphgym_srnc.report.statistics import mean, mean_std
from graphgym_srnc.shifts import splits

GRAPHS = {"Photo": 3, "CS": 5, "Cora": 3, "CiteSeer": 3, "PubMed": 1}
"""Graphs, and their numbers of masked classes."""

OURS, SPLITS = "SRNC+", 10
METHODS: dict[str, Callable[[int], Any]] = {
    OURS: lambda seed: package.SRNCPlus(random_state=seed, open_set=True),
    "PGL+GCN, threshold by unknown share": lambda seed: package.PGL(
        random_state=seed, open_set=True, hidden=64, cut="share"
    ),
    "PGL+GCN": lambda seed: package.PGL(random_state=seed, open_set=True, hidden=64),
    "PGL on hop features, threshold by unknown share": lambda seed: package.PGL(
        random_state=seed, open_set=True, hidden=64, cut="share", backbone="sign"
    ),
    "MLP on hop features, threshold by unknown share": lambda seed: package.ERM(
        random_state=seed, open_set=True, hidden=64, cut="share", backbone="sign"
    ),
    "GCN, threshold by unknown share": lambda seed: package.ERM(
        random_state=seed, open_set=True, hidden=64, cut="share"
    ),
    "GCN": lambda seed: package.ERM(random_state=seed, open_set=True, hidden=64),
}
RUNS = DATA / "own-graphs-runs.csv"
SCORES = ["Micro-F1", "macro recall", "unknown recall", "unknown precision", "AUROC"]


def split(name: str, seed: int) -> Problem:
    """A graph with masked classes, and a tenth of the nodes of the others labelled."""
    data = datasets.load(name, "")
    masked = splits.choose_unseen(splits.classes_of(data.y), GRAPHS[name], [], seed)
    return partly_labelled(data, seed, masked=masked)


def run(name: str, method: str, seed: int) -> dict[str, Any]:
    """One line of the file of runs."""
    graph, _, truth, scored = split(name, seed)
    model, begin = METHODS[method](seed), time.process_time()
    model.fit(graph)
    seconds = time.process_time() - begin
    found, true = np.asarray(model.predict(graph))[scored], truth[scored]
    unknown, called = true < 0, found < 0
    hits = float((unknown & called).sum())
    sure = np.asarray(model.predict_proba(graph))[scored, -1]
    scores = {
        "Micro-F1": (found == true).mean(),
        "macro recall": recall_score(true, found, average="macro", labels=np.unique(true)),
        "unknown recall": hits / max(unknown.sum(), 1),
        "unknown precision": hits / max(called.sum(), 1),
        "AUROC": roc_auc_score(unknown, sure),
        "unknown share error": abs(called.mean() - unknown.mean()),
    }
    return {
        "graph": name,
        "method": method,
        "split": seed,
        **{key: round(100 * float(value), 2) for key, value in scores.items()},
        "diagnostics": len(model.verdict_["sentences"]),
        "CPU s": round(seconds, 1),
        "commit": str(environment.commit())[:7],
    }


def table(runs: pd.DataFrame) -> None:
    """Write the table of methods on the graphs with all their runs."""
    rows = []
    for name, of_graph in runs.groupby("graph", sort=False):
        for method, part in of_graph.groupby("method", sort=False):
            if len(part) < SPLITS:
                continue
            row = {"graph": name, "method": method, "n": len(part)}
            for key in SCORES:
                centre, error = mean_std(part[key].tolist())
                row |= {key: f"{centre:.1f}", f"{key} ±": f"{error:.1f}"}
            row["unknown share error"] = f"{mean(part['unknown share error'].tolist()):.1f}"
            row["runs with a diagnostic"] = f"{(part.diagnostics > 0).sum()}/{len(part)}"
            row["CPU s"] = f"{part['CPU s'].median():.0f}"
            rows.append(row | {"source": f"commit {', '.join(sorted(set(part.commit)))}"})
    pd.DataFrame(rows).to_csv(DATA / "own-graphs.csv", index=False, lineterminator="\n")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("graphs", nargs="*", help=f"{', '.join(GRAPHS)} (default: all)")
    args = parser.parse_args()
    torch.set_num_threads(1)
    known = pd.read_csv(RUNS) if RUNS.exists() else pd.DataFrame(columns=["graph"])
    done = set() if known.empty else set(zip(known.graph, known.method, known.split))
    for name in args.graphs or GRAPHS:
        for seed in range(SPLITS):
            for method in METHODS:
                if (name, method, seed) not in done:
                    line = pd.DataFrame([run(name, method, seed)])
                    line.to_csv(RUNS, mode="a", header=not RUNS.exists(), index=False)
                    print(line.to_string(index=False, header=False), flush=True)
    runs = pd.read_csv(RUNS)
    order = [list(GRAPHS).index(name) for name in runs.graph]
    rank = [list(METHODS).index(name) for name in runs.method]
    runs = runs.assign(order=order, rank=rank).sort_values(["order", "rank", "split"])
    runs.drop(columns=["order", "rank"]).to_csv(RUNS, index=False, lineterminator="\n")
    table(runs)


if __name__ == "__main__":
    main()
