"""A random forest as tensors, which scikit-learn trains."""

from __future__ import annotations

from typing import Any, Sequence

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from graphgym_srnc.backbones import Graph
from graphgym_srnc.backbones.scaling import scaled_features
from graphgym_srnc.backbones.sparse import Sparse
from graphgym_srnc.methods.shared.training import Term

TREES = 100
COLUMNS = 300  # features that a forest reads: those that most of its nodes have
DRAWN = 1000  # nodes that a tree learns, so that few are judged by trees that learned them
DEPTH = 20  # most splits of a path
PRIOR = 2.0  # number of trees that find all classes equally likely
CHUNK = 4096  # nodes that are predicted at once


class Forest(nn.Module):
    """Random forest on the features of nodes as they are, without their lengths.

    Numbers of a table often matter by thresholds and in combinations, which an MLP learns only from
    many labels. All nodes of all trees are in one row of tensors; a leaf has itself as children.

    Args:
        in_dim, out_dim: numbers of features and of classes.

    Attributes:
        columns: numbers of the features, ``[F']``.
        roots: root of each tree, ``[T]``.
        feature, threshold: what each node of a tree compares, ``[n]``, in terms of ``columns``.
        branches: the node for smaller or equal values and the one for larger values, ``[n, 2]``.
        posterior: shares of the classes in each node, ``[n, out_dim]``.

    References:
        Breiman, "Random Forests", Machine Learning 2001.
    """

    kind = "forest"
    columns: Tensor
    roots: Tensor
    feature: Tensor
    threshold: Tensor
    branches: Tensor
    posterior: Tensor

    def __init__(self, in_dim: int, out_dim: int) -> None:
        super().__init__()
        self.in_dim = in_dim
        self.out_dim = out_dim
        empty = torch.zeros(0, dtype=torch.long)
        self.register_buffer("columns", empty)
        self.register_buffer("roots", empty.clone())
        self.register_buffer("feature", empty.clone())
        self.register_buffer("threshold", torch.zeros(0, dtype=torch.float64))
        self.register_buffer("branches", torch.zeros(0, 2, dtype=torch.long))
        self.register_buffer("posterior", torch.zeros(0, out_dim))

    def fit(self, terms: Sequence[Term]) -> None:
        """Learn the nodes of cross-entropies, each term with the same weight."""
        from sklearn.ensemble import RandomForestClassifier

        device = self.posterior.device
        labels = torch.cat([term.labels for term in terms]).cpu().numpy()
        weight = torch.cat([_weights(term) for term in terms]).numpy() * len(labels)
        rows = [_features(term.graph)[term.nodes] for term in terms]
        frequency = torch.stack([_frequency(row) for row in rows]).sum(0)
        most = frequency.argsort(descending=True, stable=True)[:COLUMNS]
        self.columns = most.sort().values.to(device)
        x = torch.cat([_columns(row, self.columns) for row in rows]).cpu().numpy()
        forest = RandomForestClassifier(
            TREES, max_depth=DEPTH, max_samples=min(DRAWN, len(labels)), random_state=0
        )
        forest.fit(x, labels, sample_weight=weight)
        self._store([tree.tree_ for tree in forest.estimators_], forest.classes_)

    def _store(self, trees: Sequence[Any], classes: np.ndarray) -> None:
        """Keep trees of scikit-learn, whose classes have these numbers."""
        device = self.posterior.device
        sizes = np.array([tree.node_count for tree in trees])
        roots = np.cumsum(sizes) - sizes
        first = np.repeat(roots, sizes)
        own = np.arange(sizes.sum())
        children = np.stack(
            [
                np.concatenate([tree.children_left for tree in trees]),
                np.concatenate([tree.children_right for tree in trees]),
            ],
            1,
        )
        is_leaf = children[:, :1] < 0
        children = np.where(is_leaf, own[:, None], children + first[:, None])
        feature = np.concatenate([tree.feature for tree in trees]).clip(0)
        shares = np.concatenate([tree.value[:, 0] for tree in trees])
        posterior = np.zeros((len(own), self.out_dim), np.float32)
        posterior[:, classes] = shares / shares.sum(1, keepdims=True)
        self.roots = torch.from_numpy(roots).to(device)
        self.feature = torch.from_numpy(feature).to(device)
        self.threshold = torch.from_numpy(np.concatenate([t.threshold for t in trees])).to(device)
        self.branches = torch.from_numpy(children).to(device)
        self.posterior = torch.from_numpy(posterior).to(device)

    @torch.no_grad()
    def logits(self, graph: Graph) -> Tensor:
        """Log posteriors of all nodes of a graph, ``[V, out_dim]``."""
        x = _features(graph)
        starts = range(0, graph.num_nodes, CHUNK)
        return torch.cat([self._log_p(_columns(x[s : s + CHUNK], self.columns)) for s in starts])

    def _log_p(self, x: Tensor) -> Tensor:
        """Log posteriors ``[n, out_dim]`` of rows of the columns, ``[n, F']``."""
        node = self.roots.expand(len(x), -1)
        for _ in range(DEPTH):
            is_larger = x.gather(1, self.feature[node]) > self.threshold[node]
            before = node
            node = self.branches[node, is_larger.long()]
            if torch.equal(node, before):
                break
        mean = F.embedding_bag(node, self.posterior, mode="mean")
        trees = len(self.roots)
        return ((trees * mean + PRIOR / self.out_dim) / (trees + PRIOR)).log()

    def _load_from_state_dict(self, state: dict[str, Any], prefix: str, *rest: Any) -> None:
        given = {name: state[prefix + name] for name, _ in self.named_buffers()}
        count = len(given["posterior"])
        below = {"roots": count, "branches": count, "columns": self.in_dim}
        below["feature"] = len(given["columns"])
        if any(((given[name] < 0) | (given[name] >= end)).any() for name, end in below.items()):
            raise ValueError("a node or a feature of its random forest does not exist")
        # How many nodes the trees have does not follow from the sizes of the task.
        for name, own in [*self.named_buffers()]:
            setattr(self, name, own.new_empty(given[name].shape))
        super()._load_from_state_dict(state, prefix, *rest)


def _weights(term: Term) -> Tensor:
    """Weights ``[n]`` of the nodes of a term, which sum to 1."""
    if term.node_weights is None:
        return torch.full((len(term.nodes),), 1 / len(term.nodes))
    return term.node_weights.cpu() / term.node_weights.sum().cpu()


def _features(graph: Graph) -> Tensor | Sparse:
    """The features ``[V, F]`` of a graph, not scaled."""
    return scaled_features(graph.data.x, "none")


def _frequency(x: Tensor | Sparse) -> Tensor:
    """Number of rows in which each feature is not zero, ``[F]``."""
    if isinstance(x, Sparse):
        return torch.from_numpy(np.bincount(x.matrix.indices, minlength=x.shape[1]))
    return x.count_nonzero(0).cpu()


def _columns(x: Tensor | Sparse, columns: Tensor) -> Tensor:
    """Some columns of features, ``[n, F']``."""
    if isinstance(x, Sparse):
        return torch.from_numpy(x.matrix[:, columns.cpu().numpy()].toarray()).to(x.device)
    return x[:, columns]
