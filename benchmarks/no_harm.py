"""Does SRNC+ harm where nothing supports adaptation? Runs it beside a plain GCN.

    python benchmarks/no_harm.py            # run what is missing, and write the table
    python benchmarks/no_harm.py --only Photo

Two situations: no class is without labels although ``open_set`` is asked for, and two graphs, of
which the second may have little homophily. All methods are estimators with their defaults and 64
hidden units. Runs are lines of no-harm-runs.csv. GRAPHGYM_SRNC_DATA names the data folder.
"""

from __future__ import annotations

import argparse
from typing import Any, Callable, NamedTuple, Sequence

import numpy as np
import pandas as pd
import torch
from scores import DATA
from sklearn.metrics import recall_score
from torch_geometric.data import Data
from torch_geometric.utils import subgraph

import graphgym_srnc as package
from graphgym_srnc import shifts
from graphgym_srnc.core import environment
from graphgym_srnc.data import datasets
from graphgym_srnc.report.statistics import mean

RUNS = DATA / "no-harm-runs.csv"
OURS, WITHOUT, GCN = "SRNC+", "SRNC+ without its tests", "GCN"
NO_UNKNOWN = "one graph, a tenth of every class labelled"
BALANCED = "one graph, 20 labels for every class"
PAIRS = "two graphs"


class Problem(NamedTuple):
    """Graphs with their given labels (-1 = none), and the true classes of the predicted graph."""

    source: Data
    target: Data | None
    truth: np.ndarray
    scored: np.ndarray


def partly_labelled(graph: Data, seed: int, count: int = 0, masked: Sequence[int] = ()) -> Problem:
    """One graph with ``count`` labels per class; 0 = a tenth of each class, and at least five.

    Masked classes have no labels, and are -1 in the truth.
    """
    y, draw = graph.y.numpy(), np.random.default_rng(seed)
    truth = np.where(np.isin(y, masked), -1, y)
    given = np.full(len(y), -1)
    for k in np.unique(truth[truth >= 0]):
        nodes = draw.permutation(np.flatnonzero(truth == k))
        given[nodes[: count or max(5, round(0.1 * len(nodes)))]] = k
    labels = torch.from_numpy(given)
    data = Data(x=graph.x, edge_index=graph.edge_index, y=labels, train_mask=labels >= 0)
    return Problem(data, None, truth, (given < 0) & (y >= 0))


def pair(source: Data, target: Data, seed: int) -> Problem:
    """Two graphs; a fifth of the source is held out, and the target has no labels."""
    held_out = torch.from_numpy(np.random.default_rng(seed).random(source.num_nodes) < 0.2)
    masks = {"train_mask": ~held_out, "val_mask": held_out}
    labelled = Data(x=source.x, edge_index=source.edge_index, y=source.y, **masks)
    blind = Data(x=target.x, edge_index=target.edge_index, y=torch.full_like(target.y, -1))
    truth = target.y.numpy()
    return Problem(labelled, blind, truth, truth >= 0)


def blocks(mode: str, homophily: float, imbalance: float, classes: int, seed: int) -> Any:
    """A task of block models."""
    return shifts.find("synthetic")(
        mode=mode,
        homophily=homophily,
        class_imbalance=imbalance,
        num_classes=classes,
        split_seed=seed,
        **({"num_unseen": 1} if mode == "open_set" else {"labels_per_class": -1}),
    )


def halves(graph: Data, seed: int) -> Problem:
    """A graph divided at random into two."""
    first = torch.from_numpy(np.random.default_rng(seed).random(graph.num_nodes) < 0.5)
    parts = []
    for nodes in (first, ~first):
        edges, _ = subgraph(nodes, graph.edge_index, relabel_nodes=True)
        parts.append(Data(x=graph.x[nodes], edge_index=edges, y=graph.y[nodes]))
    return pair(*parts, seed)


def problems() -> dict[tuple[str, str], Callable[[int], Problem]]:
    """Functions that return a problem of a seed, by situation and data."""

    def load(name: str) -> Data:
        return datasets.load(name, "")

    def one_block_model(homophily: float, count: int) -> Callable[[int], Problem]:
        return lambda s: partly_labelled(blocks("open_set", homophily, 3.0, 7, s).source, s, count)

    def two_block_models(homophily: float, *shape: Any) -> Callable[[int], Problem]:
        def build(seed: int) -> Problem:
            task = blocks("close_set", homophily, *shape, seed)
            return pair(task.source, task.target, seed)

        return build

    def networks(source: str, target: str) -> Callable[[int], Problem]:
        return lambda seed: pair(load(source), load(target), seed)

    found: dict[tuple[str, str], Callable[[int], Problem]] = {}
    for situation, count in ((NO_UNKNOWN, 0), (BALANCED, 20)):
        for name, label in {"CitationFull/Cora_ML": "Cora-ML", "Photo": "Photo"}.items():
            one = lambda s, name=name, count=count: partly_labelled(load(name), s, count)  # noqa: E731
            found[situation, label] = one
        for h in (0.5, 0.7, 0.9):
            found[situation, f"block model, homophily {h}"] = one_block_model(h, count)
    usa, brazil, portuguese, russian = "Airports/USA", "Airports/Brazil", "Twitch/PT", "Twitch/RU"
    found[PAIRS, "airports, USA to Brazil"] = networks(usa, brazil)
    found[PAIRS, "airports, Brazil to USA"] = networks(brazil, usa)
    found[PAIRS, "Twitch, PT to RU"] = networks(portuguese, russian)
    found[PAIRS, "Twitch, RU to PT"] = networks(russian, portuguese)
    for h in (0.2, 0.35, 0.5, 0.7, 0.9):
        found[PAIRS, f"block models, homophily {h}"] = two_block_models(h, 3.0, 7)
        found[PAIRS, f"unbalanced block models, homophily {h}"] = two_block_models(h, 20.0, 5)
    found[PAIRS, "halves of Photo"] = lambda seed: halves(load("Photo"), seed)
    return found


def fitted(method: str, problem: Problem, seed: int) -> Any:
    """An estimator that has learned the labels of a problem."""
    two, same = problem.target is not None, {"random_state": seed, "hidden": 64}
    same |= {"open_set": problem.target is None}
    if method == GCN:  # between two graphs no target label selects a step
        model = package.ERM(**same, **({"selection": "last"} if two else {}))
    else:
        model = package.SRNCPlus(**same, abstain=method == OURS)
    return model.fit(problem.source, problem.target) if two else model.fit(problem.source)


def run(situation: str, data: str, method: str, seed: int) -> dict[str, Any]:
    """One line of the file of runs."""
    problem = problems()[situation, data](seed)
    model = fitted(method, problem, seed)
    found = np.asarray(model.predict(problem.target or problem.source))[problem.scored]
    true = problem.truth[problem.scored]
    scores = {
        "Micro-F1": (found == true).mean(),
        "macro recall": recall_score(true, found, average="macro", labels=np.unique(true)),
        "predicted unknown": (found < 0).mean(),
    }
    return {
        "situation": situation,
        "data": data,
        "method": method,
        "seed": seed,
        **{key: round(100 * float(value), 2) for key, value in scores.items()},
        "warned": bool(model.verdict_["sentences"]),
        "commit": str(environment.commit())[:7],
    }


def table(runs: pd.DataFrame) -> None:
    """Write means of the methods, and the worst difference between SRNC+ and the GCN of a seed."""
    lines = []
    for (situation, data), part in runs.groupby(["situation", "data"], sort=False):
        ours, gcn = (part[part.method == m].set_index("seed") for m in (OURS, GCN))
        line = {"situation": situation, "data": data, "n": len(ours)}
        for method in (OURS, WITHOUT, GCN):
            rows = part[part.method == method]
            scores = (mean(rows[key].tolist()) for key in ("Micro-F1", "macro recall"))
            line[method] = " / ".join(f"{score:.1f}" for score in scores)
        gaps = (ours[key] - gcn[key] for key in ("Micro-F1", "macro recall"))
        line["worst difference"] = " / ".join(f"{gap.min():+.1f}" for gap in gaps)
        line["most predicted unknown"] = f"{ours['predicted unknown'].max():.1f}"
        lines.append(line | {"source": f"commit {', '.join(sorted(set(part.commit)))}"})
    pd.DataFrame(lines).to_csv(DATA / "no-harm.csv", index=False, lineterminator="\n")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="", help="run data with this text in their name alone")
    parser.add_argument("--seeds", type=int, default=5, help="number of seeds (default: 5)")
    args = parser.parse_args()
    torch.set_num_threads(1)
    keys = ["situation", "data", "method", "seed"]
    runs = pd.read_csv(RUNS) if RUNS.exists() else pd.DataFrame(columns=keys)
    done = set(runs[keys].itertuples(index=False, name=None))
    for situation, data in problems():
        for seed in range(args.seeds if args.only in data else 0):
            for method in (OURS, GCN, WITHOUT):
                if (situation, data, method, seed) not in done:
                    line = pd.DataFrame([run(situation, data, method, seed)])
                    line.to_csv(RUNS, mode="a", header=not RUNS.exists(), index=False)
                    print(line.to_string(index=False, header=False), flush=True)
    order = {key: i for i, key in enumerate(problems())}
    runs = pd.read_csv(RUNS)
    place = [order[key] for key in zip(runs.situation, runs.data)]
    runs = runs.assign(place=place).sort_values(["place", "method", "seed"]).drop(columns="place")
    runs.to_csv(RUNS, index=False, lineterminator="\n")
    table(runs)


if __name__ == "__main__":
    main()
