"""Speed and memory beside stock GraphGym's and plain PyG scripts', in one run.

    python benchmarks/speed.py --out docs/research/performance.md

Ours and the others take turns, so that whatever else the machine does meets all, and a ratio is the
median over the turns of the other's figure divided by ours. This file imports neither torch nor the
package: a child's peak memory begins at its parent's.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import _pages

HERE = Path(__file__).resolve().parent
PLANETOID = {"cora": "Cora", "citeseer": "CiteSeer", "pubmed": "PubMed"}
LARGE = "arxiv-size"
RUNS = {"erm": ("erm.rounds", 50, "train.patience", 3), "srnc": (), "srnc-plus": ()}
"""Our configs of a whole run and what they change. The plain GNN comes first; it goes on until it
converges by the rule that stops srnc: no better Micro-F1 on validation for three episodes, each of
100 steps."""
LAYERS = {"gcn": 3.0, "sage": 2.0, "gat": 1.0, "sgc": 2.0}
"""Backbones, and how many times faster than stock and plain scripts a step is meant to be; GCN 5
times at arxiv's size."""

CSR = {"gcn": 8.0, "sage": 3.0, "gat": 1.0, "sgc": 2.0}
"""The same beside PyG with CSR; GCN 3 times at arxiv's size."""

OTHERS = {
    "stock": "stock GraphGym",
    "plain": "a plain PyG script",
    "csr": "PyG with CSR and sparse features",
}


@dataclass
class Row:
    """One comparison: figures of ours and of another program, taken by turns, and the ratio that
    was aimed at (0 = none)."""

    name: str
    unit: str
    ours: list[float]
    other: list[float]
    aim: float = 0.0

    def cells(self) -> tuple[str, ...]:
        ratios = sorted(other / ours for ours, other in zip(self.ours, self.other))
        digits = 2 if self.aim and self.aim < 1 else 1
        spread = f"{ratios[0]:.{digits}f} to {ratios[-1]:.{digits}f}" if len(ratios) > 1 else ""
        return (
            self.name,
            *(
                f"{figure:,.{0 if figure >= 100 else 1}f} {self.unit}"
                for figure in (median(self.ours), median(self.other))
            ),
            f"{median(ratios):.{digits}f}",
            spread,
            f"{self.aim:.2g}" if self.aim else "",
        )


@dataclass
class Child:
    """What a finished process took, by the clock and of the processor, and what it printed."""

    seconds: float
    cpu: float
    mib: float
    output: str


def run(*command: object, threads: int, **environment: str) -> Child:
    """Run a Python command to its end, imports included.

    Raises:
        SystemExit: the command failed; tells what it said last.
    """
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        begin = time.perf_counter()
        path = os.pathsep.join(filter(None, [str(HERE.parent), os.environ.get("PYTHONPATH")]))
        child = subprocess.Popen(
            [sys.executable, *map(str, command)],
            stdout=out,
            stderr=err,
            env={
                **os.environ,
                "PYTHONPATH": path,
                "OMP_NUM_THREADS": str(threads),
                "PYTHONDONTWRITEBYTECODE": "",
                **environment,
            },
        )
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode, seconds = os.waitstatus_to_exitcode(status), time.perf_counter() - begin
        for stream in (out, err):
            stream.seek(0)
        if child.returncode:
            raise SystemExit(f"{' '.join(map(str, command))} failed:\n{err.read()[-2000:]}")
        unit = 2**20 if sys.platform == "darwin" else 2**10
        return Child(seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / unit, out.read())


def compare_step(graph: str, args: argparse.Namespace) -> list[Row]:
    """Training steps of each backbone: with loss on the labelled nodes, as our methods take them,
    with loss on every node, and of the cluster GNN on modularity."""
    large, rows = graph == LARGE, []
    size = (
        "--rounds",
        min(args.rounds, 5) if large else args.rounds,
        "--block",
        1 if large else 5,
        "--threads",
        args.threads,
        *["--cpu-time"] * args.cpu_time,
    )
    for layer in args.layers:
        aims = dict.fromkeys(OTHERS, LAYERS[layer]) | {"csr": CSR[layer]}
        if large and layer == "gcn":
            aims = dict.fromkeys(OTHERS, 5.0) | {"csr": 3.0}
        others = [name for name in OTHERS if layer != "sgc" or name != "stock"]
        own = ["labelled", "all"] + ["modularity"] * (layer != "sgc")
        taken = json.loads(
            run(
                HERE / "step.py",
                PLANETOID.get(graph, graph),
                *size,
                "--layer",
                layer,
                "--contestants",
                *own,
                *others,
                threads=args.threads,
            ).output
        )
        taken = {name: [1000 * seconds for seconds in each] for name, each in taken.items()}
        rows += [
            Row(
                f"{layer} step, {graph}, loss on {nodes}, against {OTHERS[other]}",
                "ms",
                taken[key],
                taken[other],
                aims[other],
            )
            for other in others
            for key, nodes in (("labelled", "labelled nodes"), ("all", "all nodes"))
        ]
        if "modularity" in own:
            name = f"{layer} modularity step, {graph}, against our step on all nodes"
            rows.append(Row(name, "ms", taken["modularity"], taken["all"], 1.0))
    return rows


def compare_memory(graph: str, args: argparse.Namespace) -> list[Row]:
    """Peak memory of processes that do nothing but take a few steps."""

    def peak(contestant: str) -> list[float]:
        return [
            run(
                HERE / "step.py",
                graph,
                "--contestants",
                contestant,
                "--rounds",
                2,
                "--block",
                1,
                "--threads",
                args.threads,
                threads=args.threads,
            ).mib
        ]

    of_stock = peak("stock")
    return [
        Row(
            f"peak memory of gcn steps, {graph}, loss on {nodes}, against stock GraphGym",
            "MiB",
            peak(key),
            of_stock,
            2.0,
        )
        for key, nodes in (("labelled", "labelled nodes"), ("all", "all nodes"))
    ]


def compare_run(graph: str, args: argparse.Namespace, data: Path) -> list[Row]:
    """Whole processes, and what is left of them without imports: our ``run`` of one seed, from the
    raw files to the table, against GraphGym's training for 200 epochs and against our plain GNN."""
    name = PLANETOID[graph]
    whole, inside, mib = ({key: [] for key in ("stock", *RUNS)} for _ in range(3))
    with tempfile.TemporaryDirectory() as folder:
        # PyG writes its processed files beside the raw ones; they stay there from the first repeat
        # on.
        shutil.copytree(data / "planetoid" / name / "raw", Path(folder, name, name, "raw"))
        for key in [*whole] * args.repeats:
            out = Path(folder, key)
            if key == "stock":
                child = run(
                    HERE / "stock.py", name, folder, out, args.threads, threads=args.threads
                )
                seconds = float(child.output.split()[-1])
            else:
                child = run(
                    "-m",
                    "graphgym_srnc",
                    "run",
                    "--cfg",
                    f"paper/open_set/{graph}-{key}",
                    "--overwrite",
                    "--out-dir",
                    out,
                    "--name",
                    f"{graph}-{key}",
                    "--no-figures",
                    "num_threads",
                    args.threads,
                    *RUNS[key],
                    threads=args.threads,
                    GRAPHGYM_SRNC_DATA=str(data),
                )
                seconds = json.loads(
                    (out / f"{graph}-{key}" / "0" / "result.json").read_text(encoding="utf-8")
                )["seconds"]
            process = child.cpu if args.cpu_time else child.seconds
            for kept, figure in ((whole, process), (inside, seconds), (mib, child.mib)):
                kept[key].append(figure)
    rows = []
    # What a run tells of itself is by the clock.
    parts = {"whole run": whole} | ({} if args.cpu_time else {"without imports": inside})
    for what, taken in parts.items():
        rows += [
            Row(
                f"{what}, {graph}, {key}, against stock GraphGym",
                "s",
                taken[key],
                taken["stock"],
                10.0,
            )
            for key in RUNS
        ]
        rows += [
            Row(
                f"{what}, {graph}, {key}, against our plain GNN",
                "s",
                taken[key],
                taken["erm"],
                1 / 3,
            )
            for key in [*RUNS][1:]
        ]
    return rows + [
        Row(
            f"peak memory of whole run, {graph}, {key}, against stock GraphGym",
            "MiB",
            mib[key],
            mib["stock"],
        )
        for key in RUNS
    ]


def render(rows: list[Row]) -> str:
    """The rows as a table in Markdown."""
    head = ("", "ours", "other", "other / ours", "range", "aim")
    return _pages.table(head, (row.cells() for row in rows))


def main() -> None:
    """Measure what is asked for, print the table as it grows, and write it at the end."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--only",
        choices=("step", "run"),
        help="training steps (and their memory), or whole processes",
    )
    parser.add_argument(
        "--graphs", nargs="+", choices=(*PLANETOID, LARGE), default=[*PLANETOID, LARGE]
    )
    parser.add_argument(
        "--cpu-time", action="store_true", help="take the time of the processor, with one thread"
    )
    parser.add_argument(
        "--layers",
        nargs="+",
        choices=LAYERS,
        default=[*LAYERS],
        help="backbones of training steps (default: all)",
    )
    parser.add_argument("--repeats", type=int, default=3, help="whole runs of each (default: 3)")
    parser.add_argument("--rounds", type=int, default=20, help="turns of steps (default: 20)")
    parser.add_argument("--threads", type=int, default=2, help="threads of both (default: 2)")
    parser.add_argument(
        "--out",
        type=Path,
        metavar="FILE",
        help="a markdown file to write the table to, between its marks",
    )
    args = parser.parse_args()
    if args.out:
        _pages.check(args.out, "speed.py")
    if args.cpu_time and args.threads != 1:
        parser.error("--cpu-time goes with --threads 1")
    data = Path(os.environ.get("GRAPHGYM_SRNC_DATA") or "datasets").expanduser().absolute()
    rows, loads = [], []
    jobs = [job for job in ("step", "run") if args.only in (None, job)]
    for job, graph in [(job, graph) for job in jobs for graph in args.graphs]:
        if job == "run" and graph == LARGE:
            continue
        if graph != LARGE and not (data / "planetoid" / PLANETOID[graph] / "raw").is_dir():
            print(
                f"{job}, {graph}: left out, no {data / 'planetoid' / PLANETOID[graph] / 'raw'} "
                f"(GRAPHGYM_SRNC_DATA names the folder)"
            )
            continue
        loads.append(os.getloadavg()[0])
        new = compare_step(graph, args) if job == "step" else compare_run(graph, args, data)
        if job == "step" and graph == LARGE:
            new += compare_memory(graph, args)
        print(render(new), flush=True)
        rows += new
    if not rows:
        raise SystemExit("nothing was measured")
    loads.append(os.getloadavg()[0])
    text = (
        f"Threads: {args.threads}, on {os.cpu_count()} cores. Load of the machine over a "
        f"minute: {min(loads):.1f} to {max(loads):.1f}, of which 1 is this benchmark. "
        f"{'Times of the processor. ' * args.cpu_time}"
        f"Rounds: {args.rounds} of training steps ({min(args.rounds, 5)} on {LARGE}), "
        f"{args.repeats} of whole runs. Medians, and the ratio's range over rounds.\n\n"
        f"{render(rows)}"
    )
    print(text)
    if args.out:
        _pages.write(args.out, "speed.py", text)


if __name__ == "__main__":
    main()
