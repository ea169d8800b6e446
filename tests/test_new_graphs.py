"""Predictions of later graphs: what nodes get does not depend on which other nodes are there."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from conftest import make_graph, refused
from tasks import ESTIMATORS, OTHER_GRAPH, task_for, tiny_estimator
from torch_geometric.data import Data
from torch_geometric.utils import subgraph

import graphgym_srnc
from graphgym_srnc import ERM, SRNCPlus, api
from graphgym_srnc.core.task import ShiftTask
from graphgym_srnc.methods.shared.scores import SCORES

pytestmark = [
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),
    pytest.mark.usefixtures("hardly_pretrained"),
]

PART = torch.arange(90) % 3 == 0
"""Nodes of one class of ``make_graph``."""

CASES = {name: (name, {}) for name in ESTIMATORS}
CASES |= {f"ERM-{score}": ("ERM", {"confidence": score}) for score in SCORES}
CASES |= {
    f"{name}-{correction}": (name, {"correction": correction})
    for name in ("ERM", "SRNCPlus", "CORAL")
    for correction in ("mean", "em", "bbse", "labels")
}
CASES |= {"ERM-smoothed": ("ERM", {"smoothing": 3, "cut": "share"})}
CASES |= {f"ERM-{kind}": ("ERM", {"backbone": kind}) for kind in ("gat", "sage", "sgc", "dgi")}
CASES |= {f"ERM-{kind}": ("ERM", {"features": kind}) for kind in ("row", "none")}
CASES |= {"ERM-batches": ("ERM", {"batch_size": 16, "fanout": 2})}
"""Each method, and the options that decide how it predicts."""

FIXED = [case for case in CASES if case != "UDAGCN"]
"""Those that draw nothing for a prediction; UDAGCN draws walks for each graph."""


@pytest.fixture(scope="module")
def fitted(request, tmp_path_factory) -> tuple[ShiftTask, api.Estimator, api.Estimator]:
    """The task of a case, a model that learned it, and the same after a file."""
    name, options = CASES[request.param]
    task = task_for(name)
    model = tiny_estimator(name, **options).fit(task)
    path = tmp_path_factory.mktemp("model") / "model.pt"
    model.save(path)
    return task, model, graphgym_srnc.load(path)


def component(graph: Data, nodes: torch.Tensor) -> Data:
    """The nodes of a mask with the edges among them."""
    edge_index, _ = subgraph(nodes, graph.edge_index, relabel_nodes=True, num_nodes=len(nodes))
    return Data(x=graph.x[nodes], edge_index=edge_index)


def apart(graph: Data, nodes: torch.Tensor) -> Data:
    """The graph without the edges between the nodes of a mask and the others."""
    a, b = graph.edge_index
    return Data(x=graph.x, edge_index=graph.edge_index[:, nodes[a] == nodes[b]])


def outputs(model: api.Estimator, graph: Data, role: str = "target") -> list[np.ndarray]:
    return [model.predict_proba(graph, role), model.decision_function(graph, role)]


@pytest.mark.parametrize("fitted", FIXED, indirect=True)
def test_predictions_do_not_depend_on_other_components(fitted):
    task, model, again = fitted
    # Features of another mean, in parts that differ from each other.
    graph = Data(x=OTHER_GRAPH.x + 0.3 * PART[:, None], edge_index=OTHER_GRAPH.edge_index)
    whole = apart(graph, PART)
    part = component(graph, PART)
    roles = ("target",) if task.source is task.target else ("source", "target")
    for role in roles:
        in_whole = outputs(model, whole, role)
        for one in (model, again):
            for got, wanted in zip(outputs(one, part, role), in_whole, strict=True):
                np.testing.assert_allclose(got, wanted[PART.numpy()], atol=2e-5, rtol=1e-4)


@pytest.mark.parametrize("fitted", ESTIMATORS, indirect=True)
def test_graphs_of_training_are_predicted_as_in_training(fitted):
    """Those of both roles, also after the model is saved and loaded."""
    task, model, again = fitted
    task = task.oracle if model.method_.oracle else task
    for one in (model, again):
        right = one.predict(task.target)[task.test] == one.classes_[task.target.y[task.test]]
        assert right.mean() == pytest.approx(model.scores_["test"]["micro_f1"])
        predicted = one.predict(task.source, task.role_of(task.source))
        right = predicted[task.train] == one.classes_[task.source.y[task.train]]
        shown = model.record_.history[model.record_.best].train["micro_f1"]
        assert right.mean() == pytest.approx(shown)


def embedded(seed: int, offset: float = 5.0) -> Data:
    """Features as of a language model: a common direction that outweighs the classes."""
    graph = make_graph(num_nodes=200, num_classes=4, num_features=32, seed=seed)
    graph.x += offset
    return graph


def test_a_graph_of_one_class_gets_its_class():
    graph = embedded(0)
    graph.train_mask = torch.arange(200) < 80
    few = {"steps": 10, "fit_steps": 3, "cluster_steps": 3, "rounds": 1}
    model = SRNCPlus(hidden=16, lr=0.06, open_set=False, **few).fit(graph)
    new = embedded(1)
    for label in range(4):
        own = new.y == label
        assert (model.predict(component(new, own)) == label).mean() > 0.9


def test_columns_that_need_double_precision_keep_it_in_a_new_graph(tmp_path):
    """Times of day as seconds since 1970: float32 resolves two minutes of them."""
    generator = torch.Generator().manual_seed(0)
    graph = make_graph()
    seconds = 1.7e9 + 40.0 * graph.y.double() + torch.rand(90, generator=generator)
    graph.x = torch.stack([seconds, seconds.flip(0)], 1)
    graph.x[:, 1] = 1.7e9
    graph.train_mask = torch.arange(90) < 60
    model = ERM(hidden=16, layers=1, backbone="mlp", steps=300, open_set=False).fit(graph)
    alone = component(graph, torch.arange(90) == 60)
    alone.edge_index = torch.tensor([[0], [0]])
    wanted = model.predict_proba(graph)[60:61]
    np.testing.assert_allclose(model.predict_proba(alone), wanted, rtol=1e-4)


def test_the_role_of_a_graph_is_checked():
    model = tiny_estimator("ERM").fit(task_for("ERM"))
    assert "source, target" in str(refused("role", model.predict, OTHER_GRAPH, "both"))
