"""Times training steps of ours and of stock GraphGym by turns, on the same graph in the same process.

A step is forward, loss, backward and optimiser. ``speed.py`` calls this; it prints the seconds of each step as JSON.
"""
from __future__ import annotations

import argparse
import copy
import json
import time
from typing import Callable

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F
from torch_geometric.data import Data

from graphgym_srnc import backbones, shifts
from graphgym_srnc.methods.base import adam
from graphgym_srnc.shifts import synthetic

Step = Callable[[], None]

ARXIV = {"nodes": 169_343, "edges": 1_166_243, "features": 128, "classes": 40, "train": 12_974}
"""Size of ogbn-arxiv, and of its training set in the time split of the paper."""


def load(graph: str) -> tuple[Data, Tensor, int]:
    """A graph, its labelled nodes ``[n]`` and the number of outputs: the open-set split of a real one, or a large one made here."""
    if graph != "arxiv-size":
        task = shifts.find("open_set")(name=graph, split_seed=0, num_unseen=1)
        return task.source, task.train, task.num_outputs
    rng = np.random.RandomState(0)
    shares, topics = synthetic.class_shares(ARXIV["classes"], 3.0, rng), np.ones((ARXIV["classes"], 2))
    data = synthetic.dcsbm(num_nodes=ARXIV["nodes"], shares=shares, topics=topics, rng=rng, avg_degree=2 * ARXIV["edges"] / ARXIV["nodes"])
    data.x = torch.from_numpy(rng.standard_normal((ARXIV["nodes"], ARXIV["features"])).astype(np.float32))
    return data, torch.from_numpy(rng.permutation(ARXIV["nodes"])[:ARXIV["train"]]), ARXIV["classes"]


def ours(data: Data, nodes: Tensor | None, num_outputs: int) -> Step:
    """The step of ``fit_labels`` with the default encoder (GCN, hidden 256, 2 layers): loss on ``nodes`` ``[n]``, or on all (None)."""
    spec = backbones.EncoderSpec()
    graph = backbones.prepare(data, spec.features)
    model = backbones.build(spec, graph.num_features, num_outputs)
    view, label, optimizer = model.view(graph, nodes), data.y if nodes is None else data.y[nodes], adam(model.parameters())
    # A real graph has a few nodes without a label.
    label = label.where(label >= 0, 0)

    def step() -> None:
        loss = F.cross_entropy(model(view), label)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return step


def stock(data: Data, nodes: Tensor, num_outputs: int) -> Step:
    """GraphGym's own network, loss and optimiser: loss on the nodes of the train mask, as its trainer does it."""
    from stock import configure
    from torch_geometric.graphgym.config import cfg
    from torch_geometric.graphgym.model_builder import create_model
    configure()
    model = create_model(dim_in=data.num_features, dim_out=num_outputs)
    (optimizer,), _ = model.configure_optimizers()
    data = copy.copy(data)
    data.train_mask = torch.zeros(data.num_nodes, dtype=torch.bool).index_fill_(0, nodes, True)
    assert cfg.gnn.dim_inner == backbones.EncoderSpec().hidden and cfg.gnn.layers_mp == backbones.EncoderSpec().layers

    def step() -> None:
        # GraphGym's network overwrites the features of its batch.
        loss = model.training_step(copy.copy(data))["loss"]
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return step


CONTESTANTS: dict[str, Callable[[Data, Tensor, int], Step]] = {
    "labelled": ours, "all": lambda data, nodes, num_outputs: ours(data, None, num_outputs), "stock": stock}


def main() -> None:
    """Print ``{contestant: [seconds of a step, ...]}``, one figure a round; after a warm-up all take turns in each round."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("graph", help="a data set by name, or arxiv-size")
    parser.add_argument("--contestants", nargs="+", choices=CONTESTANTS, default=list(CONTESTANTS))
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--block", type=int, default=5, help="steps in a row, whose mean is one figure")
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch.manual_seed(0)
    data, nodes, num_outputs = load(args.graph)
    steps = {name: CONTESTANTS[name](data, nodes, num_outputs) for name in args.contestants}
    seconds: dict[str, list[float]] = {name: [] for name in steps}
    for number in range(args.rounds + 1):
        for name, step in steps.items():
            begin = time.perf_counter()
            for _ in range(args.block):
                step()
            if number > 0:
                seconds[name].append((time.perf_counter() - begin) / args.block)
    print(json.dumps(seconds))


if __name__ == "__main__":
    main()
