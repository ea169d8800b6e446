"""Times training steps of ours, of stock GraphGym and of plain PyG scripts by turns, on the same
graph in the same process.

A step is forward, loss, backward and optimiser. ``speed.py`` calls this; it prints the seconds of
each step as JSON.
"""

from __future__ import annotations

import argparse
import copy
import json
import time
from dataclasses import replace
from typing import Callable

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch_geometric import EdgeIndex
from torch_geometric import nn as pyg
from torch_geometric.data import Data
from torch_geometric.transforms import ToSparseTensor

from graphgym_srnc import backbones, shifts
from graphgym_srnc.core import environment
from graphgym_srnc.data import block_model
from graphgym_srnc.methods.shared.cluster_gnn import ClusterGNN
from graphgym_srnc.methods.shared.training import adam, minimise

Step = Callable[[], None]

ARXIV = {"nodes": 169_343, "edges": 1_166_243, "features": 128, "classes": 40, "train": 12_974}
"""Size of ogbn-arxiv, and of its training set in the time split of the paper."""


def load(graph: str) -> tuple[Data, Tensor, int]:
    """A graph, its labelled nodes ``[n]`` and the number of outputs: the open-set split of a real
    one, or a large one made here."""
    if graph != "arxiv-size":
        task = shifts.find("open_set")(name=graph, split_seed=0, num_unseen=1)
        return task.source, task.train, task.num_outputs
    rng = np.random.RandomState(0)
    shares = block_model.class_shares(ARXIV["classes"], 3.0, rng)
    data = block_model.dcsbm(
        num_nodes=ARXIV["nodes"],
        shares=shares,
        topics=np.ones((ARXIV["classes"], 2)),
        rng=rng,
        avg_degree=2 * ARXIV["edges"] / ARXIV["nodes"],
    )
    features = rng.standard_normal((ARXIV["nodes"], ARXIV["features"])).astype(np.float32)
    data.x = torch.from_numpy(features)
    train = torch.from_numpy(rng.permutation(ARXIV["nodes"])[: ARXIV["train"]])
    return data, train, ARXIV["classes"]


LAYERS = {"gcn": "gcnconv", "sage": "sageconv", "gat": "gatconv", "sgc": "sgconv"}
"""Backbones by their short names, and what GraphGym calls them (it has no SGC)."""


def ours(layer: str, data: Data, nodes: Tensor | None, num_outputs: int) -> Step:
    """The step of ``fit_parts`` with the default encoder (hidden 256, 2 layers): loss on ``nodes``
    ``[n]``, or on all (None)."""
    spec = backbones.EncoderSpec(kind=LAYERS[layer])
    graph = backbones.prepare(data, spec.features)
    model = backbones.build(spec, graph.num_features, num_outputs).to(graph.device)
    view, label, optimizer = (
        model.view(graph, nodes),
        data.y if nodes is None else data.y[nodes],
        adam(model.parameters()),
    )
    # A real graph has a few nodes without a label.
    label = label.where(label >= 0, 0)

    def step() -> None:
        loss = F.cross_entropy(model(view), label)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    return step


def modularity(layer: str, data: Data, nodes: Tensor, num_outputs: int) -> Step:
    """The step of a cluster GNN on modularity over all nodes, with 16 clusters, as SRNC pre-trains
    it."""
    spec = replace(backbones.EncoderSpec(kind=LAYERS[layer]), act="selu", skip=True)
    graph = backbones.prepare(data, spec.features)
    cluster = ClusterGNN(
        spec,
        16,
        num_outputs,
        graph,
        graph,
        resolution=1.0,
        collapse=1.0,
        modularity_weight=1.0,
        lr=0.01,
    )
    view = cluster.encoder.view(graph)

    def loss() -> dict[str, Tensor]:
        return {"loss": cluster.target_loss(cluster.encoder(view).log_softmax(1))}

    return lambda: minimise(cluster.encoder, cluster.optimizer, loss, 1)


class Plain(nn.Module):
    """What a script on PyG does: two cached convolutions with dropout between them, on dense
    features."""

    def __init__(
        self,
        layer: str,
        in_dim: int,
        out_dim: int,
        hidden: int = 256,
        heads: int = 8,
        dropout: float = 0.5,
    ) -> None:
        super().__init__()
        self.dropout = dropout
        self.layers = nn.ModuleList(
            {
                "gcn": lambda: [
                    pyg.GCNConv(in_dim, hidden, cached=True),
                    pyg.GCNConv(hidden, out_dim, cached=True),
                ],
                "sage": lambda: [pyg.SAGEConv(in_dim, hidden), pyg.SAGEConv(hidden, out_dim)],
                "gat": lambda: [
                    pyg.GATConv(in_dim, hidden // heads, heads),
                    pyg.GATConv(hidden, out_dim),
                ],
                "sgc": lambda: [pyg.SGConv(in_dim, out_dim, K=2, cached=True)],
            }[layer]()
        )

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        for number, layer in enumerate(self.layers):
            x = layer(F.dropout(x.relu(), self.dropout, self.training) if number else x, edge_index)
        return x


def plain(layer: str, data: Data, nodes: Tensor, num_outputs: int) -> Step:
    """A plain PyG script: loss on the labelled nodes, every node computed."""
    return _plain(layer, _dense(data), data.edge_index, data.y, nodes, num_outputs)


def csr(layer: str, data: Data, nodes: Tensor, num_outputs: int) -> Step:
    """The same script as PyG's documentation advises for speed: the transposed adjacency in CSR,
    and features in CSR where most of them are zero.

    Attention has no sparse product, so GAT gets a sorted :class:`EdgeIndex` with its caches filled.
    SAGE and SGC refuse sparse features.
    """
    x, nodes_of_graph = _dense(data), (data.num_nodes, data.num_nodes)
    if layer in ("gcn", "gat") and (x != 0).float().mean() < 0.2:
        x = x.to_sparse_csr()
    if layer == "gat":
        edges, _ = EdgeIndex(data.edge_index, sparse_size=nodes_of_graph).sort_by("col")
        edges.fill_cache_()
    else:
        edges = ToSparseTensor(layout=torch.sparse_csr)(copy.copy(data)).adj_t
    return _plain(layer, x, edges, data.y, nodes, num_outputs)


def _dense(data: Data) -> Tensor:
    return data.x.to_dense() if data.x.layout != torch.strided else data.x


def _plain(
    layer: str, x: Tensor, edges: Tensor, y: Tensor, nodes: Tensor, num_outputs: int
) -> Step:
    model, label = Plain(layer, x.size(1), num_outputs).to(x.device), y[nodes]
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)

    def step() -> None:
        optimizer.zero_grad()
        F.cross_entropy(model(x, edges)[nodes], label).backward()
        optimizer.step()

    return step


def stock(layer: str, data: Data, nodes: Tensor, num_outputs: int) -> Step:
    """GraphGym's own network, loss and optimiser: loss on the nodes of the train mask, as its
    trainer does it."""
    from stock import configure
    from torch_geometric.graphgym.config import cfg
    from torch_geometric.graphgym.model_builder import create_model

    configure("gnn.layer_type", LAYERS[layer])
    model = create_model(dim_in=data.num_features, dim_out=num_outputs).to(nodes.device)
    (optimizer,), _ = model.configure_optimizers()
    data = copy.copy(data)
    data.train_mask = torch.zeros(
        data.num_nodes, dtype=torch.bool, device=nodes.device
    ).index_fill_(0, nodes, True)
    spec = backbones.EncoderSpec()
    assert (cfg.gnn.dim_inner, cfg.gnn.layers_mp) == (spec.hidden, spec.layers)

    def step() -> None:
        # GraphGym's network overwrites the features of its batch.
        loss = model.training_step(copy.copy(data))["loss"]
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    return step


CONTESTANTS: dict[str, Callable[[str, Data, Tensor, int], Step]] = {
    "labelled": ours,
    "all": lambda layer, data, nodes, num_outputs: ours(layer, data, None, num_outputs),
    "modularity": modularity,
    "plain": plain,
    "csr": csr,
    "stock": stock,
}


def main() -> None:
    """Print ``{contestant: [seconds of a step, ...]}``, one figure a round; after a warm-up all
    take turns in each round."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("graph", help="a data set by name, or arxiv-size")
    parser.add_argument("--layer", choices=LAYERS, default="gcn")
    parser.add_argument("--contestants", nargs="+", choices=CONTESTANTS, default=list(CONTESTANTS))
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument(
        "--block", type=int, default=5, help="steps in a row, whose mean is one figure"
    )
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument(
        "--cpu-time", action="store_true", help="seconds of the processor, with one thread"
    )
    parser.add_argument(
        "--keep-memory",
        action="store_true",
        help="all keep the memory that they free, as graphgym-srnc run does",
    )
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    args = parser.parse_args()
    # A GPU works on after a step returns.
    clock = time.process_time if args.cpu_time else time.perf_counter
    wait = torch.cuda.synchronize if args.device == "cuda" else lambda: None
    torch.set_num_threads(args.threads)
    if args.keep_memory:
        environment.keep_memory()
    torch.manual_seed(0)
    data, nodes, num_outputs = load(args.graph)
    data, nodes = copy.copy(data).to(args.device), nodes.to(args.device)
    steps = {
        name: CONTESTANTS[name](args.layer, data, nodes, num_outputs) for name in args.contestants
    }
    seconds: dict[str, list[float]] = {name: [] for name in steps}
    for number in range(args.rounds + 1):
        for name, step in steps.items():
            wait()
            begin = clock()
            for _ in range(args.block):
                step()
            wait()
            if number > 0:
                seconds[name].append((clock() - begin) / args.block)
    print(json.dumps(seconds))


if __name__ == "__main__":
    main()
