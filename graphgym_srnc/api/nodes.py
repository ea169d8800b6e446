"""An estimator whose samples are node numbers of one graph, as scikit-learn's tools need them."""
from __future__ import annotations

from typing import Any, Sequence

import numpy as np
import torch
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.utils.validation import check_is_fitted
from torch_geometric.data import Data

from graphgym_srnc.api.estimator import Estimator
from graphgym_srnc.errors import InputError


class OnNodes(ClassifierMixin, BaseEstimator):
    """Samples are nodes of a graph, for ``GridSearchCV``, ``cross_val_score`` and the like.

    Their splitters divide samples. Here a sample is the number of a node, and the graph is the
    same in all folds: who trains sees the features and edges of all nodes, and the labels of those
    of its folds.

    >>> OnNodes(SRNC(hidden=64), graph).fit(nodes, labels).score(others, their_labels)

    Args:
        model: the estimator, which is left as it is; its parameters are ``model__hidden``, ...
        graph: with ``x`` ``[V, F]`` and ``edge_index`` ``[2, E]``; it is not copied.
    """

    def __init__(self, model: Estimator, graph: Data) -> None:
        self.model, self.graph = model, graph

    def __sklearn_clone__(self) -> OnNodes:
        return OnNodes(clone(self.model), self.graph)

    def fit(self, nodes: Sequence[int], labels: Sequence[Any]) -> OnNodes:
        """Train on the labels ``[n]`` of nodes ``[n]``, words or whole numbers; no other is seen.

        Raises:
            InputError: a node is not in the graph; or see :meth:`Estimator.fit`.
        """
        nodes, labels = self._checked(nodes), np.asarray(labels)
        words = labels.dtype.kind not in "iu"
        y = np.full(self.graph.num_nodes, "" if words else -1, dtype=object if words else int)
        y[nodes] = labels
        graph = Data(x=self.graph.x, edge_index=self.graph.edge_index)
        graph.y = y.tolist() if words else torch.from_numpy(y)
        graph.train_mask = torch.zeros(self.graph.num_nodes, dtype=torch.bool)
        graph.train_mask[nodes] = True
        self.model_ = clone(self.model).fit(graph)
        self.classes_ = self.model_.classes_
        return self

    def predict(self, nodes: Sequence[int]) -> np.ndarray:
        """The class ``[n]`` of each node."""
        check_is_fitted(self, "model_")
        return self.model_.predict(self.graph)[self._checked(nodes)]

    def predict_proba(self, nodes: Sequence[int]) -> np.ndarray:
        """Probabilities ``[n, len(classes_)]`` of the classes of each node."""
        check_is_fitted(self, "model_")
        return self.model_.predict_proba(self.graph)[self._checked(nodes)]

    def _checked(self, nodes: Sequence[int]) -> np.ndarray:
        if not isinstance(self.graph, Data):
            raise InputError("graph", type(self.graph).__name__, "a torch_geometric.data.Data")
        given = np.asarray(nodes)
        numbers = given.reshape(-1) if given.ndim == 2 and given.shape[1] == 1 else given
        right = numbers.ndim == 1 and numbers.dtype.kind in "iu" and (
            not len(numbers) or 0 <= numbers.min() <= numbers.max() < self.graph.num_nodes)
        if not right:
            raise InputError("nodes", f"{given.dtype} {given.shape}",
                             f"node numbers in 0 .. {self.graph.num_nodes - 1}, [n]")
        return numbers
