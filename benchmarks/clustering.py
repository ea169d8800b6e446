"""The paper's clustering table on Cora and CiteSeer: k-means with labels on four embeddings beside
the cluster GNN of SRNC.

    python benchmarks/clustering.py --runs 5 --out docs/results/data/clustering.csv   # 7 rows
    python benchmarks/clustering.py --runs 1 --only 'cora:*'
    graphgym-srnc compare results/clustering --paper clustering --by paper clusters

Three classes are masked and 20 nodes of each other class are labelled; labelled nodes are never
scored. The paper says neither how many clusters it takes nor which nodes it scores, so both numbers
of clusters and all three sets of nodes are here. What is finished in ``--results`` is not run
again. GRAPHGYM_SRNC_DATA names the data folder.
"""

from __future__ import annotations

import argparse
import time
from functools import partial
from typing import Any, NamedTuple, Sequence

import torch
from _harness import Results, chosen, main, markdown, parser, publish

from graphgym_srnc import gym
from graphgym_srnc.core.progress import GridProgress
from graphgym_srnc.gym.config import dump_config
from graphgym_srnc.io import store
from graphgym_srnc.methods.shared.training import hidden_and_group
from graphgym_srnc.own import clustering
from graphgym_srnc.report.paper import CLUSTERING
from graphgym_srnc.report.statistics import mean, mean_std
from graphgym_srnc.sweep import local
from graphgym_srnc.sweep.jobs import Job, Limits
from graphgym_srnc.train.metrics import clustering_scores

GRAPHS = {"cora": ("Cora", 7), "citeseer": ("CiteSeer", 6)}
"""Name in print and true number of classes."""

MANY = 16

ROWS = {
    "features": "node features",
    "deepwalk": "DeepWalk",
    "node2vec": "node2vec",
    "dgi": "DGI",
    "srnc-no-source": "SRNC w.o. L_Φ,θ,S",
    "srnc": "SRNC",
    "srnc-plus": "SRNC+, its classes and k-means in its unknown nodes",
}

SRNC = ("srnc-no-source", "srnc", "srnc-plus")
"""Rows that train a method, of ``paper/clustering/<graph>-<row>``; the others are embeddings. The
first two read the clusters of its cluster GNN. The last one takes the known classes that SRNC+
names as they are, and splits the nodes that it calls unknown by k-means on the hidden state of its
first cluster GNN into as many clusters as are left."""

SCORED = ("all", "test", "unseen")


class Row(NamedTuple):
    """One row on one graph; ``words`` override the config."""

    graph: str
    row: str
    kmeans: dict[str, Any]
    words: tuple[str, ...]

    @property
    def counts(self) -> tuple[int, int]:
        """The numbers of clusters."""
        return GRAPHS[self.graph][1], MANY

    def config(self, clusters: int, seed: int = 0) -> Any:
        """The config of the task and, for the cluster GNN, of its training."""
        changes = {"seed": seed, "num_threads": 1}
        if self.row != "srnc-plus":
            changes["srnc.num_clusters"] = clusters
        name = f"paper/clustering/{self.graph}-{self.row if self.row in SRNC else 'srnc'}"
        words = [word for item in changes.items() for word in item]
        return gym.load_config(name, [*words, *self.words])

    def experiment(self, out_dir: str, clusters: int) -> store.Experiment:
        """Where the runs with a number of clusters are stored; its config is all that decides the
        result."""
        cfg = self.config(clusters)
        trained = {"train", cfg.train.mode} if self.row in SRNC else set()
        unused = set(gym.schema()) - {"dataset", cfg.dataset.format} - trained
        config = {key: value for key, value in cfg.items() if key not in unused}
        config |= {"row": self.row, "kmeans": self.kmeans, "clusters": clusters}
        name = f"{self.graph}-{self.row}-clusters={clusters}"
        return store.Experiment(out_dir, name, config, dump_config(cfg))

    def results(self, args: argparse.Namespace, clusters: int) -> Results:
        """The finished runs with a number of clusters."""
        experiment = self.experiment(args.out_dir, clusters)
        results = {seed: experiment.result(seed) for seed in range(args.runs)}
        return {seed: result for seed, result in results.items() if result}


def clusters_of(row: Row, seed: int, task: Any) -> dict[int, Any]:
    """The cluster of each node, by number of clusters."""
    found, blind = {}, task.blind()
    if row.row == "srnc-plus":
        method, _ = gym.fit(row.config(MANY, seed), task)
        named = method.decide(method.predict(blind.target))
        features = method.cluster_spec.features
        hidden, _ = hidden_and_group(method.density.clusters[0].encoder, features, blind.target)
        split = partial(clustering.split_unknown, named, task.num_known, hidden, seed=seed)
        return {count: split(count) for count in row.counts}
    if row.row in SRNC:
        for count in row.counts:
            method, _ = gym.fit(row.config(count, seed), task)
            clusters = method.clusters
            found[count] = clusters.log_posterior(clusters.target).argmax(1)
        return found
    z = clustering.embed(blind.target, row.row, seed)
    for count in row.counts:
        labels = blind.train, blind.source.y[blind.train]
        found[count] = clustering.constrained_kmeans(
            z, count, *labels, seed=seed, **row.kmeans
        ).cluster
    return found


def scored_nodes(task: Any) -> dict[str, Any]:
    """Ids of the nodes that are scored: all but the labelled ones, the test nodes, those of masked
    classes."""
    free = task.target.y_true >= 0
    free[task.train] = False
    unseen = free & (task.target.y == task.unknown)
    return {"all": free.nonzero().view(-1), "test": task.test, "unseen": unseen.nonzero().view(-1)}


def execute(job: Job) -> str:
    """Cluster, score, and store a record for each number of clusters; nothing in it was chosen on
    validation."""
    torch.set_num_threads(1)
    begin, row = time.perf_counter(), Row(**job.varied)
    cfg = row.config(MANY, job.seed)
    task = gym.build_task(cfg)
    nodes, y = scored_nodes(task), task.target.y_true
    clusters = clusters_of(row, job.seed, task)
    seconds = time.perf_counter() - begin
    for count, cluster in clusters.items():
        scores = {name: clustering_scores(cluster[ids], y[ids]) for name, ids in nodes.items()}
        test = scores.pop("all") | {
            f"{metric}_{name}": value
            for name, part in scores.items()
            for metric, value in part.items()
        }
        experiment = row.experiment(job.out_dir, count)
        with experiment.claim(job.seed):
            experiment.begin(job.seed)
            experiment.finish(
                job.seed,
                {
                    "method": "srnc" if row.row in SRNC else row.row,
                    "backbone": cfg.gnn.layer_type,
                    "task": task.name,
                    "split": task.fingerprint(),
                    "selected": 0,
                    "warnings": [],
                    "lr": cfg.optim.base_lr,
                    "params": 0,
                    "val": {},
                    "test": test,
                    "seconds": seconds,
                    "history": [{"number": 0, "losses": {}, "train": {}, "val": {}, "test": test}],
                },
            )
    return f"{seconds:.0f} s"


def run(rows: Sequence[Row], args: argparse.Namespace) -> int:
    """Run what is missing; returns how many runs failed."""
    jobs = []
    for row in rows:
        done = [row.results(args, count) for count in row.counts]
        jobs += [
            Job(str(args.out_dir), f"{row.graph}-{row.row}", seed, "", "", row._asdict(), {})
            for seed in range(args.runs)
            if not all(seed in results for results in done)
        ]
    print(f"{len(rows) * args.runs} runs, {len(jobs)} to run", flush=True)
    with GridProgress(len(jobs)) as progress:
        for outcome in local.run(jobs, execute, Limits(), args.jobs):
            line = outcome.message.strip().splitlines()[-1]
            progress.finish(
                f"{outcome.job.name}, seed {outcome.job.seed}: {line}", outcome.state != "done"
            )
    return progress.failed


def spread(values: Sequence[float]) -> str:
    """Mean ± population standard deviation, in %."""
    return "{:.1f} ± {:.1f}".format(*mean_std([100 * value for value in values]))


def table(rows: Sequence[Row], args: argparse.Namespace) -> str:
    """A table for each graph, a line for each row and number of clusters."""
    text, commits = "", set()
    for graph, (name, classes) in GRAPHS.items():
        lines = []
        for count in (classes, MANY):
            for row in [row for row in rows if row.graph == graph]:
                results = list(row.results(args, count).values())
                if not results:
                    continue
                commits |= {str(result["commit"]) for result in results}
                keys = [
                    metric + (f"_{nodes}" if nodes != "all" else "")
                    for nodes in SCORED
                    for metric in ("acc", "nmi")
                ]
                cells = [spread([result["test"][key] for result in results]) for key in keys]
                seconds = mean(result["seconds"] for result in results)
                paper = CLUSTERING.find(ROWS[row.row], name).values()
                lines.append(
                    [
                        ROWS[row.row],
                        count,
                        len(results),
                        *cells,
                        " / ".join(f"{score.mean:.2f}" for score in paper) or "-",
                        f"{seconds:.0f}",
                    ]
                )
        if lines:
            columns = [f"{metric} {nodes}" for nodes in SCORED for metric in ("ACC", "NMI")]
            head = ["method", "C", "n", *columns, "paper ACC / NMI", "s a run"]
            text += f"## {name}\n\n" + markdown(head, lines)
    if not text:
        return "no results yet\n"
    options = ", ".join(f"{key} {value}" for key, value in rows[0].kmeans.items())
    return text + (
        "ACC and NMI in %, mean ± population standard deviation over split seeds 0 to"
        f" {args.runs - 1}; labelled nodes are not scored, unseen = all nodes of masked classes;"
        " ACC by the best one-to-one map of clusters to classes among the nodes scored."
        f" Embeddings: k-means ({options}). Seconds are for both numbers of clusters. Commit"
        f" {', '.join(sorted(commits))}; 1 thread a run.\n"
    )


def begin() -> int:
    options = parser(__doc__, "--results", "results/clustering")
    add = options.add_argument
    add(
        "--runs",
        type=int,
        default=10,
        metavar="R",
        help="split seeds 0 to R - 1 (default: %(default)s)",
    )
    add("--only", default="*", metavar="GRAPH:ROW,...", help=f"patterns; rows: {', '.join(ROWS)}")
    add("--variant", default="constrained", choices=("constrained", "seeded"), help="of k-means")
    add(
        "--spherical",
        action="store_true",
        help="k-means by cosine; wants other --results, as does --variant",
    )
    args = options.parse_args()
    kmeans = {"variant": args.variant, "spherical": args.spherical, "restarts": 10}
    rows = [
        Row(graph, row, kmeans, tuple(args.set))
        for graph in GRAPHS
        for row in ROWS
        if chosen(args.only, graph, row)
    ]
    if not rows:
        options.error(f"--only {args.only}: matches no row")
    failed = 0 if args.no_run else run(rows, args)
    publish(table(rows, args), args.out)
    return min(failed, 1)


if __name__ == "__main__":
    main(begin)
