"""Every entry of ``scores_`` follows from the public methods of an estimator, by scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from conftest import make_graph
from sklearn import metrics
from tasks import CLOSE_SET, ESTIMATORS, masked_graph, tiny_estimator
from torch_geometric.data import Data

from graphgym_srnc import ERM, SRNCPlus, api, load
from graphgym_srnc.cli.main import main
from graphgym_srnc.methods.shared.scores import SCORES

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")

CASES = [(name, {}) for name in ESTIMATORS if name != "IID"]
CASES += [("ERM", {"confidence": score}) for score in SCORES]
CASES += [("ERM", {"correction": "em", "smoothing": 2}), ("DOC", {"smoothing": 2})]


def words(num_classes: int, known: int) -> Data:
    """A graph with labels in words, whose last classes have no training node."""
    graph = masked_graph(num_classes, known)
    graph["y"] = np.array(["art", "bio", "law", "med"])[graph.y]
    return graph


def again(model: api.Estimator, graph: Data, nodes: np.ndarray) -> dict[str, float]:
    """The scores of some nodes of a graph, of public methods and scikit-learn alone."""
    known = [*model.classes_[:-1]] if "unknown" in model.classes_ else [*model.classes_]
    true = np.where(np.isin(graph.y, known), graph.y, "unknown")[nodes]
    predicted = model.predict(graph)[nodes]
    present = sorted({*true})
    every = {"labels": present, "average": "macro", "zero_division": 0}
    found = {
        "micro_f1": metrics.accuracy_score(true, predicted),
        "macro_f1": metrics.f1_score(true, predicted, **every),
        "macro_recall": metrics.recall_score(true, predicted, **every),
    }
    if "unknown" not in model.classes_:
        return found
    is_unknown = true == "unknown"
    unknown = {"labels": ["unknown"], "average": "macro"}
    unknown["zero_division"] = 0
    right = predicted[~is_unknown] == true[~is_unknown]
    every["labels"] = [label for label in present if label != "unknown"]
    recall = metrics.recall_score(true, predicted, **unknown)
    found |= {
        "unknown_recall": recall,
        "unknown_precision": metrics.precision_score(true, predicted, **unknown),
        "known_accuracy": right.mean(),
        "known_recall": metrics.recall_score(true, predicted, **every),
        "hs": 2 * recall * right.mean() / (recall + right.mean() or 1),
    }
    confidence = model.decision_function(graph)[nodes].astype(float)
    rate, kept, _ = metrics.roc_curve(~is_unknown, confidence)
    best = np.array(known)[model.predict_proba(graph)[nodes][:, : len(known)].argmax(1)]
    counted = is_unknown | (best == true)
    share = (best == true)[~is_unknown].mean()
    if share:
        share *= metrics.roc_auc_score(~is_unknown[counted], confidence[counted])
    return found | {
        "unknown_auroc": metrics.roc_auc_score(~is_unknown, confidence),
        "unknown_aupr": metrics.average_precision_score(is_unknown, -confidence),
        "unknown_fpr95": rate[kept >= 0.95].min(),
        "oscr": share,
    }


@pytest.mark.parametrize(("name", "options"), CASES, ids=str)
def test_every_score_can_be_computed_again(tmp_path, name, options):
    closed = name in CLOSE_SET
    graph = words(3 if closed else 4, 3)
    model = tiny_estimator(name, open_set=not closed, **options).fit(graph)
    model.save(tmp_path / "model.pt")
    for part in ("val", "test"):
        nodes = np.flatnonzero(graph[f"{part}_mask"])
        stored = model.scores_[part]
        for one in (model, load(tmp_path / "model.pt")):
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


@pytest.mark.parametrize("cls", [ERM, SRNCPlus])
def test_nodes_without_a_label_may_be_unknown_by_default(cls):
    with pytest.warns(RuntimeWarning, match="30 of 90 nodes have no label.*set open_set=False"):
        model = cls(hidden=8, steps=5).fit(bare())
    assert model.classes_.tolist() == [0, 1, 2, -1]
    assert cls(hidden=8, steps=5, open_set=False).fit(bare()).classes_.tolist() == [0, 1, 2]
    # Where every node has a label of a training class, no node can be of another one.
    assert cls(hidden=8, steps=5).fit(bare(90)).classes_.tolist() == [0, 1, 2]


def test_commands_have_the_same_default(tmp_path, capsys):
    graph = bare()
    arrays = {key: value.numpy() for key, value in graph.to_dict().items() if key != "train_mask"}
    np.savez(tmp_path / "g.npz", **arrays)
    run = ["run", "--cfg", "own", "--name", "own", "--out-dir", str(tmp_path), "train.mode", "erm"]
    run += ["erm.steps", "5", "dataset.name", str(tmp_path / "g.npz"), "file.num_val", "15"]
    assert main([*run, "file.num_test", "15", "--no-figures", "--no-tensorboard"]) == 0
    assert load(tmp_path / "own").classes_[-1] in (-1, "unknown")
