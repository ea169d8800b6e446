"""Speed and memory beside stock GraphGym and plain PyG scripts, in one run.

    python benchmarks/speed.py step --threads 1                      # training steps
    python benchmarks/speed.py run --threads 1 --graphs cora pubmed  # whole runs
    python benchmarks/speed.py step --graphs cora --device cuda
    python benchmarks/speed.py default           # graphgym-srnc run beside its imports alone

A step is forward pass, loss, backward pass and optimiser, on the same graph in the same process. A
run is a whole process, from the raw files to the table. Ours and the others alternate, so other
work on the machine affects all of them. A ratio is the median over the rounds of the other's figure
divided by ours. GRAPHGYM_SRNC_DATA names the data folder.
"""

from __future__ import annotations

import argparse
import copy
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any, Callable, Sequence

import numpy as np
import torch
from directives import table
from torch import Tensor, nn
from torch.nn import functional as F
from torch_geometric import EdgeIndex
from torch_geometric import nn as pyg
from torch_geometric.data import Data
from torch_geometric.transforms import ToSparseTensor

from graphgym_srnc import backbones, shifts
from graphgym_srnc.core import environment
from graphgym_srnc.data import block_model, home
from graphgym_srnc.methods.shared.cluster_gnn import ClusterGNN
from graphgym_srnc.methods.shared.training import adam, minimise

Step = Callable[[], None]

PLANETOID = {"cora": "Cora", "citeseer": "CiteSeer", "pubmed": "PubMed"}
LARGE = "arxiv-size"
ARXIV = {"nodes": 169_343, "edges": 1_166_243, "features": 128, "classes": 40, "train": 12_974}
"""Size of ogbn-arxiv, and of its training set in the time split of the paper."""

LAYERS = {"gcn": "gcnconv", "sage": "sageconv", "gat": "gatconv", "sgc": "sgconv"}
"""Backbones by their short names, and what GraphGym calls them (it has no SGC)."""

RUNS = {"erm": ("erm.rounds", 50, "train.patience", 3), "srnc": (), "srnc-plus": ()}
"""Our configs of a whole run and what they change. The plain GNN goes on until it converges by the
rule that stops srnc: no better Micro-F1 on validation for three episodes, each of 100 steps."""

PLAIN_GCN = (
    "gnn.layer_type gcnconv gnn.layers_mp 2 gnn.dim_inner 256 gnn.dropout 0.5 gnn.batchnorm False"
    " gnn.l2norm False optim.max_epoch 200 accelerator cpu tensorboard_agg False"
).split()
"""Everything else is GraphGym's default: Adam, transductive, public split, checkpoints on,
validation each epoch. Batch and l2 normalisation, on by default, are off: a plain GCN has neither,
and stock GraphGym is faster so."""


# Training steps


def load(graph: str) -> tuple[Data, Tensor, int]:
    """A graph, its labelled nodes ``[n]`` and the number of outputs: the open-set split of a real
    one, or a large one made here."""
    if graph != LARGE:
        task = shifts.find("open_set")(name=graph, split_seed=0, num_unseen=1)
        return task.source, task.train, task.num_outputs
    rng = np.random.RandomState(0)
    data = block_model.dcsbm(
        num_nodes=ARXIV["nodes"],
        shares=block_model.class_shares(ARXIV["classes"], 3.0, rng),
        topics=np.ones((ARXIV["classes"], 2)),
        rng=rng,
        avg_degree=2 * ARXIV["edges"] / ARXIV["nodes"],
    )
    features = rng.standard_normal((ARXIV["nodes"], ARXIV["features"])).astype(np.float32)
    data.x = torch.from_numpy(features)
    train = torch.from_numpy(rng.permutation(ARXIV["nodes"])[: ARXIV["train"]])
    return data, train, ARXIV["classes"]


def ours(layer: str, data: Data, nodes: Tensor | None, num_outputs: int) -> Step:
    """Our step with the default encoder (hidden 256, 2 layers): loss on ``nodes`` ``[n]``, or on
    all (None)."""
    spec = backbones.EncoderSpec(kind=LAYERS[layer])
    graph = backbones.prepare(data, spec.features)
    model = backbones.build(spec, graph.num_features, num_outputs).to(graph.device)
    view, optimizer = model.view(graph, nodes), adam(model.parameters())
    label = data.y if nodes is None else data.y[nodes]
    # A real graph has a few nodes without a label.
    label = label.where(label >= 0, 0)
    return training(lambda: F.cross_entropy(model(view), label), optimizer)


def training(loss: Callable[[], Tensor], optimizer: torch.optim.Optimizer) -> Step:
    """A step on a loss."""

    def step() -> None:
        optimizer.zero_grad()
        loss().backward()
        optimizer.step()

    return step


def every_node(layer: str, data: Data, nodes: Tensor, num_outputs: int) -> Step:
    """Our step with the loss on all nodes."""
    return ours(layer, data, None, num_outputs)


def modularity(layer: str, data: Data, nodes: Tensor, num_outputs: int) -> Step:
    """The step of a cluster GNN on modularity over all nodes, with 16 clusters, as SRNC pre-trains
    it."""
    spec = replace(backbones.EncoderSpec(kind=LAYERS[layer]), act="selu", skip=True)
    graph = backbones.prepare(data, spec.features)
    weights = {"resolution": 1.0, "collapse": 1.0, "modularity_weight": 1.0, "lr": 0.01}
    cluster = ClusterGNN(spec, 16, num_outputs, graph, graph, **weights)
    view = cluster.encoder.view(graph)

    def loss() -> dict[str, Tensor]:
        return {"loss": cluster.target_loss(cluster.encoder(view).log_softmax(1))}

    return lambda: minimise(cluster.encoder, cluster.optimizer, loss, 1)


class Plain(nn.Module):
    """PyG's own layers, as a script without GraphGym has them."""

    def __init__(self, layer: str, in_dim: int, out_dim: int) -> None:
        super().__init__()
        spec = backbones.EncoderSpec()
        hidden, heads, self.dropout = spec.hidden, spec.heads, spec.dropout
        conv, shapes, more = {
            "gcn": (pyg.GCNConv, [(in_dim, hidden), (hidden, out_dim)], {"cached": True}),
            "sage": (pyg.SAGEConv, [(in_dim, hidden), (hidden, out_dim)], {}),
            "gat": (pyg.GATConv, [(in_dim, hidden // heads, heads), (hidden, out_dim)], {}),
            "sgc": (pyg.SGConv, [(in_dim, out_dim)], {"K": 2, "cached": True}),
        }[layer]
        self.layers = nn.ModuleList(conv(*shape, **more) for shape in shapes)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        for number, layer in enumerate(self.layers):
            x = layer(F.dropout(x.relu(), self.dropout, self.training) if number else x, edge_index)
        return x


def plain(layer: str, data: Data, nodes: Tensor, num_outputs: int) -> Step:
    """A plain PyG script: loss on the labelled nodes, every node computed."""
    return script(layer, dense(data), data.edge_index, data.y[nodes], nodes, num_outputs)


def csr(layer: str, data: Data, nodes: Tensor, num_outputs: int) -> Step:
    """The same script as PyG's documentation advises for speed: the transposed adjacency in CSR,
    and features in CSR where most of them are zero.

    Attention has no sparse product, so GAT gets a sorted :class:`EdgeIndex` with its caches filled.
    SAGE and SGC refuse sparse features.
    """
    x, nodes_of_graph = dense(data), (data.num_nodes, data.num_nodes)
    if layer in ("gcn", "gat") and (x != 0).float().mean() < 0.2:
        x = x.to_sparse_csr()
    if layer == "gat":
        edges, _ = EdgeIndex(data.edge_index, sparse_size=nodes_of_graph).sort_by("col")
        edges.fill_cache_()
    else:
        edges = ToSparseTensor(layout=torch.sparse_csr)(copy.copy(data)).adj_t
    return script(layer, x, edges, data.y[nodes], nodes, num_outputs)


def dense(data: Data) -> Tensor:
    return data.x.to_dense() if data.x.layout != torch.strided else data.x


def script(
    layer: str, x: Tensor, edges: Any, label: Tensor, nodes: Tensor, num_outputs: int
) -> Step:
    model = Plain(layer, x.size(1), num_outputs).to(x.device)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)
    return training(lambda: F.cross_entropy(model(x, edges)[nodes], label), optimizer)


def stock(layer: str, data: Data, nodes: Tensor, num_outputs: int) -> Step:
    """GraphGym's own network, loss and optimiser: loss on the nodes of the train mask, as its
    trainer does it."""
    from torch_geometric.graphgym.config import assert_cfg, cfg
    from torch_geometric.graphgym.model_builder import create_model

    cfg.merge_from_list([*PLAIN_GCN, "gnn.layer_type", LAYERS[layer]])
    assert_cfg(cfg)
    model = create_model(dim_in=data.num_features, dim_out=num_outputs).to(nodes.device)
    (optimizer,), _ = model.configure_optimizers()
    data = copy.copy(data)
    mask = torch.zeros(data.num_nodes, dtype=torch.bool, device=nodes.device)
    data.train_mask = mask.index_fill_(0, nodes, True)
    # GraphGym's network overwrites the features of its batch.
    return training(lambda: model.training_step(copy.copy(data))["loss"], optimizer)


CONTESTANTS: dict[str, Callable[[str, Data, Tensor, int], Step]] = {
    "labelled": ours,
    "all": every_node,
    "modularity": modularity,
    "plain": plain,
    "csr": csr,
    "stock": stock,
}
NAMES = {
    "stock": "stock GraphGym",
    "plain": "a plain PyG script",
    "csr": "PyG with CSR and sparse features",
}


def time_steps(args: argparse.Namespace) -> dict[str, Any]:
    """Milliseconds of a step of each contestant, one figure a round, and this process's peak memory
    in MiB; after a warm-up all alternate in each round."""
    # A GPU works on after a step returns.
    wait = torch.cuda.synchronize if args.device == "cuda" else lambda: None
    torch.set_num_threads(args.threads)
    torch.manual_seed(0)
    (graph,), (layer,) = args.graphs, args.layers
    data, nodes, num_outputs = load(PLANETOID.get(graph, graph))
    data, nodes = copy.copy(data).to(args.device), nodes.to(args.device)
    steps = {name: CONTESTANTS[name](layer, data, nodes, num_outputs) for name in args.contestants}
    taken: dict[str, list[float]] = {name: [] for name in steps}
    block = 1 if graph == LARGE else 5
    for number in range(args.rounds + 1):
        for name, step in steps.items():
            wait()
            begin = time.perf_counter()
            for _ in range(block):
                step()
            wait()
            if number > 0:
                taken[name].append(1000 * (time.perf_counter() - begin) / block)
    return {"ms": taken, "mib": environment.peak_memory()}


def compare_steps(graph: str, args: argparse.Namespace) -> list[list[str]]:
    """Lines of the table for a graph: steps of each backbone, and the memory of GCN steps."""

    def child(layer: str, rounds: int, *contestants: str) -> dict[str, Any]:
        words = ["step", "--graphs", graph, "--layers", layer, "--rounds", rounds]
        words += ["--threads", args.threads, "--device", args.device, "--contestants", *contestants]
        return json.loads(run(__file__, *words, threads=args.threads)[1])

    lines = []
    for layer in args.layers:
        others = [name for name in NAMES if layer != "sgc" or name != "stock"]
        own = ["labelled", "all"] if layer == "sgc" else ["labelled", "all", "modularity"]
        taken = child(layer, args.rounds, *own, *others)["ms"]
        for other in others:
            for key in ("labelled", "all"):
                nodes = "labelled nodes" if key == "labelled" else "all nodes"
                title = f"{layer} step, {graph}, loss on {nodes}, against {NAMES[other]}"
                lines.append(row(title, "ms", taken[key], taken[other]))
        if "modularity" in own:
            title = f"{layer} modularity step, {graph}, against our step on all nodes"
            lines.append(row(title, "ms", taken["modularity"], taken["all"]))
    if graph == LARGE:
        ours, all_nodes, theirs = (child("gcn", 2, c)["mib"] for c in ("labelled", "all", "stock"))
        for nodes, mib in (("labelled nodes", ours), ("all nodes", all_nodes)):
            title = f"peak memory of gcn steps, {graph}, loss on {nodes}, against stock GraphGym"
            lines.append(row(title, "MiB", [mib], [theirs]))
    return lines


# Whole runs


def train_stock(name: str, folder: str, out: str, threads: str) -> None:
    """Train one GCN for 200 epochs with the lines of PyG's public ``graphgym/main.py``, and print
    the seconds from the raw files on and the peak memory in MiB."""
    from torch_geometric import seed_everything
    from torch_geometric.graphgym.config import assert_cfg, cfg, dump_cfg, set_out_dir, set_run_dir
    from torch_geometric.graphgym.logger import set_printing
    from torch_geometric.graphgym.model_builder import create_model
    from torch_geometric.graphgym.train import GraphGymDataModule, train
    from torch_geometric.graphgym.utils import agg_runs, auto_select_device, params_count

    settings = ["dataset.name", name, "dataset.dir", folder, "num_threads", threads]
    cfg.merge_from_list([*PLAIN_GCN, *settings])
    assert_cfg(cfg)
    set_out_dir(out, "plain_gcn.yaml")
    dump_cfg(cfg)
    torch.set_num_threads(cfg.num_threads)
    set_run_dir(cfg.out_dir)
    set_printing()
    seed_everything(cfg.seed)
    begin = time.perf_counter()
    auto_select_device()
    datamodule, model = GraphGymDataModule(), create_model()
    cfg.params = params_count(model)
    train(model, datamodule, logger=True)
    agg_runs(cfg.out_dir, cfg.metric_best)
    print(json.dumps([time.perf_counter() - begin, environment.peak_memory()]))


def compare_runs(graph: str, args: argparse.Namespace) -> list[list[str]]:
    """Lines of the table for a graph: whole processes, what is left of them without imports, and
    memory."""
    raw = Path(home.data_folder(), "planetoid", PLANETOID[graph], "raw").absolute()
    taken: dict[str, dict[str, list[float]]] = {}
    with tempfile.TemporaryDirectory() as folder:
        # PyG writes processed files beside the raw ones, and finds them from round 2 on.
        shutil.copytree(raw, Path(folder, PLANETOID[graph], PLANETOID[graph], "raw"))
        for key in ["stock", *RUNS] * args.rounds:
            out = Path(folder, key)
            if key == "stock":
                words = [__file__, "stock", PLANETOID[graph], folder, out, args.threads]
                seconds, cpu, text = run(*words, threads=args.threads)
                inside, mib = json.loads(text.splitlines()[-1])
            else:
                words = ["-m", "graphgym_srnc", "run", "--cfg", f"paper/open_set/{graph}-{key}"]
                words += ["--overwrite", "--out-dir", out, "--name", "run", "--no-figures"]
                words += ["num_threads", args.threads, *RUNS[key]]
                seconds, cpu, _ = run(*words, threads=args.threads)
                record = json.loads((out / "run/0/result.json").read_text(encoding="utf-8"))
                inside, mib = record["seconds"], record["peak_memory_mib"]
            figures = {"whole run": seconds, "whole run, processor": cpu}
            figures |= {"without imports": inside, "peak memory": mib}
            for what, figure in figures.items():
                taken.setdefault(what, {}).setdefault(key, []).append(figure)
    return [
        row(
            f"{what}, {graph}, {key}, against stock GraphGym",
            "MiB" if what == "peak memory" else "s",
            by_key[key],
            by_key["stock"],
        )
        for what, by_key in taken.items()
        for key in RUNS
    ]


def compare_default(rounds: int) -> list[list[str]]:
    """Lines of the table: processor seconds of ``graphgym-srnc run`` and of imports alone, without
    variables that set a number of threads."""
    taken: dict[str, list[float]] = {}
    commands = {"import": ["-c", "import torch, torch_geometric"]}
    with tempfile.TemporaryDirectory() as folder:
        for mode in ("srnc", "srnc_plus"):
            words = ["--overwrite", "--out-dir", folder, "--name", mode, "train.mode", mode]
            commands[mode] = ["-m", "graphgym_srnc", "run", *words]
        for key in [*commands] * rounds:
            taken.setdefault(key, []).append(run(*commands[key], threads=None)[1])
    imports = taken.pop("import")
    return [row(f"run, train.mode {mode}", "s", imports, cpu) for mode, cpu in taken.items()]


def run(*command: object, threads: int | None) -> tuple[float, float, str]:
    """Seconds of the clock and of the processor that a Python command takes to its end, imports
    included, and what it printed.

    Args:
        command: words after ``python``.
        threads: value of the variables that set a number of threads; None = they are not set.

    Raises:
        SystemExit: the command failed.
    """
    path = os.pathsep.join(filter(None, [sys.path[0] + "/..", os.environ.get("PYTHONPATH")]))
    free = {key: value for key, value in os.environ.items() if key not in environment.VARIABLES}
    more = {"PYTHONPATH": path, "GRAPHGYM_SRNC_DATA": str(Path(home.data_folder()).absolute())}
    if threads is not None:
        more |= dict.fromkeys(environment.VARIABLES, str(threads))
    begin, before = time.perf_counter(), os.times()
    words = [sys.executable, *map(str, command)]
    done = subprocess.run(words, env=free | more, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(words)} failed:\n{done.stderr[-2000:]}")
    seconds, after = time.perf_counter() - begin, os.times()
    cpu = after.children_user + after.children_system
    return seconds, cpu - before.children_user - before.children_system, done.stdout


def row(title: str, unit: str, ours: Sequence[float], other: Sequence[float]) -> list[str]:
    """A line of the table: medians, and the median and range of the ratio."""
    ratios = sorted(theirs / mine for mine, theirs in zip(ours, other))
    medians = (median(ours), median(other))
    cells = [f"{figure:,.{0 if figure >= 100 else 1}f} {unit}" for figure in medians]
    return [title, *cells, f"{median(ratios):.1f}", f"{ratios[0]:.1f} to {ratios[-1]:.1f}"]


def main() -> None:
    if sys.argv[1:2] == ["stock"]:
        return train_stock(*sys.argv[2:])
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    option = parser.add_argument
    option("command", choices=("step", "run", "default"))
    graphs = [*PLANETOID, LARGE]
    option("--graphs", nargs="+", choices=graphs, metavar="GRAPH", help=f"of {', '.join(graphs)}")
    option("--layers", nargs="+", choices=LAYERS, default=[*LAYERS], help="backbones of steps")
    option("--rounds", type=int, default=3, help="rounds of steps or runs (default: 3)")
    option("--threads", type=int, default=1, help="threads of all programs (default: 1)")
    option("--device", choices=("cpu", "cuda"), default="cpu", help="of steps (default: cpu)")
    option("--contestants", nargs="+", choices=CONTESTANTS, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.contestants:
        print(json.dumps(time_steps(args)))
        return None
    lines = []
    if args.command == "default":
        lines = compare_default(args.rounds)
        print(table(["CPU seconds", "imports", "run", "run / imports", "range"], lines))
        return None
    for graph in args.graphs or graphs[: 4 if args.command == "step" else 3]:
        lines += compare_steps(graph, args) if args.command == "step" else compare_runs(graph, args)
        print(f"{graph}: done, load of the machine {os.getloadavg()[0]:.1f}", file=sys.stderr)
    print(table(["", "ours", "other", "other / ours", "range"], lines))
    return None


if __name__ == "__main__":
    main()
