"""Does one setting hold on other graphs? ``srnc-plus`` beside the plain GNN with a threshold and PGL, on graphs made in memory.

    python benchmarks/generalise.py --out generalise.md                 # 20 kinds of graph, split seeds 0 to 4
    python benchmarks/generalise.py --seeds 2 --only 0,7,19 --set gnn.dim_inner 64

All methods run as their configs for Cora say, untouched. Each run is a line of ``--results``, so what is there is not run again.
"""
from __future__ import annotations

import argparse
import json
import math
import multiprocessing
import os
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple, Sequence

METHODS = {"erm": "paper/open_set/cora-erm", "pgl": "paper/open_set/cora-pgl", "srnc-plus": "paper/open_set/cora-srnc-plus"}
OURS = "srnc-plus"
NODES = {4: 2000, 7: 3000, 10: 3000, 15: 4000, 20: 4000}


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
        """It as options of the synthetic shift."""
        return {"num_classes": self.classes, "num_unseen": self.unseen, "homophily": self.homophily, "num_nodes": NODES[self.classes],
                "degree_exponent": self.degree_exponent, "class_imbalance": self.imbalance}


# Each level of a factor meets those of the others about equally often; 0 = all nodes have about the same degree.
SETTINGS = [Setting(*row) for row in (
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
)]


class Job(NamedTuple):
    """One run; ``digest`` is that of its config, so that a line of another one is not taken for it."""

    setting: Setting
    method: str
    seed: int
    words: tuple[str, ...]
    digest: str = ""

    @property
    def key(self) -> str:
        return f"{self.method} {self.seed} {self.digest}"

    def config(self) -> Any:
        from graphgym_srnc.gym import load_config
        options = {f"synthetic.{key}": value for key, value in self.setting.options().items()}
        changes = {"dataset.format": "synthetic", "dataset.name": "synthetic", "num_threads": 1, "seed": self.seed} | options
        return load_config(METHODS[self.method], [str(word) for item in changes.items() for word in item] + list(self.words))


def with_digest(job: Job) -> Job:
    from graphgym_srnc import store
    from graphgym_srnc.gym import schema
    cfg = job.config()
    unused = set(schema()) - {"train", "dataset", cfg.train.mode, cfg.dataset.format}
    return job._replace(digest=store.digest({key: value for key, value in cfg.items() if key not in unused}))


def run(job: Job) -> dict[str, Any]:
    """Train and score one method on one graph; an error is told, not raised, so that the other runs go on."""
    import torch

    from graphgym_srnc import gym, store
    torch.set_num_threads(1)
    begin = time.perf_counter()
    try:
        cfg = job.config()
        _, record = gym.fit(cfg, gym.build_task(cfg))
    except Exception as error:
        return {"key": job.key, "name": f"{job.method} on {tuple(job.setting)}, seed {job.seed}", "error": repr(error)}
    # Episode 0 has no pseudo-labels yet, so its figures are those of what follows it.
    losses = record.history[max(record.best, min(1, len(record.history) - 1))].losses
    return {"key": job.key, "name": f"{job.method} on {tuple(job.setting)}, seed {job.seed}", "split": record.fingerprint,
            "val": record.val, "test": record.test, "best": record.best, "resolution": losses.get("resolution"),
            "used_clusters": losses.get("used_clusters"), "warnings": record.warnings, "seconds": time.perf_counter() - begin,
            "commit": store.environment()["commit"]}


def read(path: Path) -> dict[str, dict[str, Any]]:
    """Finished runs by key; a line that was cut off does not count."""
    found = {}
    for line in path.read_text(encoding="utf-8").splitlines() if path.is_file() else ():
        try:
            result = json.loads(line)
            found[result["key"]] = result
        except (ValueError, KeyError):
            continue
    return found


def train(jobs: Sequence[Job], args: argparse.Namespace) -> int:
    """Run what is missing and add it to the file, a line at a time; returns how many failed."""
    missing = [job for job in jobs if job.key not in read(args.results)]
    print(f"{len(jobs)} runs: {len(jobs) - len(missing)} done, {len(missing)} to run", flush=True)
    if not missing:
        return 0
    args.results.parent.mkdir(parents=True, exist_ok=True)
    failed = 0
    os.environ["OMP_NUM_THREADS"] = "1"
    with multiprocessing.get_context("spawn").Pool(min(args.jobs, len(missing))) as pool, open(args.results, "a", encoding="utf-8") as file:
        # A line that an interruption cut off must not take the next one with it.
        file.write("\n" if file.tell() else "")
        for number, result in enumerate(pool.imap_unordered(run, missing), 1):
            if "error" in result:
                failed += 1
                print(f"[{number}/{len(missing)}] {result['name']}: FAILED: {result['error']}", flush=True)
                continue
            print(json.dumps(result), file=file, flush=True)
            print(f"[{number}/{len(missing)}] {result['name']}: Micro-F1 {100 * result['test']['micro_f1']:.1f}, "
                  f"{result['seconds']:.0f} s", flush=True)
    return failed


def mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values) if values else math.nan


def difference(ours: Sequence[float], theirs: Sequence[float]) -> tuple[float, float]:
    """Mean of the paired differences and its standard error."""
    d = [a - b for a, b in zip(ours, theirs)]
    m = mean(d)
    return m, math.sqrt(math.fsum((x - m) ** 2 for x in d) / (len(d) - 1) / len(d)) if len(d) > 1 else math.nan


def markdown(head: Sequence[str], lines: Sequence[Sequence[Any]]) -> str:
    return "".join(f"| {' | '.join(map(str, line))} |\n" for line in (head, ["---"] * len(head), *lines)) + "\n"


def counted(values: Sequence[Any]) -> str:
    """Values with how often each occurs, smallest first."""
    return ", ".join(f"{value:g} ({count})" for value, count in sorted(Counter(values).items())) or "-"


def report(jobs: Sequence[Job], results: dict[str, dict[str, Any]]) -> str:
    """A line for each kind of graph, then the mean differences by the level of each factor."""
    baselines = [method for method in METHODS if method != OURS]
    lines, below, gaps = [], 0, []
    for number, setting in enumerate(SETTINGS):
        here = [job for job in jobs if job.setting == setting and job.key in results]
        runs = {method: {job.seed: results[job.key] for job in here if job.method == method} for method in METHODS}
        seeds = sorted(set.intersection(*map(set, runs.values())))
        if not seeds:
            continue
        assert all(len({runs[method][seed]["split"] for method in METHODS}) == 1 for seed in seeds), "methods ran on different splits"
        micro = {method: [100 * runs[method][seed]["test"]["micro_f1"] for seed in seeds] for method in METHODS}
        gap = {method: difference(micro[OURS], micro[method]) for method in baselines}
        worse = [method for method in baselines if gap[method][0] < -gap[method][1]]
        below += bool(worse)
        gaps.append((setting, gap))
        ours = [runs[OURS][seed] for seed in seeds]
        lines.append([number, setting.classes, setting.unseen, setting.homophily, setting.degree_exponent or "-", setting.imbalance,
                      NODES[setting.classes], len(seeds), *(f"{mean(values):.1f}" for values in micro.values()),
                      *("{:+.1f} ± {:.1f}".format(*gap[method]) for method in baselines), f"below {', '.join(worse)}" if worse else "",
                      counted([r["resolution"] for r in ours if r["resolution"] is not None]),
                      f"{mean([r['used_clusters'] for r in ours if r['used_clusters'] is not None]):.1f}",
                      sum(bool(r["warnings"]) for r in ours), f"{mean([r['seconds'] for r in ours]):.0f}"])
    if not lines:
        return "no results yet\n"
    head = ["", "classes", "masked", "homophily", "degree exponent", "imbalance", "nodes", "n", *METHODS, *(f"less {m}" for m in baselines),
            "", "resolution", "clusters in use", "warned", "s"]
    factors = []
    for factor in Setting._fields:
        for level in sorted({getattr(setting, factor) for setting, _ in gaps}, key=str if factor == "masked" else float):
            of_level = [gap for setting, gap in gaps if getattr(setting, factor) == level]
            gains = [f"{mean([gap[m][0] for gap in of_level]):+.1f}" for m in baselines]
            factors.append([factor.replace("_", " "), level, len(of_level), *gains])
    overall = ", ".join(f"{mean([gap[m][0] for _, gap in gaps]):+.1f} on {m}" for m in baselines)
    commits = sorted({str(results[job.key]["commit"]) for job in jobs if job.key in results})
    return (markdown(head, lines) + "Test Micro-F1 in %, mean over n split seeds; differences of "
            f"{OURS} on the same splits, ± standard error. More than one standard error below a baseline: {below} of {len(lines)}. "
            f"Mean over all: {overall}. Resolution: the chosen one, and in how many runs.\n\n"
            + markdown(["factor", "level", "graphs", *(f"less {m}" for m in baselines)], factors) + f"Commit {', '.join(commits)}.\n")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5, metavar="S", help="split seeds 0 to S - 1 (default: %(default)s)")
    parser.add_argument("--only", default="", metavar="I,J,...", help="numbers of the kinds of graph to run")
    parser.add_argument("--set", nargs="*", default=[], metavar="KEY VALUE", help="overrides for every run")
    parser.add_argument("--jobs", type=int, default=2, help="processes at a time, one thread each (default: %(default)s)")
    parser.add_argument("--results", type=Path, default=Path("results/generalise.jsonl"), help="file of all runs (default: %(default)s)")
    parser.add_argument("--no-run", action="store_true", help="only print what is there")
    parser.add_argument("--out", type=Path, metavar="FILE", help="write the markdown here too")
    args = parser.parse_args()
    settings = [SETTINGS[int(i)] for i in args.only.split(",")] if args.only else SETTINGS
    jobs = [Job(setting, method, seed, tuple(args.set)) for setting in settings for seed in range(args.seeds) for method in METHODS]
    digests: dict[tuple[Setting, str], str] = {}
    for i, job in enumerate(jobs):
        if job[:2] not in digests:
            digests[job[:2]] = with_digest(job).digest
        jobs[i] = job._replace(digest=digests[job[:2]])
    failed = 0 if args.no_run else train(jobs, args)
    text = report(jobs, read(args.results))
    print(text, end="")
    if args.out:
        args.out.write_text(text, encoding="utf-8")
    return min(failed, 1)


if __name__ == "__main__":
    sys.exit(main())
