"""Every entry of ``scores_`` follows from what public methods of an estimator return."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from conftest import make_graph
from tasks import CLOSE_SET, ESTIMATORS, masked_graph, tiny_estimator
from torch_geometric.data import Data

from graphgym_srnc import api, load
from graphgym_srnc.methods.shared.scores import SCORES
from graphgym_srnc.train.metrics import classification_scores, detection_scores

pytestmark = [
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),
    pytest.mark.usefixtures("hardly_pretrained"),
]

CASES = [(name, {}) for name in ESTIMATORS if name != "IID"]
CASES += [("ERM", {"confidence": score}) for score in SCORES]
CASES += [("ERM", {"correction": "em", "smoothing": 2}), ("DOC", {"smoothing": 2})]


def words(num_classes: int, known: int) -> Data:
    """A graph with labels in words, whose last classes have no training node."""
    graph = masked_graph(num_classes, known)
    graph["y"] = np.array(["art", "bio", "law", "med"])[graph.y]
    return graph


def again(model: api.Estimator, graph: Data, nodes: np.ndarray) -> dict[str, float]:
    """The scores of some nodes by what public methods return; test_metrics.py has the oracles."""
    names = [*model.classes_]
    open_set = names[-1] == "unknown"
    num_known = len(names) - open_set
    label, predicted = (
        torch.tensor([names.index(word) if word in names else num_known for word in words[nodes]])
        for words in (graph.y, model.predict(graph))
    )
    found = classification_scores(predicted, label, num_known, open_set)
    if open_set:
        best = torch.from_numpy(model.predict_proba(graph)[nodes][:, :num_known].argmax(1))
        confidence = torch.from_numpy(model.decision_function(graph)[nodes])
        found |= detection_scores(confidence, label == num_known, best == label)
        known = label < num_known
        if known.any():
            found["closed_accuracy"] = float((best == label)[known].double().mean())
    return found


@pytest.mark.parametrize(("name", "options"), CASES, ids=str)
def test_every_score_can_be_computed_again(tmp_path, name, options):
    closed = name in CLOSE_SET
    graph = words(3 if closed else 4, 3)
    model = tiny_estimator(name, open_set=not closed, **options).fit(graph)
    model.save(tmp_path / "model.pt")
    loaded = load(tmp_path / "model.pt")
    for part in ("val", "test"):
        nodes = np.flatnonzero(graph[f"{part}_mask"])
        stored = model.scores_[part]
        for one in (model, loaded):
            found = again(one, graph, nodes)
            assert {*found} == {*stored}
            for key, value in found.items():
                assert stored[key] == pytest.approx(value, abs=1e-9), (part, key)
    if not closed:
        confidence = model.decision_function(graph)
        below = confidence < float(model.method_.threshold)
        assert np.array_equal(below, model.predict(graph) == "unknown")


def bare(labelled: int = 60) -> Data:
    """A graph of which a third of the nodes has no label."""
    graph = make_graph()
    node = torch.arange(90)
    graph.y[labelled:] = -1
    graph.train_mask = node < labelled
    return graph


@pytest.mark.parametrize("name", ["ERM", "SRNCPlus"])
def test_nodes_without_a_label_may_be_unknown_by_default(name):
    with pytest.warns(RuntimeWarning, match="30 of 90 nodes have no label.*set open_set=False"):
        model = tiny_estimator(name).fit(bare())
    assert model.classes_.tolist() == [0, 1, 2, -1]
    assert tiny_estimator(name, open_set=False).fit(bare()).classes_.tolist() == [0, 1, 2]
    # Where every node has a label of a training class, no node can be of another one.
    assert tiny_estimator(name).fit(bare(90)).classes_.tolist() == [0, 1, 2]
