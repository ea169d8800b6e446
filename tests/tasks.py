"""Tasks, encoders, methods and estimators that are small enough for a test."""

from __future__ import annotations

import dataclasses
from functools import cache
from typing import Any

import torch
from conftest import make_graph, make_task
from torch import nn
from torch_geometric.data import Data
from torch_geometric.nn import GATConv, GCNConv, SAGEConv
from torch_geometric.utils import to_undirected

import graphgym_srnc
from graphgym_srnc import api, backbones, methods
from graphgym_srnc.backbones import EncoderSpec
from graphgym_srnc.backbones.graph import Graph
from graphgym_srnc.core.options import options
from graphgym_srnc.core.task import ShiftTask
from graphgym_srnc.shifts import synthetic
from graphgym_srnc.train import trainer

QUICK = {"steps": 2, "rounds": 1, "enlarging": 0.5, "pretrain_steps": 2, "fit_steps": 2}
QUICK |= {"cluster_source_steps": 2, "cluster_steps": 2, "num_clusters": 6}
"""Options that make a method quick, where it has them."""

MODES = ("open_set", "close_set")

EASY = {"nodes": 300, "num_classes": 4, "num_features": 60, "avg_degree": 10.0}
EASY |= {"homophily": 0.95, "signal": 0.6, "class_imbalance": 1.0}
"""Options of a task on which every method is good."""

ENCODERS = sorted(backbones.BACKBONES)

ESTIMATORS = sorted(api.estimator(name).__name__ for name in methods.own_names())

TWO_GRAPHS = {"A2GNN", "ADAlign", "CORAL", "DANN", "GRADE", "MMD", "StruRW", "UAGA", "UDAGCN"}

CLOSE_SET = {"A2GNN", "CMD", "CORAL", "GRADE", "PairAlign", "SRGNN"}

# ---- tasks ----


@cache
def synthetic_task(mode: str = "open_set", seed: int = 0, nodes: int = 160, **changes) -> ShiftTask:
    """Three classes on one graph, the last one unknown, or on two of close-set shift."""
    fields = {"num_classes": 3, "num_unseen": 1, "num_features": 30, "homophily": 0.8}
    fields |= {"labels_per_class": 8, "num_val": 30, "num_test": 60}
    return synthetic.build(mode=mode, split_seed=seed, num_nodes=nodes, **fields | changes)


def universal_task(nodes: int = 300, seed: int = 0) -> ShiftTask:
    """Two graphs, whose last class of four is unknown and has left the source."""
    fields = {"num_classes": 4, "num_features": 60, "avg_degree": 10.0, "homophily": 0.9}
    fields |= {"signal": 0.6, "class_imbalance": 1.0, "shift": 0.1}
    task = synthetic.build(mode="close_set", num_nodes=nodes, split_seed=seed, **fields)
    source = task.source.subgraph(task.source.y < 3)
    train = torch.arange(source.num_nodes)
    every = torch.arange(nodes)
    sets = {"train": train, "val": train, "test": every, "pool": every}
    graphs = {"source": source, "target": task.target, "val_graph": source}
    return ShiftTask("universal", **graphs, **sets, num_known=3, open_set=True)


def task_for(name: str) -> ShiftTask:
    """A task of the kind that a method is made for."""
    closed = name in CLOSE_SET
    return make_task(3 if closed else 2, open_set=not closed, two_graphs=name in TWO_GRAPHS)


def masked_graph(
    num_classes: int = 4, known: int = 3, val: bool = True, seed: int = 0, **changes
) -> Data:
    """A graph whose last classes have no training node."""
    graph = make_graph(num_classes=num_classes, seed=seed)
    node = torch.arange(90)
    graph.train_mask = (node < 36) & (graph.y < known)
    if val:
        graph.val_mask = (node >= 36) & (node < 60)
        graph.test_mask = node >= 60
    return graph.update(changes)


OTHER_GRAPH = make_graph(seed=7)

# ---- encoders ----


def sparse_graph(density: float = 1.0, num_nodes: int = 90) -> Data:
    """An undirected graph of whose features a share is not zero."""
    data = make_graph(num_nodes=num_nodes, num_features=40)
    data.edge_index = to_undirected(data.edge_index[:, data.edge_index[0] != data.edge_index[1]])
    data.x = data.x * (
        torch.rand(data.x.shape, generator=torch.Generator().manual_seed(2)) < density
    )
    return data


DENSE_GRAPH = sparse_graph()

SPARSE_GRAPH = sparse_graph(0.1)


def biased_encoder(kind: str, seed: int = 0, **changes) -> backbones.Encoder:
    """An encoder of 40 features to 3 logits, biases not zero, in eval mode."""
    torch.manual_seed(seed)
    fields = {"kind": kind, "hidden": 16, "heads": 4, "features": "none"} | changes
    model = backbones.build(backbones.EncoderSpec(**fields), 40, 3).eval()
    for name, parameter in model.named_parameters():
        if name.endswith("bias"):
            nn.init.normal_(parameter)
    return model


def logits_of(
    model: backbones.Encoder, data: Data, nodes: torch.Tensor | None = None
) -> torch.Tensor:
    """The logits of an encoder, of all nodes or of some."""
    with torch.no_grad():
        return model(model.view(Graph(data, model.spec.features), nodes))


def pyg_layer(layer: nn.Module, kind: str, last: bool) -> nn.Module:
    """PyG's layer with the weights of ours."""
    inside, outside = layer.weight.shape
    weight = layer.weight.T
    state = {"lin.weight": weight, "bias": layer.bias}
    if kind == "gcnconv":
        twin = GCNConv(inside, outside)
    elif kind == "sageconv":
        twin = SAGEConv(inside, outside, aggr="mean")
        state = {"lin_l.weight": weight, "lin_l.bias": layer.bias}
        state["lin_r.weight"] = layer.root_weight.T
    elif kind == "mlp":
        twin = nn.Linear(inside, outside)
        state = {"weight": weight, "bias": layer.bias}
    else:
        twin = GATConv(inside, outside // layer.heads, heads=layer.heads, concat=not last)
        state |= {"att_dst": layer.target[None], "att_src": layer.neighbour[None]}
    twin.load_state_dict(state)
    return twin


# ---- methods ----


def known_options(cls: type, given: dict) -> dict:
    """Those of some options that a method or what it inherits has."""
    known = {option.key for option in options(cls)}
    return {key: value for key, value in given.items() if key in known}


def tiny_method(
    name: str,
    kind: str = "gcnconv",
    hidden: int = 8,
    layers: int = 2,
    dropout: float = 0.5,
    **changes,
) -> methods.base.Method:
    """An untrained method with options that make it quick."""
    cls = methods.find(name)
    spec = EncoderSpec(kind=kind, hidden=hidden, heads=2, layers=layers, dropout=dropout)
    return cls(encoder=spec, **known_options(cls, QUICK) | changes)


def started_method(name: str, task: ShiftTask, episodes: int = 0, **options) -> methods.base.Method:
    """A method after some episodes on a blind task."""
    torch.manual_seed(0)
    method = tiny_method(name, **options)
    method.start(task.blind())
    for _ in range(episodes):
        method.episode()
    return method


def without_seconds(record: trainer.RunRecord) -> dict[str, Any]:
    """A record without seconds."""
    fields = dataclasses.asdict(record)
    for episode in fields["history"]:
        del episode["seconds"]
    return fields


# ---- estimators ----


def tiny_estimator(name: str, **changes) -> api.Estimator:
    """An untrained estimator with options that make it quick."""
    cls = getattr(graphgym_srnc, name)
    small = {"hidden": 8, **QUICK}
    return cls(**{key: small[key] for key in small if key in cls().get_params()} | changes)


class Known(nn.Module):
    """Classifiers with given log posteriors ``[M, V, N]``."""

    def __init__(self, log_p: torch.Tensor, with_forest: bool = False) -> None:
        super().__init__()
        self.log_p = log_p
        self.with_forest = with_forest
        self.register_buffer("weight", torch.full((len(log_p),), 1 / len(log_p)))

    def log_posteriors(self, graph, num_classes: int) -> torch.Tensor:
        return self.log_p[:, :, :num_classes]

    def log_posterior(self, graph, num_classes: int) -> torch.Tensor:
        return torch.tensordot(self.weight, self.log_p, 1).log_softmax(1)
