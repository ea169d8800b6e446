"""Estimator whose samples are node ids of one graph, for scikit-learn's model selection tools."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted
from torch_geometric.data import Data

from graphgym_srnc.api.estimator import BaseEstimator, ClassifierMixin, Estimator, node_numbers
from graphgym_srnc.api.isolation import plain
from graphgym_srnc.errors import InputError
from graphgym_srnc.shifts.given import labels as labels_of
from graphgym_srnc.shifts.given import unlabelled

if TYPE_CHECKING:
    from numpy.typing import ArrayLike


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
        self.model = model
        self.graph = graph

    def __sklearn_clone__(self) -> OnNodes:
        return OnNodes(clone(self.model), self.graph)

    def fit(self, nodes: ArrayLike, labels: ArrayLike) -> OnNodes:
        """Train on the labels ``[n]`` of the nodes ``[n]``; no other label is used.

        Therefore ``open_set=None`` means ``False``.

        Raises:
            InputError: a node id is out of range, or an input is invalid for ``Estimator.fit``.
        """
        ids = self._checked(nodes)
        given = labels_of(labels, len(ids), "labels")
        none = "" if given.dtype.kind == "U" else -1
        y = np.full(len(self.graph.x), none, dtype=given.dtype)
        y[ids] = given
        wrong = ids[(given == none) | (y[ids] != given)]
        if len(wrong):
            raise InputError.plain(
                "labels",
                f"{len(wrong)} of the nodes have no label or two, such as node {wrong[0]}",
                "Give each node one label",
            )
        mask = torch.from_numpy(np.isin(np.arange(len(y)), ids))
        read = ("x", "edge_index", "edge_weight")
        fields = {name: self.graph[name] for name in read if name in self.graph}
        graph = Data(**fields, y=y, train_mask=mask)
        model = clone(self.model)
        if model.open_set is None:
            model.open_set = False  # each label is that of a training node
        self.model_ = model.fit(graph)
        self.classes_ = self.model_.classes_
        return self

    def predict(self, nodes: ArrayLike) -> np.ndarray:
        """Predicted class ``[n]`` of each node."""
        check_is_fitted(self, "model_")
        return self.model_.predict(self.graph)[self._checked(nodes)]

    def predict_proba(self, nodes: ArrayLike) -> np.ndarray:
        """Class probabilities ``[n, len(classes_)]`` of each node."""
        check_is_fitted(self, "model_")
        return self.model_.predict_proba(self.graph)[self._checked(nodes)]

    def predict_log_proba(self, nodes: ArrayLike) -> np.ndarray:
        """Logarithms ``[n, len(classes_)]`` of the class probabilities of each node."""
        return np.log(self.predict_proba(nodes))

    @plain()
    def _checked(self, nodes: ArrayLike) -> np.ndarray:
        return node_numbers(nodes, unlabelled(self.graph).num_nodes, is_mask=False)
