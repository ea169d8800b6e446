"""The sparse product beside this machine's memory bandwidth, and modularity beside PyG's dense
DMoNPooling, by size.

    python benchmarks/kernels.py roofline              # at ogbn-arxiv's size
    python benchmarks/kernels.py dmon                  # 1,000 to 32,000 nodes, a process each

A product of a sparse matrix in CSR (``nnz`` entries, R rows, C columns) with a dense one ``[C, K]``
has to read each index and value, each row of the dense matrix once and has to write the result: ``8
nnz + 4 (R + 1) + 4 K (R + C)`` bytes. Where the dense matrix does not stay in the cache, each entry
reads its row anew: ``8 nnz + 4 (R + 1) + 4 K (nnz + R)``. The truth lies between; both are divided
by the bandwidth that a copy of a large tensor reaches, and by the time taken.

The bound of a whole training step is the sum over its operations of the larger of two times: bytes
at the bandwidth of a copy, and operations at the rate that a large dense product reaches. The step
keeps the memory that it frees, as ``graphgym-srnc run`` does. Bandwidth, rates and step are taken
by turns.

With one thread times are of the processor, which other work on the machine moves less than those
of the clock.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import time
from functools import partial
from operator import matmul
from pathlib import Path
from statistics import median
from typing import Callable

import _pages
import psutil
import torch
from step import load, ours

from graphgym_srnc import backbones
from graphgym_srnc.backbones import EncoderSpec
from graphgym_srnc.core import environment
from graphgym_srnc.data import block_model
from graphgym_srnc.losses.modularity import collapse_loss, modularity_loss

SIZES = (1_000, 2_000, 4_000, 8_000, 16_000, 32_000)
DEGREE, CLUSTERS = 10.0, 16


def seconds(call: Callable[[], object], rounds: int = 10) -> float:
    """Median time of a call after one that does not count."""
    # Threads that wait for one another count as busy.
    clock = time.process_time if torch.get_num_threads() == 1 else time.perf_counter
    taken = []
    for _ in range(rounds + 1):
        begin = clock()
        call()
        taken.append(clock() - begin)
    return median(taken[1:])


def bandwidth_of_copy(numbers: int = 2**26) -> float:
    """GB/s, read and written, of a copy of so many 32-bit numbers."""
    large, other = torch.ones(numbers), torch.empty(numbers)
    return 2 * 4 * numbers / seconds(lambda: other.copy_(large)) / 1e9


def roofline(widths: tuple[int, ...] = (16, 40, 128, 256)) -> str:
    """A line for each width K: GB/s by both counts, and their share of the bandwidth of a copy."""
    environment.keep_memory()
    bandwidth = bandwidth_of_copy()
    data, nodes, num_outputs = load("arxiv-size")
    adjacency = backbones.prepare(data, "none").adjacency("gcn")
    rows, columns = adjacency.shape
    lines = []
    for width in widths:
        dense = torch.randn(columns, width)
        taken = seconds(partial(matmul, adjacency, dense))
        fixed = 8 * adjacency.nnz + 4 * (rows + 1)
        once, each = (
            (fixed + 4 * width * count) / taken / 1e9
            for count in (rows + columns, rows + adjacency.nnz)
        )
        lines.append(
            (
                width,
                f"{1000 * taken:.1f}",
                f"{once:.1f}",
                f"{once / bandwidth:.2f}",
                f"{each:.1f}",
                f"{each / bandwidth:.2f}",
            )
        )
    head = (
        "K",
        "ms",
        "GB/s, rows read once",
        "of a copy",
        "GB/s, rows read for each entry",
        "of a copy",
    )
    sizes = rows, adjacency.nnz, data.num_features, EncoderSpec().hidden, num_outputs
    return (
        f"A copy moves {bandwidth:.1f} GB/s with {torch.get_num_threads()} thread(s). "
        f"{rows:,} nodes, {adjacency.nnz:,} entries.\n\n{_pages.table(head, lines)}\n"
        + step_beside_bound(ours("gcn", data, None, num_outputs), sizes)
    )


def step_beside_bound(
    step: Callable[[], None], sizes: tuple[int, int, int, int, int], turns: int = 5
) -> str:
    """Time of a training step of the sizes of :func:`step_bound` beside its bounds, by turns."""
    taken = [
        (seconds(step, 3), bandwidth_of_copy(), rate_of_product(), rate_of_onednn())
        for _ in range(turns)
    ]
    lines = [
        (
            f"measured, median of {turns} rounds",
            f"{1000 * median(next(zip(*taken))):.0f}",
            "",
            "",
            "",
        )
    ]
    for name, place in (("torch's product", 2), ("oneDNN's product", 3)):
        bounds = [step_bound(*sizes, turn[1], turn[place]) for turn in taken]
        shares = [sum(bound.values()) / turn[0] for bound, turn in zip(bounds, taken)]
        parts = ", ".join(
            f"{part} {1000 * median(bound[part] for bound in bounds):.0f}" for part in bounds[0]
        )
        lines.append(
            (
                f"bound, {median(turn[place] for turn in taken):.0f} GFLOP/s of {name}",
                f"{1000 * median(sum(bound.values()) for bound in bounds):.0f}",
                f"{median(shares):.2f}",
                f"{min(shares):.2f} to {max(shares):.2f}",
                parts,
            )
        )
    return _pages.table(
        ("training step of the GCN on all nodes", "ms", "of the step", "range", "parts"), lines
    )


def rate_of_product(size: int = 2048) -> float:
    """Operations a second, in 10^9, of torch's dense product."""
    square = torch.randn(size, size)
    return 2 * size**3 / seconds(lambda: square @ square, 3) / 1e9


def rate_of_onednn(size: int = 2048) -> float:
    """The same of the product of oneDNN, which torch has on board but not behind its ``@``; NaN
    where it has not."""
    if not torch.backends.mkldnn.is_available():
        return math.nan
    square, multiply = torch.randn(size, size), torch.ops.mkldnn._linear_pointwise
    return 2 * size**3 / seconds(lambda: multiply(square, square, None, "none", [], ""), 3) / 1e9


def step_bound(
    nodes: int,
    entries: int,
    features: int,
    hidden: int,
    outputs: int,
    bandwidth: float,
    rate: float,
) -> dict[str, float]:
    """The least seconds of the parts of a step of a two-layer GCN whose loss reads all nodes, with
    propagated features made before; bandwidth and rate of dense products in 10^9 a second."""
    wide, narrow = 4 * nodes * hidden, 4 * nodes * outputs
    # Forward: XW, HW. Backward: the gradients of both weights and of H.
    products = [
        (features * hidden, 4 * nodes * features + wide),
        (hidden * outputs, wide + narrow),
        (hidden * outputs, wide + narrow),
        (hidden * outputs, wide + narrow),
        (features * hidden, 4 * nodes * features + wide),
    ]
    return {
        "dense products": sum(
            max(2 * nodes * count / rate, moved / bandwidth) for count, moved in products
        )
        / 1e9,
        # Activation and dropout read and write a hidden state, and once more in the backward
        # pass, where they read two.
        "activation and dropout": 5 * wide / bandwidth / 1e9,
        "sparse products": 2 * (8 * entries + 2 * narrow) / bandwidth / 1e9,
        "loss": 4 * narrow / bandwidth / 1e9,
    }


def modularity_cost(contestant: str, size: int) -> dict[str, float]:
    """Seconds of value and gradient of the loss of DMoN for an assignment ``[V, C]`` on a graph of
    that size, and what it adds to the memory of the process, in MiB."""
    import numpy as np

    rng = np.random.RandomState(0)
    data = block_model.dcsbm(
        num_nodes=size, shares=np.full(4, 0.25), topics=np.ones((4, 2)), rng=rng, avg_degree=DEGREE
    )
    data.x = torch.ones(size, 1)
    one_hot = torch.nn.functional.one_hot(data.y, CLUSTERS)
    logits = (torch.randn(size, CLUSTERS) + 4 * one_hot).requires_grad_()
    if contestant == "dense":
        from torch_geometric.nn.dense import DMoNPooling
        from torch_geometric.utils import to_dense_adj
    environment.reset_peak_memory()
    before = psutil.Process().memory_info().rss / 2**20
    if contestant == "ours":
        graph = backbones.prepare(data, "none")
        adjacency, degree = graph.adjacency("raw"), graph.degree

        def loss() -> torch.Tensor:
            q = logits.softmax(1)
            return modularity_loss(q, adjacency, degree, 1.0) + collapse_loss(q)
    else:
        dense, pool = to_dense_adj(data.edge_index, max_num_nodes=size), DMoNPooling(1, CLUSTERS)
        # The pooling has a network of its own; with this one its assignment is the same as ours.
        pool.mlp = torch.nn.Identity()

        def loss() -> torch.Tensor:
            *_, spectral, _, cluster = pool(logits[None], dense)
            return spectral + cluster

    def step() -> None:
        logits.grad = None
        loss().backward()

    value = float(loss().detach())
    return {"seconds": seconds(step, 5), "mib": environment.peak_memory() - before, "value": value}


def dmon() -> str:
    """A line for each size; a contestant that fails is left out from there on."""
    lines = []
    failed: set[str] = set()
    for size in SIZES:
        found = {}
        for contestant in ("ours", "dense"):
            if contestant in failed:
                continue
            child = subprocess.run(
                [
                    sys.executable,
                    __file__,
                    "one",
                    contestant,
                    str(size),
                    "--threads",
                    str(torch.get_num_threads()),
                ],
                capture_output=True,
                text=True,
            )
            if child.returncode:
                failed.add(contestant)
            else:
                found[contestant] = json.loads(child.stdout)
        mine, other = found["ours"], found.get("dense")
        line = [
            f"{size:,}",
            f"{1000 * mine['seconds']:.2f}",
            "failed",
            "",
            f"{mine['mib']:.0f}",
            "",
            "",
        ]
        if other is not None:
            same = math.isclose(mine["value"], other["value"], rel_tol=1e-3)
            line[2:4] = (
                f"{1000 * other['seconds']:.1f}",
                f"{other['seconds'] / mine['seconds']:.0f}",
            )
            line[5:] = f"{other['mib']:.0f}", "yes" if same else "no"
        lines.append(line)
    return _pages.table(
        (
            "nodes",
            "ours, ms",
            "DMoNPooling, ms",
            "times faster",
            "ours, MiB",
            "DMoNPooling, MiB",
            "same loss",
        ),
        lines,
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("command", choices=("roofline", "dmon", "one"))
    parser.add_argument("words", nargs="*", help=argparse.SUPPRESS)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument(
        "--out",
        type=Path,
        metavar="FILE",
        help="a markdown file to write the table to, between its marks",
    )
    args = parser.parse_args()
    name = f"kernels.py {args.command}"
    if args.out:
        _pages.check(args.out, name)
    torch.set_num_threads(args.threads)
    torch.manual_seed(0)
    if args.command == "one":
        print(json.dumps(modularity_cost(args.words[0], int(args.words[1]))))
        return
    loads = [os.getloadavg()[0]]
    text = roofline() if args.command == "roofline" else dmon()
    loads.append(os.getloadavg()[0])
    text = (
        f"{args.threads} thread(s) on {os.cpu_count()} cores, load of the machine "
        f"{loads[0]:.1f} to {loads[1]:.1f}.\n\n{text}"
    )
    print(text)
    if args.out:
        _pages.write(args.out, name, text)


if __name__ == "__main__":
    main()
