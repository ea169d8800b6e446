"""A graph of one's own, as most have it: a tenth of the nodes of known classes has a label, nobody
has labelled a node of an unknown class. What does each estimator of the Python API make of it?

    python benchmarks/own.py --seeds 10 --out docs/results/data/own-graphs.csv
    python benchmarks/own.py --seeds 2 --only Photo,CS --results own.jsonl

Estimators have their defaults, 64 hidden units each. All nodes without a label are scored. A line
of `--results` is a finished run, which is not made again. `homophily-0.7` is a block model with
that homophily. GRAPHGYM_SRNC_DATA names the data folder.
"""

from __future__ import annotations

import argparse
import math
import time
import warnings
from collections import defaultdict
from pathlib import Path
from typing import Any

from _harness import finished, main, markdown, publish, wins

from graphgym_srnc.report.statistics import mean, mean_std, p_value

UNSEEN = {"Cora": 3, "CiteSeer": 3, "PubMed": 1, "Photo": 3, "CS": 5}
LABELLED = 0.1
SCORES = ("micro_f1", "macro_recall", "unknown_recall", "unknown_precision", "unknown_auroc")
NAMES = ("Micro-F1", "macro recall", "unknown recall", "unknown precision", "AUROC")
HIDDEN_WIDTH = 64
METHODS = {"GCN": "ERM", "PGL+GCN": "PGL", "SRNC+": "SRNCPlus"}

SYNTHETIC = "homophily-"
"""What the name of a synthetic graph begins with: 3,000 nodes, seven classes, three of them
masked."""


def estimators() -> dict[str, Any]:
    """An estimator a row."""
    import graphgym_srnc

    return {row: getattr(graphgym_srnc, kind)(hidden=HIDDEN_WIDTH) for row, kind in METHODS.items()}


def graph_of(name: str, seed: int) -> tuple[Any, Any]:
    """A graph whose masked classes and labelled nodes ``seed`` draws, and all of its classes."""
    import numpy as np
    import torch
    from torch_geometric.data import Data

    from graphgym_srnc.data import datasets, home
    from graphgym_srnc.shifts import splits, synthetic

    if name.startswith(SYNTHETIC):
        made = synthetic.build(
            num_nodes=3000,
            num_classes=7,
            class_imbalance=3.0,
            split_seed=seed,
            homophily=float(name.removeprefix(SYNTHETIC)),
        ).target
        data = Data(x=made.x, edge_index=made.edge_index, y=made.y_true)
    else:
        data = datasets.load(name, str(home.data_folder()))
    masked = splits.choose_unseen(splits.classes_of(data.y), UNSEEN.get(name, 3), [], seed)
    rng = np.random.RandomState(seed)
    train = torch.zeros(data.num_nodes, dtype=torch.bool)
    for label in sorted({*splits.classes_of(data.y)} - {*masked}):
        nodes = rng.permutation((data.y == label).nonzero().ravel().numpy())
        train[nodes[: max(5, round(LABELLED * len(nodes)))]] = True
    y = torch.where(train, data.y, -1)
    truth = data.y.clone()
    truth[torch.isin(truth, torch.tensor(masked))] = -1
    return Data(x=data.x, edge_index=data.edge_index, y=y, train_mask=train), truth


def run(name: str, row: str, seed: int) -> dict[str, Any]:
    """Scores of one fit."""
    import torch

    from graphgym_srnc.train.metrics import classification_scores, detection_scores

    torch.set_num_threads(1)
    graph, truth = graph_of(name, seed)
    estimator = estimators()[row].set_params(open_set=True, random_state=seed)
    begin = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        estimator.fit(graph)
    seconds = time.process_time() - begin

    known = {int(label): place for place, label in enumerate(estimator.classes_[:-1])}
    label = torch.tensor([known.get(int(c), len(known)) for c in truth])
    rest = ~graph.train_mask
    scores = estimator._scores(graph)[rest]
    decided = estimator.method_.decide(scores)
    found = classification_scores(decided, label[rest], len(known), True)
    unknown = label[rest] == len(known)
    named = scores[:, : len(known)].argmax(1) == label[rest]
    found |= detection_scores(estimator.method_.confidence(scores), unknown, named)
    share = float((decided == len(known)).double().mean() - unknown.double().mean())
    return {
        "graph": name,
        "row": row,
        "seed": seed,
        "seconds": seconds,
        "excess": share,
        "verdict": sorted(estimator.verdict_["sentences"]),
    } | {score: found[score] for score in SCORES}


def table(results: list[dict[str, Any]]) -> str:
    """A table a graph, the leader first."""
    out = ""
    by_graph: dict[str, dict[str, list[dict[str, Any]]]] = defaultdict(lambda: defaultdict(list))
    for result in results:
        by_graph[result["graph"]][result["row"]].append(result)
    for name, rows in by_graph.items():
        lines = []
        for row in sorted(rows, key=lambda row: -mean(r["micro_f1"] for r in rows[row])):
            runs = rows[row]
            cells = [
                "{:.1f} ± {:.1f}".format(*mean_std([100 * r[score] for r in runs]))
                for score in SCORES
            ]
            excess = mean(abs(100 * r["excess"]) for r in runs)
            spoke = sum(bool(r["verdict"]) for r in runs)
            seconds = mean(r["seconds"] for r in runs)
            lines.append(
                [row, len(runs), *cells, f"{excess:.1f}", f"{spoke}/{len(runs)}", f"{seconds:.0f}"]
            )
        out += f"### {name}\n\n" + markdown(
            ["method", "n", *NAMES, "unknown share error", "runs with a diagnostic", "CPU s"], lines
        )
    return out + paired(by_graph)


def paired(by_graph: dict[str, dict[str, list[dict[str, Any]]]]) -> str:
    """SRNC+ less each other row on the same splits, mean ± standard error."""
    lines = []
    for name, rows in by_graph.items():
        ours = {r["seed"]: r["micro_f1"] for r in rows.get("SRNC+", [])}
        for row in rows.keys() - {"SRNC+"} if ours else ():
            gaps = [100 * (ours[r["seed"]] - r["micro_f1"]) for r in rows[row] if r["seed"] in ours]
            centre, std = mean_std(gaps)
            error = std / math.sqrt(len(gaps) - 1) if len(gaps) > 1 else math.nan
            lines.append(
                [
                    name,
                    row,
                    len(gaps),
                    f"{centre:+.1f} ± {error:.1f}",
                    wins(gaps),
                    f"{p_value(gaps):.2g}",
                ]
            )
    head = ["graph", "against", "n", "difference", "wins", "p"]
    return "## Paired differences\n\n" + markdown(head, sorted(lines)) if lines else ""


def begin() -> int:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--seeds", type=int, default=5, metavar="S")
    options.add_argument("--only", default=",".join(UNSEEN), metavar="GRAPH,...")
    options.add_argument("--rows", default=",".join(METHODS), metavar="ROW,...")
    options.add_argument("--results", type=Path, default=Path("results/own.jsonl"))
    options.add_argument("--out", type=Path)
    args = options.parse_args()
    cells = (
        (name, row, seed)
        for seed in range(args.seeds)
        for name in args.only.split(",")
        for row in args.rows.split(",")
    )
    results = finished(args.results, ("graph", "row", "seed"), cells, run)
    publish(table(results), args.out)
    return 0


if __name__ == "__main__":
    main(begin)
