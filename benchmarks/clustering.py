"""The paper's clustering table on Cora and CiteSeer: k-means with labels on four embeddings beside the cluster GNN of SRNC.

    python benchmarks/clustering.py --out clustering.md           # 7 rows, 2 graphs, split seeds 0 to 9
    python benchmarks/clustering.py --runs 1 --only 'cora:*'
    python benchmarks/clustering.py --no-run --records records && graphgym-srnc compare records --paper clustering --by paper clusters

Three classes are masked and 20 nodes of each other class are labelled; labelled nodes are never scored. The paper says neither how many
clusters it takes nor which nodes it scores, so both numbers of clusters and all three sets of nodes are here. Each run is a file in
``--results``; what is there is not run again. GRAPHGYM_SRNC_DATA names the data folder.
"""
from __future__ import annotations

import argparse
import json
import math
import multiprocessing
import os
import sys
import time
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, NamedTuple, Sequence

from graphgym_srnc.report.paper import CLUSTERING
from graphgym_srnc.report.statistics import mean_std

GRAPHS = {"cora": ("Cora", 7), "citeseer": ("CiteSeer", 6)}
"""Name in print and true number of classes."""

MANY = 16

ROWS = {"features": "node features", "deepwalk": "DeepWalk", "node2vec": "node2vec", "dgi": "DGI",
        "srnc-no-source": "SRNC w.o. L_Φ,θ,S", "srnc": "SRNC", "srnc-plus": "SRNC+, its classes and k-means in its unknown nodes"}

SRNC = ("srnc-no-source", "srnc", "srnc-plus")
"""Rows that train a method, of ``paper/clustering/<graph>-<row>``; the others are embeddings. The first two read the clusters of its
cluster GNN. The last one takes the known classes that SRNC+ names as they are, and splits the nodes that it calls unknown by k-means on
the hidden state of its first cluster GNN into as many clusters as are left."""

SCORED = ("all", "test", "unseen")


class Job(NamedTuple):
    """One row on one split of one graph; ``words`` override the config."""

    graph: str
    row: str
    seed: int
    kmeans: dict[str, Any]
    words: tuple[str, ...]

    @property
    def name(self) -> str:
        return f"{self.graph}-{self.row}-{self.seed}"

    def config(self, clusters: int) -> Any:
        """The config of the task and, for the cluster GNN, of its training."""
        from graphgym_srnc.gym import load_config
        changes = {"seed": self.seed, "num_threads": 1} | ({} if self.row == "srnc-plus" else {"srnc.num_clusters": clusters})
        name = f"paper/clustering/{self.graph}-{self.row if self.row in SRNC else 'srnc'}"
        return load_config(name, [str(word) for item in changes.items() for word in item] + list(self.words))

    def settings(self, clusters: int) -> dict[str, Any]:
        """All that decides the result."""
        from graphgym_srnc.gym import schema
        cfg = self.config(clusters)
        read = {"dataset", cfg.dataset.format} | ({"train", cfg.train.mode} if self.row in SRNC else set())
        dropped = set(schema()) - read
        return {**{key: value for key, value in cfg.items() if key not in dropped}, "row": self.row, "kmeans": self.kmeans}

    def digest(self) -> str:
        """Of all settings, so that a result of other ones is not taken for it."""
        from graphgym_srnc import store
        return store.digest(self.settings(MANY))


def clusters_of(job: Job, task: Any, counts: Sequence[int]) -> dict[int, Any]:
    """The cluster of each node, by number of clusters."""
    from graphgym_srnc import gym
    from graphgym_srnc.own import clustering
    found = {}
    if job.row == "srnc-plus":
        method, _ = gym.fit(job.config(MANY), task)
        named = method.decide(method.predict(task.blind().target))
        hidden, _ = method.views()["cluster_gnn"](task.blind().target)
        return {count: clustering.split_unknown(named, task.num_known, hidden, count, seed=job.seed) for count in counts}
    if job.row in SRNC:
        for count in counts:
            method, _ = gym.fit(job.config(count), task)
            found[count] = method.clusters[0].log_posterior(method.cluster_target).argmax(1)
        return found
    blind = task.blind()
    z = clustering.embed(blind.target, job.row, job.seed)
    for count in counts:
        labels = blind.train, blind.source.y[blind.train]
        found[count] = clustering.constrained_kmeans(z, count, *labels, seed=job.seed, **job.kmeans).cluster
    return found


def scored_nodes(task: Any) -> dict[str, Any]:
    """Ids of the nodes that are scored: all but the labelled ones, the test nodes, those of masked classes."""
    free = task.target.y_true >= 0
    free[task.train] = False
    return {"all": free.nonzero().view(-1), "test": task.test, "unseen": (free & (task.target.y == task.unknown)).nonzero().view(-1)}


def run(job: Job) -> dict[str, Any]:
    """Cluster and score; an error is told, not raised, so that the other runs go on."""
    import torch

    from graphgym_srnc import gym, store
    from graphgym_srnc.train.metrics import clustering_scores
    torch.set_num_threads(1)
    begin = time.perf_counter()
    try:
        task = gym.build_task(job.config(MANY))
        counts = (GRAPHS[job.graph][1], MANY)
        nodes, y = scored_nodes(task), task.target.y_true
        scores = {str(count): {name: clustering_scores(cluster[ids], y[ids]) for name, ids in nodes.items()}
                  for count, cluster in clusters_of(job, task, counts).items()}
    except Exception as error:
        return {"name": job.name, "error": repr(error)}
    return {"name": job.name, "digest": job.digest(), "split": task.fingerprint(), "scores": scores,
            "seconds": time.perf_counter() - begin, "commit": store.environment()["commit"]}


def read(job: Job, folder: Path) -> dict[str, Any] | None:
    """The finished run of just these settings."""
    try:
        result = json.loads((folder / f"{job.name}.json").read_text(encoding="utf-8"))
        return result if result["digest"] == job.digest() else None
    except (OSError, ValueError, KeyError):
        return None


def execute(jobs: Sequence[Job], args: argparse.Namespace) -> int:
    """Run what is missing, each into its file; returns how many failed."""
    missing = [job for job in jobs if read(job, args.results) is None]
    print(f"{len(jobs)} runs: {len(jobs) - len(missing)} done, {len(missing)} to run", flush=True)
    if not missing:
        return 0
    args.results.mkdir(parents=True, exist_ok=True)
    os.environ["OMP_NUM_THREADS"] = "1"
    failed = 0
    with multiprocessing.get_context("spawn").Pool(min(args.jobs, len(missing))) as pool:
        for number, result in enumerate(pool.imap_unordered(run, missing), 1):
            told = f"[{number}/{len(missing)}] {result['name']}"
            if "error" in result:
                failed += 1
                print(f"{told}: FAILED: {result['error']}", flush=True)
                continue
            file = args.results / f"{result['name']}.json"
            half = file.with_suffix(".tmp")
            half.write_text(json.dumps(result, indent=1), encoding="utf-8")
            half.replace(file)
            print(f"{told}: {result['seconds']:.0f} s", flush=True)
    return failed


def write_record(job: Job, result: dict[str, Any], folder: Path) -> None:
    """A run as ``graphgym-srnc compare`` reads it, a record for each number of clusters; nothing in it was chosen on validation."""
    from graphgym_srnc import atomic, store
    for count, scores in result["scores"].items():
        test = scores["all"] | {f"{metric}_{nodes}": value for nodes in SCORED[1:] for metric, value in scores[nodes].items()}
        config = job.settings(int(count)) | {"clusters": int(count)}
        record = {"format": store.FORMAT, "seed": job.seed, "digest": store.digest(config), "backbone": config["gnn"]["layer_type"],
                  "method": "srnc" if job.row in SRNC else job.row, "task": f"open_set/{GRAPHS[job.graph][0]}", "split": result["split"],
                  "selected": 0, "warnings": [], "val": {}, "test": test, "seconds": result["seconds"], "commit": result["commit"],
                  "history": [{"number": 0, "losses": {}, "train": {}, "val": {}, "test": test}], "config": config}
        atomic.write_text(folder / f"{job.graph}-{job.row}-clusters={count}" / str(job.seed) / "result.json", json.dumps(record, indent=1))


def spread(values: Sequence[float]) -> str:
    """Mean ± population standard deviation, in %."""
    mean, std = mean_std(values)
    return f"{100 * mean:.1f} ± {100 * std:.1f}"


def markdown(head: Sequence[str], lines: Sequence[Sequence[Any]]) -> str:
    return "".join(f"| {' | '.join(map(str, line))} |\n" for line in (head, ["---"] * len(head), *lines)) + "\n"


def table(jobs: Sequence[Job], args: argparse.Namespace) -> str:
    """A table for each graph, a line for each row and number of clusters."""
    found = [(job, result) for job in jobs if (result := read(job, args.results))]
    if not found:
        return "no results yet\n"
    out = ""
    for graph, (name, classes) in GRAPHS.items():
        lines = []
        for count in (classes, MANY):
            for row, printed in ROWS.items():
                results = [result for job, result in found if (job.graph, job.row) == (graph, row)]
                if not results:
                    continue
                scores = [result["scores"][str(count)] for result in results]
                cells = [spread([s[nodes][metric] for s in scores]) for nodes in SCORED for metric in ("acc", "nmi")]
                seconds = math.fsum(result["seconds"] for result in results) / len(results)
                paper = " / ".join(f"{score.mean:.2f}" for score in CLUSTERING.find(printed, name).values()) or "-"
                lines.append([printed, count, len(results), *cells, paper, f"{seconds:.0f}"])
        if lines:
            columns = [f"{metric} {nodes}" for nodes in SCORED for metric in ("ACC", "NMI")]
            head = ["method", "C", "n", *columns, "paper ACC / NMI", "s a run"]
            out += f"## {name}\n\n" + markdown(head, lines)
    options = ", ".join(f"{key} {value}" for key, value in jobs[0].kmeans.items())
    commits = sorted({str(result["commit"]) for _, result in found})
    return out + (
        f"ACC and NMI in %, mean ± population standard deviation over split seeds 0 to {args.runs - 1}; labelled nodes are not scored,"
        " unseen = all nodes of masked classes; ACC by the best one-to-one map of clusters to classes among the nodes scored. Embeddings:"
        f" k-means ({options}). Seconds are for both numbers of clusters. Commit {', '.join(commits)}; 1 thread a run.\n")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=10, metavar="R", help="split seeds 0 to R - 1 (default: %(default)s)")
    parser.add_argument("--only", default="*", metavar="GRAPH:ROW,...", help=f"patterns; rows: {', '.join(ROWS)}")
    parser.add_argument("--jobs", type=int, default=2, help="processes at a time, one thread each (default: %(default)s)")
    parser.add_argument("--set", nargs="*", default=[], metavar="KEY VALUE", help="overrides for every run; want other --results")
    parser.add_argument("--variant", default="constrained", choices=("constrained", "seeded"), help="of k-means")
    parser.add_argument("--spherical", action="store_true", help="k-means by cosine; wants other --results, as does --variant")
    parser.add_argument("--results", type=Path, default=Path("results/clustering"), help="folder of all runs (default: %(default)s)")
    parser.add_argument("--records", type=Path, metavar="DIR", help="also write the runs there for `graphgym-srnc compare`")
    parser.add_argument("--no-run", action="store_true", help="only print what is there")
    parser.add_argument("--out", type=Path, metavar="FILE", help="write the markdown here too")
    args = parser.parse_args()
    kmeans = {"variant": args.variant, "spherical": args.spherical, "restarts": 10}
    jobs = [Job(graph, row, seed, kmeans, tuple(args.set)) for graph in GRAPHS for row in ROWS for seed in range(args.runs)
            if any(fnmatch(f"{graph}:{row}", pattern.strip()) for pattern in args.only.split(","))]
    if not jobs:
        parser.error(f"--only {args.only}: matches no row")
    failed = 0 if args.no_run else execute(jobs, args)
    if args.records:
        for job in jobs:
            if result := read(job, args.results):
                write_record(job, result, args.records)
    text = table(jobs, args)
    print(text, end="")
    if args.out:
        args.out.write_text(text, encoding="utf-8")
    return min(failed, 1)


if __name__ == "__main__":
    sys.exit(main())
