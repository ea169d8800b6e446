"""What `graphgym-srnc discover` finds where the truth is known: clusters of masked classes, and the
number of clusters.

    python benchmarks/discover.py --runs 10 --out docs/results/data/discover.csv
    python benchmarks/discover.py --runs 10 --no-run           # only what is there
    python benchmarks/discover.py --runs 2 --only pubmed

Every run is stored in `--results` as by `graphgym-srnc run`, so each can be repeated by hand, and
looked at by `graphgym-srnc discover`. Labelled nodes are never scored. With the true number of
clusters the scores are those of the paper's appendix; the evidence does not know it.
GRAPHGYM_SRNC_DATA names the data folder.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from _harness import Cell, main, parser, serve

from graphgym_srnc.core.text import markdown
from graphgym_srnc.report.statistics import mean_std

PAPER = {"cora": "74.25 / 56.87", "citeseer": "49.16 / 46.22"}


def experiments(runs: int) -> dict[str, list[Cell]]:
    """By group: three masked classes of Cora and CiteSeer, one of PubMed, and synthetic graphs of 4
    to 10 classes of which 1 to 3 are masked."""
    configs = {
        "cora": "paper/clustering/cora-srnc-plus",
        "citeseer": "paper/clustering/citeseer-srnc-plus",
        "pubmed": "paper/open_set/pubmed-srnc-plus",
    }
    groups = {graph: [Cell("", graph, cfg, {}, range(runs))] for graph, cfg in configs.items()}
    groups["synthetic"] = []
    for seed in range(runs):
        classes = 4 + seed % 7
        unseen = min(1 + seed % 3, classes - 2)
        changes = {
            "dataset.format": "synthetic",
            "synthetic.num_classes": classes,
            "synthetic.num_unseen": unseen,
        }
        groups["synthetic"].append(
            Cell(
                "", f"synthetic-{classes}-{unseen}", configs["cora"], changes, range(seed, seed + 1)
            )
        )
    return groups


def look(run: Path, rival: bool) -> dict[str, Any] | None:
    """Scores and evidence of a finished run; with ``rival`` also of k-means with labels on DGI."""
    import torch

    from graphgym_srnc.core.errors import InputError
    from graphgym_srnc.gym import model as models
    from graphgym_srnc.own.discover import clusters, evidence, scores
    from graphgym_srnc.own.discover.states import states

    torch.set_num_threads(1)
    try:
        model = models.load(run)
    except InputError:
        return None
    task = model.task()
    graph, y = task.target, task.target.y_true
    true = len(y[y >= 0].unique())
    posterior = model.predict(graph).posterior
    state = states(graph, posterior)
    told = evidence.gather(graph, posterior, state)
    free = y >= 0
    free[task.train] = False
    rest = (y, graph.y == task.unknown, free.nonzero().view(-1))
    found = {
        "discover": scores.rate(clusters.find(graph, posterior, true, state=state), *rest),
        "discover, number by stability": scores.rate(
            clusters.find(graph, posterior, told.stability.suggestion, state=state), *rest
        ),
    }
    test = torch.zeros_like(free).index_fill(0, task.test, True) & free
    on_test = scores.rate(
        clusters.find(graph, posterior, true, state=state), *rest[:2], test.nonzero().view(-1)
    )
    found["discover"] |= {f"test_{name}": on_test[name] for name in ("acc", "nmi")}
    if rival:
        found["DGI, k-means with labels"] = dgi(task, true, *rest)
    return {
        "true": true,
        "suggestions": [curve.suggestion for curve in told],
        "bracket": told.bracket,
        "scores": found,
    }


def dgi(task: Any, count: int, y: Any, unseen: Any, nodes: Any) -> dict[str, float]:
    """ACC, NMI and the consistency of typical nodes of the paper's rival, which ranks no
    clusters."""
    from graphgym_srnc.own import clustering
    from graphgym_srnc.own.discover.clusters import nearest
    from graphgym_srnc.own.discover.scores import consistency
    from graphgym_srnc.train.metrics import clustering_scores

    blind = task.blind()
    z = clustering.embed(blind.target, "dgi", 0)
    made = clustering.constrained_kmeans(z, count, blind.train, blind.source.y[blind.train], seed=0)
    fit, hidden = nearest(z, made.centroids)[1], nodes[unseen[nodes]]
    own = [nodes[made.cluster[nodes] == k] for k in range(task.num_known, count)]
    return (
        clustering_scores(made.cluster[nodes], y[nodes])
        | {
            f"unseen_{name}": value
            for name, value in clustering_scores(made.cluster[hidden], y[hidden]).items()
        }
        | {"consistency": consistency([n[fit[n].argsort(descending=True)] for n in own], y)}
    )


def begin() -> int:
    """Run, score, print."""
    options = parser(__doc__, "--results", "results/discover")
    options.add_argument(
        "--runs", type=int, default=10, help="split seeds 0, 1, ... of each group (default: 10)"
    )
    options.add_argument(
        "--only",
        default="cora,citeseer,synthetic",
        help="groups (default: cora,citeseer,synthetic; there is pubmed)",
    )
    options.add_argument(
        "--rival",
        action="store_true",
        help="also k-means with labels on DGI, which trains DGI for each run",
    )
    args = options.parse_args()
    every = [
        (group, cell)
        for group, cells in experiments(args.runs).items()
        if group in args.only.split(",")
        for cell in cells
    ]

    def text(args: argparse.Namespace) -> str:
        seen: dict[str, list[dict[str, Any]]] = {}
        for group, cell in every:
            for seed in cell.seeds:
                run = args.out_dir / cell.name / str(seed)
                result = look(run, args.rival and group in PAPER)
                if result is not None:
                    seen.setdefault(group, []).append(result | {"name": f"{cell.name} {seed}"})
        return tables(seen)

    return serve(args, [cell for _, cell in every], text)


def tables(seen: dict[str, list[dict[str, Any]]]) -> str:
    """Both tables in Markdown."""
    keys = {
        "acc": "ACC all",
        "nmi": "NMI all",
        "test_acc": "ACC test",
        "test_nmi": "NMI test",
        "unseen_acc": "ACC unseen",
        "unseen_nmi": "NMI unseen",
        "ap_nodes": "AP nodes",
        "share_unseen": "chance",
        "ap_clusters": "AP clusters",
        "consistency": "consistency",
    }
    lines = [["graph", "row", "n", *keys.values(), "paper ACC / NMI"]]
    for group, results in seen.items():
        for row in results[0]["scores"]:
            cells = []
            for key in keys:
                values = [
                    100 * result["scores"][row][key]
                    for result in results
                    if key in result["scores"][row]
                ]
                cells.append("{:.1f} ± {:.1f}".format(*mean_std(values)) if values else "-")
            lines.append([group, row, str(len(results)), *cells, PAPER.get(group, "-")])
    out = [markdown(lines)]
    lines = [["graph", "true", "eigengap", "modularity", "stability", "bracket", "holds the truth"]]
    for results in seen.values():
        for result in results:
            low, high = result["bracket"]
            lines.append(
                [
                    result["name"],
                    *map(str, (result["true"], *result["suggestions"])),
                    f"{low} to {high}",
                    "yes" if low <= result["true"] <= high else "no",
                ]
            )
    return "\n".join([*out, markdown(lines)])


if __name__ == "__main__":
    main(begin)
