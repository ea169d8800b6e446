"""From which size of a graph on do two threads pay, and what do they cost on a busy machine?

    python benchmarks/threads.py --out docs/research/performance.md

Steps of a GCN on all nodes and of a cluster GNN on modularity take turns with one thread and with
two, in one process, first alone, then beside a process for each core that does nothing but count.
The least time of a step is that of a moment in which nothing else ran, the median what a user of
this machine waits for. ``environment.SECOND_THREAD`` is chosen by both ratios.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Iterator

import _pages
import step
import torch
from torch_geometric.data import Data

DEGREE, FEATURES, CLASSES = 10, 128, 10
SIZES = (10_000, 100_000, 300_000, 1_000_000, 3_000_000)
STATES = {False: "as it is", True: "a busy process a core"}
BLOCK = 3
"""Steps in a row; the first one after a change of threads does not count."""


def graph(edges: int) -> Data:
    """A random graph with so many directions of edges, and dense features."""
    generator = torch.Generator().manual_seed(0)
    nodes = edges // DEGREE
    one, other = torch.randint(nodes, (2, edges // 2), generator=generator)
    edge_index = torch.stack([torch.cat([one, other]), torch.cat([other, one])])
    return Data(
        x=torch.randn(nodes, FEATURES, generator=generator),
        edge_index=edge_index,
        y=torch.randint(CLASSES, (nodes,), generator=generator),
        num_nodes=nodes,
    )


@contextmanager
def busy(wanted: bool) -> Iterator[None]:
    """Keep each core busy with a process of its own meanwhile."""
    processes = [
        subprocess.Popen([sys.executable, "-c", "while True: pass"])
        for _ in range(wanted * (os.cpu_count() or 1))
    ]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


def times(data: Data, seconds: float) -> dict[int, list[float]]:
    """Milliseconds of a step of each kind together, by the number of threads."""
    nodes = torch.arange(data.num_nodes)
    torch.manual_seed(0)
    steps = (step.ours("gcn", data, None, CLASSES), step.modularity("gcn", data, nodes, CLASSES))
    taken: dict[int, list[float]] = {1: [], 2: []}
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(taken[2]) < 2 * BLOCK:
        for threads, found in taken.items():
            torch.set_num_threads(threads)
            for number in range(BLOCK + 1):
                begin = time.perf_counter()
                for one in steps:
                    one()
                if number:
                    found.append(1000 * (time.perf_counter() - begin))
    return taken


def main() -> None:
    """Measure each size alone and beside other work; print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--edges",
        type=int,
        nargs="+",
        default=SIZES,
        metavar="E",
        help="directions of edges (default: 10^4 to 3 * 10^6)",
    )
    parser.add_argument(
        "--seconds", type=float, default=10, help="of each size and state (default: 10)"
    )
    parser.add_argument(
        "--out",
        type=Path,
        metavar="FILE",
        help="a markdown file to write the table to, between its marks",
    )
    args = parser.parse_args()
    if args.out:
        _pages.check(args.out, "threads.py")
    rows, loads = [], {}
    for wanted, state in STATES.items():
        with busy(wanted):
            for edges in args.edges:
                loads.setdefault(state, []).append(os.getloadavg()[0])
                taken = times(graph(edges), args.seconds)
                least, middle = ([of(taken[n]) for n in (1, 2)] for of in (min, median))
                cells = [
                    cell
                    for pair in (least, middle)
                    for cell in (*(f"{figure:,.1f}" for figure in pair), f"{pair[0] / pair[1]:.2f}")
                ]
                rows.append((f"{edges:,}", state, *cells))
                print(*rows[-1], f"load {os.getloadavg()[0]:.1f}", flush=True)
    told = "; ".join(f"{state} {min(own):.1f} to {max(own):.1f}" for state, own in loads.items())
    head = (
        "directions of edges",
        "machine",
        "least ms, 1 thread",
        "2 threads",
        "1 / 2",
        "median ms, 1 thread",
        "2 threads",
        "1 / 2",
    )
    text = (
        f"On {os.cpu_count()} cores. Load of the machine over "
        f"the last minute: {told}.\n\n{_pages.table(head, rows)}"
    )
    print(text)
    if args.out:
        _pages.write(args.out, "threads.py", text)


if __name__ == "__main__":
    main()
