"""Ours beside pygda's models of the same name or idea, on two citation networks.

    python benchmarks/peers.py --out docs/research/performance.md

Ours and pygda's take turns, each in a process of its own that reads the same two graphs: every
source node labelled, no target label, rows of the features of length one. Both have the same width,
dropout, learning rate, weight decay and number of gradient steps, both work on full batches in one
thread, and each turn has its own seed. Times are of the processor, which other work on the machine
moves less than those of the clock. A gradient step lasts from the first line of the loss to the end
of the optimiser's step. The whole training is pygda's ``fit`` and ``predict``, and our
``trainer.fit``, which makes the graphs ready and evaluates ten times. What of it are no gradient
steps has a row of its own: in pygda that is a loader which copies both graphs in each epoch, and a
score on the source; neither can be switched off.

What differs by nature:

- A2GNN is the same model on both sides.
- pygda's MMD is the mean of five draws of 1,000 nodes a side, and the sum of five kernels; ours is
  one draw and their mean, so that a fifth of our weight is the same objective. In our MMD, but not
  in our A2GNN, the weight rises from 0; pygda's has it from the start.
- pygda has no model called MMD or DANN. Its A2GNN with one hop on both graphs is a GCN with an MMD
  or a linear domain classifier. UDAGCN without its PPMI branch is DANN on two convolutions with a
  linear head; its dropout is 0.1 and its alignment is weighted by 1, always, and at the common
  learning rate it learns nothing, so that it has a tenth of it.
- pygda's StruRW is two layers of its GraphSAGE with a linear head, since its GCN fails with PyG
  2.8; it drops out in predictions too. Both estimate the edges' weights every tenth of the
  training; pygda's hold for the one step in which they are made, since its loader hands out fresh
  copies.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path
from statistics import mean, median, pstdev
from typing import Any, Callable, NamedTuple

import _pages
import speed

WIDTH, DROPOUT = 64, 0.5
"""Of the hidden layer; learning rate and weight decay are our defaults."""
NEEDED = ("pygda", "pandas", "cvxpy", "torch_scatter", "torch_sparse", "torch_cluster")
HOW = (
    "pip install pygda==1.2.1 pandas cvxpy 'numpy<2.4', then pip install --no-build-isolation "
    "torch-scatter torch-sparse torch-cluster, "
    "which compiles for some twenty minutes"
)


class Pair(NamedTuple):
    """One of our methods with its options, a model of pygda with its own, and gradient steps: few
    where pygda takes seconds for one."""

    method: str
    options: dict[str, Any]
    model: str
    others: dict[str, Any]
    steps: int = 100


PAIRS = {
    "a2gnn": Pair(
        "a2gnn",
        {"target_hops": 10, "weight": 25.0, "sample": 1000},
        "A2GNN",
        {"num_layers": 1, "s_pnums": 0, "t_pnums": 10, "weight": 5.0},
        10,
    ),
    "mmd": Pair(
        "mmd",
        {"weight": 1.0, "sample": 1000},
        "A2GNN",
        {"num_layers": 1, "s_pnums": 1, "t_pnums": 1, "weight": 0.2},
        10,
    ),
    "dann": Pair(
        "dann",
        {"weight": 0.01},
        "A2GNN",
        {"num_layers": 1, "s_pnums": 1, "t_pnums": 1, "weight": 0.02, "adv": True},
    ),
    "dann-udagcn": Pair(
        "dann", {"weight": 0.01}, "UDAGCN", {"num_layers": 2, "ppmi": False, "lr": 0.001}
    ),
    "strurw": Pair(
        "strurw",
        {"strength": 0.8},
        "StruRW",
        {"num_layers": 2, "cls_layers": 1, "gnn": "GS", "lamb": 0.8},
        10,
    ),
}

KINDS = {"a2gnn": "mlp", "strurw": "sageconv"}
"""Backbones of ours other than GCN."""


class Clock:
    """Processor time of each gradient step, from the call of what makes the loss to the end of the
    optimiser's step."""

    def __init__(self) -> None:
        from torch.optim.optimizer import register_optimizer_step_post_hook

        self.begun, self.steps = 0.0, []
        register_optimizer_step_post_hook(self._end)

    def _end(self, *_: Any) -> None:
        self.steps.append(time.process_time() - self.begun)

    def begin_with(self, function: Callable) -> Callable:
        def timed(*args: Any) -> Any:
            self.begun = time.process_time()
            return function(*args)

        return timed


def save(file: Path, source: str, target: str) -> None:
    """Write both graphs as tensors, with the labels of both."""
    import torch

    from graphgym_srnc import shifts

    task = shifts.find("cross_graph")(source=source, target=target)
    graphs = (
        (torch.nn.functional.normalize(graph.x), graph.edge_index, graph.y)
        for graph in (task.source, task.target)
    )
    torch.save([tensor for graph in graphs for tensor in graph], file)


def ours(
    pair: Pair, source: Any, target: Any, num_classes: int, args: argparse.Namespace, clock: Clock
) -> Callable[[], float]:
    """A training with our trainer, which gives the Micro-F1 of the target."""
    import torch

    from graphgym_srnc import methods
    from graphgym_srnc.backbones import EncoderSpec
    from graphgym_srnc.core.task import ShiftTask
    from graphgym_srnc.train import trainer

    everyone, nobody = torch.arange(target.num_nodes), torch.empty(0, dtype=torch.long)
    task = ShiftTask(
        "peers",
        source,
        target,
        torch.arange(source.num_nodes),
        nobody,
        everyone,
        everyone,
        num_classes,
        False,
        scored=False,
    )
    spec = EncoderSpec(
        kind=KINDS.get(pair.method, "gcnconv"), hidden=WIDTH, dropout=DROPOUT, features="none"
    )
    method = methods.find(pair.method)(
        encoder=spec, steps=args.steps // 10, rounds=9, **pair.options
    )
    method.losses = clock.begin_with(method.losses)
    return lambda: trainer.fit(method, task, seed=args.seed, selection="last").test["micro_f1"]


def pygda(
    pair: Pair, source: Any, target: Any, num_classes: int, args: argparse.Namespace, clock: Clock
) -> Callable[[], float]:
    """The same by pygda, which is given no label of the target."""
    from pygda import models

    settings = {
        "in_dim": source.num_features,
        "hid_dim": WIDTH,
        "num_classes": num_classes,
        "dropout": DROPOUT,
        "lr": 0.01,
        "weight_decay": 5e-4,
        "epoch": args.steps,
        "device": "cpu",
        "verbose": 0,
        **pair.others,
    }
    if pair.model == "StruRW":
        settings |= {"ew_start": args.steps // 10, "ew_freq": args.steps // 10}
    model = getattr(models, pair.model)(**settings)
    model.forward_model, truth = clock.begin_with(model.forward_model), target.y
    target.y = truth.new_zeros(truth.shape)

    def train() -> float:
        model.fit(source, target)
        return float((model.predict(target)[0].argmax(1) == truth).float().mean())

    return train


def measure(side: str, pair: Pair, file: Path, args: argparse.Namespace) -> dict[str, float]:
    """Figures of one training in this process; memory is what it takes beyond the imports and the
    graphs."""
    import psutil
    import torch
    from torch_geometric.data import Data

    from graphgym_srnc.core import environment

    torch.set_num_threads(1)
    torch.manual_seed(args.seed)
    tensors, clock = torch.load(file, weights_only=True), Clock()
    source, target = (
        Data(x=x, edge_index=edges, y=y) for x, edges, y in (tensors[:3], tensors[3:])
    )
    train = {"ours": ours, "pygda": pygda}[side](
        pair, source, target, int(source.y.max()) + 1, args, clock
    )
    environment.reset_peak_memory()
    before, begin = psutil.Process().memory_info().rss / 2**20, time.process_time()
    with contextlib.redirect_stdout(io.StringIO()):
        score = train()
    seconds = time.process_time() - begin
    return {
        "step": 1000 * median(clock.steps),
        "seconds": seconds,
        "rest": 100 * (1 - sum(clock.steps) / seconds),
        "mib": environment.peak_memory() - before,
        "score": 100 * score,
    }


def compare(name: str, file: Path, args: argparse.Namespace) -> list[tuple[str, ...]]:
    """Lines of the table for one pair."""
    found: dict[str, dict[str, list[float]]] = {"ours": {}, "pygda": {}}
    pair, steps = PAIRS[name], args.steps or PAIRS[name].steps
    for turn in range(args.turns):
        for side, figures in found.items():
            child = speed.run(
                __file__, "--one", side, name, file, "--seed", turn, "--steps", steps, threads=1
            )
            for figure, value in {**json.loads(child.output), "process": child.mib}.items():
                figures.setdefault(figure, []).append(value)
    title = f"{pair.method}, {pair.model}{' (adv)' if 'adv' in pair.others else ''}: "
    lines = [
        speed.Row(title + what, unit, *(found[side][figure] for side in found)).cells()[:5]
        for figure, what, unit in (
            ("step", "gradient step", "ms"),
            ("seconds", f"whole training, {steps} steps", "s"),
            ("mib", "memory beyond imports and graphs", "MiB"),
            ("process", "memory of the process", "MiB"),
        )
    ]
    rest, score = ([found[side][figure] for side in found] for figure in ("rest", "score"))
    lines.append(
        (
            title + "training beside gradient steps",
            *(f"{median(each):.0f} %" for each in rest),
            "",
            "",
        )
    )
    # After a few steps a score says nothing.
    if steps >= 100:
        spread = (f"{mean(each):.1f} ± {pstdev(each):.1f}" for each in score)
        lines.append((title + "Micro-F1", *spread, "", ""))
    return lines


def main() -> None:
    """Measure, print the table as it grows, and write it at the end."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pairs", nargs="+", choices=PAIRS, default=list(PAIRS))
    parser.add_argument("--source", default="acmv9")
    parser.add_argument("--target", default="dblpv7")
    parser.add_argument(
        "--turns", type=int, default=3, help="trainings of each, with seeds 0, 1, ... (default: 3)"
    )
    parser.add_argument(
        "--steps",
        type=int,
        default=0,
        help="gradient steps, a multiple of 10 (default: 100, of some pairs 10)",
    )
    parser.add_argument(
        "--out",
        type=Path,
        metavar="FILE",
        help="a markdown file to write the table to, between its marks",
    )
    parser.add_argument("--seed", type=int, default=0, help=argparse.SUPPRESS)
    parser.add_argument("--one", nargs=3, help=argparse.SUPPRESS)
    parser.add_argument("--save", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.steps % 10:
        parser.error("--steps is a multiple of 10")
    if args.one:
        print(json.dumps(measure(args.one[0], PAIRS[args.one[1]], Path(args.one[2]), args)))
    elif args.save:
        save(Path(args.save), args.source, args.target)
    else:
        report(args)


def report(args: argparse.Namespace) -> None:
    """Measure each pair, print what is new, and write the whole at the end."""
    missing = [package for package in NEEDED if find_spec(package) is None]
    if missing:
        raise SystemExit(f"pygda cannot be imported, there is no {', '.join(missing)}: {HOW}")
    if args.out:
        _pages.check(args.out, "peers.py")
    head, lines = ("", "ours", "pygda", "pygda / ours", "range"), []
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "graphs.pt")
        speed.run(
            __file__, "--save", file, "--source", args.source, "--target", args.target, threads=1
        )
        for name in args.pairs:
            new = compare(name, file, args)
            print(_pages.table(head, new), flush=True)
            lines += new
    text = (
        f"{args.source} to {args.target}, width {WIDTH}, one thread, {args.turns} rounds: "
        "medians, the ratio's range over rounds, mean and deviation of Micro-F1 in %.\n\n"
        + _pages.table(head, lines)
    )
    print(text)
    if args.out:
        _pages.write(args.out, "peers.py", text)


if __name__ == "__main__":
    main()
