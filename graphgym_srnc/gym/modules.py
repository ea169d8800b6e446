"""Loader, network, head, loss and metrics for GraphGym's own training on our shifts.

Each of them does nothing unless a config names it.
"""

from __future__ import annotations

import copy
from functools import partial
from itertools import accumulate

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch_geometric.data import Data
from torch_geometric.graphgym import register
from torch_geometric.graphgym.config import cfg
from torch_geometric.graphgym.models.head import GNNNodeHead

from graphgym_srnc import backbones, methods, shifts
from graphgym_srnc.backbones import Graph, dense, prepare
from graphgym_srnc.core.task import HIDDEN, ShiftTask
from graphgym_srnc.errors import renamed
from graphgym_srnc.gym.build import build_task
from graphgym_srnc.gym.config import data_root
from graphgym_srnc.gym.encoder import SPEC_KEYS, edge_index, encoder_spec
from graphgym_srnc.gym.keys import SCORES
from graphgym_srnc.train.metrics import classification_scores


class TaskDataset(torch.utils.data.Dataset):
    """A :class:`ShiftTask` in GraphGym's form: one ``Data`` with a train, val and test mask.

    Two graphs become one graph with two parts. ``prepared`` in the ``Data`` is the same graph in
    the form that our encoders read.

    Args:
        task: the scenario; also in ``.task``.
        features: how features are scaled, see :class:`Graph`.
    """

    def __init__(self, task: ShiftTask, features: str) -> None:
        self.task, graphs = task, list(task.graphs().values())
        ready = [prepare(graph, features) for graph in graphs]
        starts = accumulate([graph.num_nodes for graph in graphs], initial=0)
        start = dict(zip(map(id, graphs), starts))
        edges = [edge_index(graph) + first for graph, first in zip(ready, start.values())]
        self.data = Data(
            x=torch.cat([dense(graph.x) for graph in ready]),
            y=torch.cat([graph.y for graph in graphs]),
            edge_index=torch.cat(edges, dim=1),
        )
        # GraphGym takes the number of distinct labels here for the number of outputs, and the
        # number of masks for that of splits.
        self._data = Data(x=self.data.x, y=torch.arange(task.num_outputs))
        splits = {"train": task.source, "val": task.validation, "test": task.target}
        for split, graph in splits.items():
            mask = torch.zeros(self.data.num_nodes, dtype=torch.bool)
            mask[getattr(task, split) + start[id(graph)]] = True
            self.data[f"{split}_mask"] = self._data[f"{split}_mask"] = mask
        self.data.prepared = Graph(copy.copy(self.data), "none")

    def __len__(self) -> int:
        return 1

    def __getitem__(self, index: int) -> Data:
        if index:
            raise IndexError(index)
        return copy.copy(self.data)


@renamed(SPEC_KEYS)
def load_shift(format: str, name: str, dataset_dir: str) -> TaskDataset | None:
    """GraphGym's loader of our shifts; returns None for other formats, which other loaders read."""
    if format not in shifts.names():
        return None
    if cfg.train.mode in methods.names() and cfg.model.type == "gnn":
        # main.py makes a model that a method does not use; GraphGym's own network lacks some of our
        # layers and activations.
        cfg.model.type = "srnc_encoder"
    task_cfg = cfg.clone()
    default = dataset_dir == "./datasets"
    task_cfg.dataset.dir = data_root(dataset_dir) if default else dataset_dir
    return TaskDataset(build_task(task_cfg), cfg.dataset.normalize)


class OpenSetNodeHead(GNNNodeHead):
    """GraphGym's node head with one logit per class, for two classes too."""

    def __init__(self, dim_in: int, dim_out: int) -> None:
        super().__init__(dim_in, max(dim_out, 2))


class EncoderNetwork(nn.Module):
    """Our encoder of ``cfg.gnn`` as a GraphGym network, which does not change the batch."""

    def __init__(self, dim_in: int, dim_out: int) -> None:
        super().__init__()
        self.encoder = backbones.build(encoder_spec(cfg), dim_in, max(dim_out, 2))

    def forward(self, batch: Data) -> tuple[Tensor, Tensor]:
        """Logits ``[n, dim_out]`` and labels ``[n]`` of the nodes of ``batch.split``."""
        graph = batch.prepared[0] if "prepared" in batch else None
        if graph is None or graph.device != batch.x.device:
            graph = Graph(batch, "none" if graph else cfg.dataset.normalize)
        nodes = batch[f"{batch.split}_mask"].nonzero()[:, 0]
        return self.encoder(self.encoder.view(graph, nodes)), batch.y[nodes]


def open_set_ce(pred: Tensor, true: Tensor) -> tuple[Tensor, Tensor] | None:
    """Cross-entropy over the nodes with a visible label, and log-probabilities ``[n, K]``.

    Returns None unless ``model.loss_fun`` names it.
    """
    if cfg.model.loss_fun != "open_set_ce":
        return None
    pred = pred.log_softmax(1)
    loss = F.nll_loss(pred, true, ignore_index=HIDDEN, reduction=cfg.model.size_average)
    return loss, pred


def metric(
    name: str,
    true: list[Tensor],
    score: list[Tensor],
    task_type: str | None = None,
) -> float:
    """One of :func:`classification_scores` of batches; the last class is the unknown class."""
    label, scores = torch.cat(true), torch.cat(score)
    binary = scores.ndim == 1
    prediction = (scores > cfg.model.thresh).long() if binary else scores.argmax(1)
    num_known = 1 if binary else scores.size(1) - 1
    figures = classification_scores(prediction, label.long(), num_known, True)
    # GraphGym's logger needs a number where no node is unknown, or none known.
    return round(figures.get(name, 0.0), cfg.round)


def register_modules() -> None:
    """Register all of this with GraphGym; a name that is taken keeps its owner."""
    others = dict(register.loader_dict)
    register.loader_dict.clear()
    # Ours is first, since another loader may raise an error for an unknown format.
    register.loader_dict.update({"graphgym_srnc": load_shift} | others)
    register.head_dict.setdefault("open_set_node", OpenSetNodeHead)
    register.network_dict.setdefault("srnc_encoder", EncoderNetwork)
    register.loss_dict.setdefault("open_set_ce", open_set_ce)
    for name in SCORES:
        register.metric_dict.setdefault(name, partial(metric, name))
