"""Cost against the number of edges.

    python benchmarks/scale.py --figure docs/images/scale.png

Each size runs in a process of its own, on a synthetic graph whose number of nodes is a tenth of
that of its edges. Batches have 1,024 nodes, with 10 neighbours a node and layer. What was measured
is kept in ``--keep`` and not measured again, so that ``--max-edges`` can be raised later. Times are
of the processor, which other work on the same machine moves less than those of the clock; those are
in the table too.

The commands for a graph of your own, each as a whole process, on the tables of `data example`:

    python benchmarks/scale.py --own 100000 1000000

Several processes that train together, times by the clock:

    torchrun --nproc-per-node 2 benchmarks/scale.py --one erm batches 1e6
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import linear_regression
from typing import Any

import pandas
from directives import table
from scores import DATA

FEATURES, CLASSES, WIDTH = 64, 10, 64
MODES = {"full": "full batch", "batches": "batches"}
FIGURES = {
    "cpu": "CPU seconds of a run",
    "episode": "CPU seconds of an episode",
    "mib": "largest memory, MiB",
}
LIMITS = {"full": 1e7, "batches": 1e8}
ENVIRONMENT = {
    "full": {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(2**40)},
    "batches": {},
}
"""Full batch keeps the memory that it frees: the system would clear it again, page by page, for
each tensor above 32 MiB."""


def make(edges: int):
    """A task on a planted partition with heavy-tailed degrees, drawn piece by piece to save
    memory."""
    import numpy as np
    import torch
    from torch_geometric.data import Data

    from graphgym_srnc.core.task import ShiftTask

    rng, nodes = np.random.default_rng(0), edges // 10
    y = np.arange(nodes) % CLASSES
    edge_index = np.empty((2, edges), dtype=np.int64)
    x = np.empty((nodes, FEATURES), dtype=np.float32)
    for begin in range(0, nodes, 10**6):
        part = x[begin : begin + 10**6]
        part[:] = rng.standard_normal(part.shape, dtype=np.float32)
        part[np.arange(len(part)), y[begin : begin + 10**6]] += 1
    for begin in range(0, edges, 10**7):
        row, column = edge_index[:, begin : begin + 10**7]
        row[:] = nodes * rng.random(len(row)) ** 2
        column[:] = nodes * rng.random(len(row))
        same = rng.random(len(row)) < 0.7
        column[same] += row[same] % CLASSES - column[same] % CLASSES
        np.minimum(column, nodes - 1, out=column)
    graph = Data(
        x=torch.from_numpy(x),
        edge_index=torch.from_numpy(edge_index),
        y=torch.from_numpy(y),
        num_nodes=nodes,
    )
    order = torch.from_numpy(rng.permutation(nodes))
    train, val, test, rest = order.split(
        [nodes // 10, nodes // 20, nodes // 10, nodes - nodes // 10 - nodes // 20 - nodes // 10]
    )
    return ShiftTask(
        "scale", graph, graph, train, val, test, torch.cat([rest, test]), CLASSES, False
    )


def measure(args: argparse.Namespace, name: str, mode: str, edges: str) -> dict[str, Any]:
    """Figures of one run in this process, with an episode after episode 0 and predictions of all
    nodes after each."""
    import torch

    from graphgym_srnc import methods
    from graphgym_srnc.backbones import EncoderSpec
    from graphgym_srnc.core import environment
    from graphgym_srnc.train import trainer

    torch.set_num_threads(args.threads)
    begin = time.perf_counter()
    task = make(int(float(edges)))
    making = {
        "making_seconds": time.perf_counter() - begin,
        "making_mib": environment.peak_memory(),
    }
    options = {"srnc": {"pretrain_steps": args.steps, "cluster_steps": args.steps, "rounds": 1}}
    batch = {"batch_size": 1024, "fanout": 10} if mode == "batches" else {}
    method = methods.find(name)(
        encoder=EncoderSpec(hidden=WIDTH, features="l2"),
        steps=args.steps,
        **options.get(name, {"rounds": 1}),
        **batch,
    )
    episode, spent = method.episode, []

    def timed() -> dict[str, float]:
        begin = time.process_time()
        terms = episode()
        spent.append(time.process_time() - begin)
        return terms

    method.episode = timed
    environment.reset_peak_memory()
    begin, cpu = time.perf_counter(), time.process_time()
    record = trainer.fit(method, task)
    spent = {
        "seconds": time.perf_counter() - begin,
        "cpu": time.process_time() - cpu,
        "episode": spent[-1],
    }
    return {
        "edges": int(float(edges)),
        "mode": mode,
        "method": name,
        "steps": args.steps,
        **spent,
        **making,
        "mib": environment.peak_memory(),
        "micro_f1": record.test["micro_f1"],
    }


def slope(points: list[tuple[float, float]]) -> float:
    """The slope of the line of least squares through logarithms of points; NaN with fewer than
    two."""
    if len(points) < 2:
        return math.nan
    return linear_regression(*([math.log(value) for value in values] for values in zip(*points)))[0]


def series(
    rows: list[dict[str, Any]], key: str, kind: tuple[str, str]
) -> list[tuple[float, float]]:
    """A figure by the number of edges, of a method and a way of training."""
    return sorted((row["edges"], row[key]) for row in rows if (row["method"], row["mode"]) == kind)


def kinds(rows: list[dict[str, Any]]) -> list[tuple[str, str]]:
    return list(dict.fromkeys((row["method"], row["mode"]) for row in rows))


def tables(rows: list[dict[str, Any]]) -> str:
    """What was measured, and how it grows with the number of edges."""
    measured = [
        [row["method"], MODES[row["mode"]], f"{row['edges']:,}", f"{row['cpu']:,.1f}"]
        + [f"{row['seconds']:,.1f}", f"{row['episode']:,.2f}", f"{row['mib']:,.0f}"]
        + [f"{100 * row['micro_f1']:.1f}"]
        for row in rows
    ]
    head = ["method", "training", "edges", "CPU s", "clock s", "CPU s an episode", "MiB"]
    slopes = []
    for kind in kinds(rows):
        lines = [series(rows, key, kind) for key in FIGURES]
        cells = [f"{slope(points):.2f} / {slope(points[-2:]):.2f}" for points in lines]
        slopes.append([kind[0], MODES[kind[1]], *cells])
    return (
        table([*head, "Micro-F1"], measured)
        + "\n\nSlope of logarithms against edges, over all sizes / the two largest:\n\n"
        + table(["method", "training", "run", "episode", "memory"], slopes)
    )


def draw(rows: list[dict[str, Any]], path: Path) -> None:
    """Plot time and memory against the number of edges."""
    from matplotlib.figure import Figure

    from graphgym_srnc.plots.style import MARKERS, PALETTE, save, style

    with style():
        figure = Figure(figsize=(9, 3.4))
        panels = figure.subplots(1, 3)
        for axes, (key, label) in zip(panels, FIGURES.items()):
            for kind, color, marker in zip(kinds(rows), PALETTE, MARKERS):
                name = f"{kind[0]}, {MODES[kind[1]]}"
                look = {"color": color, "marker": marker, "markersize": 4, "label": name}
                axes.loglog(*zip(*series(rows, key, kind)), **look)
            axes.set(xlabel="edges", title=label, xticks=sorted({row["edges"] for row in rows}))
            axes.xaxis.set_major_formatter(
                lambda edges, _: "10" + "⁰¹²³⁴⁵⁶⁷⁸⁹"[round(math.log10(edges))]
            )
            axes.yaxis.set_major_formatter(lambda value, _: f"{value:,g}")
            axes.minorticks_off()
            axes.grid(True)
        figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=4)
        most = max(row["mib"] for row in rows)
        panels[2].set_yticks([2.0**k for k in range(9, 16) if 2.0**k <= 2 * most])
        save(figure, path)


def run(
    args: argparse.Namespace, *words: object, environment: dict[str, str] | None = None
) -> dict[str, Any] | None:
    """What a process of this program with these words measures; None where it fails."""
    words = (*words, "--threads", args.threads)
    done = subprocess.run(
        [sys.executable, __file__, *map(str, words)],
        env={**os.environ, **(environment or {}), "OMP_NUM_THREADS": str(args.threads)},
        stdout=subprocess.PIPE,
        text=True,
    )
    if done.returncode:
        print(f"{' '.join(map(str, words))} failed with {done.returncode}", file=sys.stderr)
        return None
    print(done.stdout.splitlines()[-1], file=sys.stderr)
    return json.loads(done.stdout.splitlines()[-1])


def sizes(args: argparse.Namespace) -> list[dict[str, Any]]:
    """All measurements, those that are missing measured now."""
    lines = args.keep.read_text().splitlines() if args.keep.exists() else []
    rows = list(map(json.loads, lines))
    edges = [size for size in (10.0**k for k in range(4, 9)) if size <= args.max_edges]
    for method, mode in itertools.product(args.methods, MODES):
        for size in edges:
            kind = {"method": method, "mode": mode, "edges": size, "steps": args.steps}
            if any(row.items() >= kind.items() for row in rows) or size > LIMITS[mode]:
                continue
            words = ["--one", method, mode, size, "--steps", args.steps]
            row = run(args, *words, environment=ENVIRONMENT[mode])
            if row is None:
                break
            rows.append(row)
            args.keep.parent.mkdir(parents=True, exist_ok=True)
            args.keep.write_text("".join(json.dumps(row) + "\n" for row in rows))
    modes = list(MODES)
    return sorted(rows, key=lambda row: (row["method"], modes.index(row["mode"]), row["edges"]))


def own_graph(nodes: int, threads: int) -> list[dict[str, Any]]:
    """What each command for a graph of your own costs, as a process with its imports."""
    from graphgym_srnc.core import environment

    rows = []
    with tempfile.TemporaryDirectory() as folder:
        program = [sys.executable, "-m", "graphgym_srnc"]
        example = f"data example tables --nodes {nodes} --labelled 0.03"
        subprocess.run([*program, *example.split()], cwd=folder, env=own_env(threads), check=True)
        for command in (
            "data make tables/nodes.csv tables/edges.csv --text title --out graph",
            "run --cfg own dataset.name graph",
            "predict results/own-graph --out predictions.csv",
            "discover results/own-graph --out discovery.html",
        ):
            begin = time.perf_counter()
            child = subprocess.Popen(
                [*program, *command.split()],
                cwd=folder,
                env=own_env(threads),
                stdout=subprocess.DEVNULL,
            )
            _, status, used = os.wait4(child.pid, 0)
            if status:
                raise SystemExit(f"{command} failed")
            row = {"nodes": nodes, "command": command, "CPU s": used.ru_utime + used.ru_stime}
            row |= {"clock s": time.perf_counter() - begin, "MiB": used.ru_maxrss / 1024}
            rows.append({key: round(v) if key != "command" else v for key, v in row.items()})
            rows[-1]["commit"] = str(environment.commit())[:7]
            print(rows[-1], file=sys.stderr, flush=True)
    return rows


def own_env(threads: int) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(DATA.parents[2]), "OMP_NUM_THREADS": str(threads)}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    option = parser.add_argument
    option("--max-edges", type=float, default=1e8, help="full batch stops at 10^7 (default: 10^8)")
    option("--methods", nargs="+", default=["erm", "srnc"])
    option("--steps", type=int, default=20, help="gradient steps of an episode (default: 20)")
    option("--threads", type=int, default=1)
    option("--keep", type=Path, default=Path("results/scale.jsonl"), help="what was measured")
    option("--figure", type=Path, metavar="FILE", help="also draw this figure")
    option("--own", nargs="+", type=int, metavar="NODES", help="measure own graphs of these sizes")
    option("--one", nargs=3, metavar=("METHOD", "MODE", "EDGES"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one:
        from graphgym_srnc.core import parallel

        with parallel.processes():
            figures = measure(args, *args.one)
            if not parallel.rank():
                print(json.dumps(figures))
    elif args.own:
        rows = [row for nodes in args.own for row in own_graph(nodes, args.threads)]
        pandas.DataFrame(rows).to_csv(DATA / "own-scale.csv", index=False, lineterminator="\n")
    else:
        rows = sizes(args)
        print(tables(rows))
        if args.figure:
            draw(rows, args.figure)


if __name__ == "__main__":
    main()
