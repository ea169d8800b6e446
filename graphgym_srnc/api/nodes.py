"""Estimator whose samples are node ids of one graph, for scikit-learn's model selection tools."""
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
    """Wrapper for ``GridSearchCV`` and ``cross_val_score``, whose samples are the nodes of a graph.

    A sample is a node id, and all folds share the graph. Training uses the features and edges of
    all nodes, but only the labels of the nodes in the training folds.

    >>> OnNodes(SRNC(hidden=64), graph).fit(nodes, labels).score(others, their_labels)

    Args:
        model: the estimator, which is cloned; its parameters are ``model__hidden`` and so on.
        graph: a ``Data`` with ``x`` ``[V, F]`` and ``edge_index`` ``[2, E]``; it is not copied.
    """

    def __init__(self, model: Estimator, graph: Data) -> None:
        self.model, self.graph = model, graph

    def __sklearn_clone__(self) -> OnNodes:
        return OnNodes(clone(self.model), self.graph)

    def fit(self, nodes: Sequence[int], labels: Sequence[Any]) -> OnNodes:
        """Train on the labels of some nodes.

        Args:
            nodes: ids of the training nodes, ``[n]``.
            labels: their labels ``[n]``, strings or integers. No other label is used.

        Returns:
            The fitted estimator itself.

        Raises:
            InputError: a node id is out of range, or an input is invalid for :meth:`Estimator.fit`.
        """
        nodes, given = self._checked(nodes), np.asarray(labels)
        words = given.dtype.kind not in "iu"
        y = np.full(self.graph.num_nodes, "" if words else -1, dtype=object if words else int)
        y[nodes] = given
        graph = Data(x=self.graph.x, edge_index=self.graph.edge_index)
        graph.y = y.tolist() if words else torch.from_numpy(y)
        graph.train_mask = torch.zeros(self.graph.num_nodes, dtype=torch.bool)
        graph.train_mask[nodes] = True
        self.model_ = clone(self.model).fit(graph)
        self.classes_ = self.model_.classes_
        return self

    def predict(self, nodes: Sequence[int]) -> np.ndarray:
        """Predicted class ``[n]`` of each node."""
        check_is_fitted(self, "model_")
        return self.model_.predict(self.graph)[self._checked(nodes)]

    def predict_proba(self, nodes: Sequence[int]) -> np.ndarray:
        """Class probabilities ``[n, len(classes_)]`` of each node."""
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
                             f"node numbers from 0 to {self.graph.num_nodes - 1}, [n]")
        return numbers
