"""What users pass from Python: one clear ``InputError``, or the numbers of the usual input."""

from __future__ import annotations

import contextlib
import warnings
from decimal import Decimal
from typing import Any

import networkx
import numpy as np
import pandas
import pytest
import torch
from conftest import make_graph, refused
from sklearn.base import is_classifier
from torch_geometric.data import Data

import graphgym_srnc
from graphgym_srnc import OnNodes, api, from_frames, shifts
from graphgym_srnc.errors import InputError
from graphgym_srnc.shifts.given import from_data

V = 48
NODES = torch.arange(V)
RIGHT, Y = NODES < 18, NODES % 3
NAMES = ["abc"[i] for i in Y.tolist()]
TINY = {"hidden": 4, "pretrain_steps": 3, "gnn_steps": 3, "steps": 2, "rounds": 1}


def tiny(name: str = "ERM", **changes) -> api.Estimator:
    cls = getattr(graphgym_srnc, name)
    params = cls().get_params()
    return cls(**{k: v for k, v in TINY.items() if k in params} | {"max_episodes": 1} | changes)


def graph(seed: int = 0, width: int = 6, **changes) -> Data:
    random = np.random.default_rng(seed)
    x = torch.from_numpy(random.random((V, width)) + np.eye(width)[Y.numpy()])
    pairs = random.integers(0, V, (2, 4 * V))
    pairs[1, : 3 * V] = (pairs[0, : 3 * V] + 3 * random.integers(1, 9, 3 * V)) % V
    found = Data(x=x.float(), edge_index=torch.from_numpy(pairs), y=Y, train_mask=RIGHT)
    return found.update(changes)


def numbers(data: Data, other: Data | None = None, name: str = "ERM", **changes) -> np.ndarray:
    """Probabilities of the nodes of a graph after training on ``data``."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        model = tiny(name, open_set=False, **changes).fit(data)
        return model.predict_proba(graph(1) if other is None else other)


def not_fitted(key: str, *given: Any) -> InputError:
    """The error of a fit that refuses what it is given."""
    return refused(key, tiny().fit, *given)


def accuracy(model: api.Estimator, data: Data) -> float:
    return float((model.predict(data) == data.y.numpy()).mean())


@pytest.fixture(scope="module")
def usual_numbers() -> np.ndarray:
    return numbers(graph())


@pytest.fixture(scope="module")
def model() -> api.Estimator:
    return tiny(open_set=False).fit(graph())


def by_name(cases: dict[str, Any]):
    return pytest.mark.parametrize("value", cases.values(), ids=cases)


# ---- two graphs ----


def test_two_graphs_with_different_features(model):
    different = tiny("SRNCPlus", callbacks=[pytest.fail])  # no episode is trained
    text = str(refused("target graph x", different.fit, graph(width=4), graph(width=5)))
    assert "5)" in text and "4)" in text
    refused("graph: x", model.predict, graph(width=5))
    not_fitted("graph", graph(x=graph().x[:40]))


def test_two_graphs_with_features_of_other_names(tmp_path):
    names = [*"abcdef"]
    model = tiny(open_set=False).fit(graph(feature_names=names))
    model.save(tmp_path / "model.pt")
    for each in (model, graphgym_srnc.load(tmp_path / "model.pt")):
        assert len(each.predict(graph(1, feature_names=names))) == V
        assert len(each.predict(graph(1))) == V
        other = graph(1, feature_names=[*"abcdeg"])
        error = refused("graph: x", each.predict, other)
        assert "feature 5 is 'g', and 'f' in training" in error.message
    not_fitted("target: x", graph(feature_names=names), other)


# ---- features ----


def in_inference_mode(x: torch.Tensor) -> torch.Tensor:
    with torch.inference_mode():
        return x.clone()


def trained(x: torch.Tensor) -> torch.Tensor:
    return torch.nn.Embedding.from_pretrained(x, freeze=False).weight


FORMS = {
    "trained": trained,
    "inference": in_inference_mode,
    "numpy": np.asarray,
    "list": torch.Tensor.tolist,
    "frame": lambda x: pandas.DataFrame(x.numpy()),
    "coo": torch.Tensor.to_sparse,
    "csr": torch.Tensor.to_sparse_csr,
}


@pytest.mark.filterwarnings("ignore:Sparse")
@by_name(FORMS)
def test_features_in_another_form(value, usual_numbers):
    data, other = graph(), graph(1)
    data.x, other.x = value(data.x), value(other.x)
    for key in ("y", "train_mask", "edge_index"):
        data[key] = in_inference_mode(data[key])
    other.edge_index = other.edge_index.tolist()
    assert np.array_equal(numbers(data, other), usual_numbers)
    assert not isinstance(data.x, torch.Tensor) or not data.x.is_leaf or data.x.grad is None


NO_FEATURES = {
    "complex": graph().x.to(torch.complex64),
    "masked": np.ma.array(graph().x, mask=graph().x > 1),
    "large": [[10**400] * 6] * V,
    "meta": torch.ones(V, 6).to("meta"),
    "too large": graph().x.double() * 1e300,
    "a word": "features",
}


@by_name(NO_FEATURES)
def test_features_that_are_refused(value, model):
    not_fitted("graph", graph(x=value))
    refused("graph", model.predict, graph(x=value))


# ---- magnitude of features ----


SCALINGS = {
    "times 1e15": lambda x: x * 1e15,
    "plus 1e8": lambda x: x + 1e8,
    "integers": lambda x: (x * 2**12 + 2**42).long(),
}


@pytest.mark.parametrize("name", SCALINGS)
def test_accuracy_does_not_depend_on_the_magnitude(name):
    data, other = (graph(seed, x=graph(seed).x.double()) for seed in (0, 1))
    model = tiny(steps=40, open_set=False).fit(data)
    expected = accuracy(model, data), accuracy(model, other)
    assert min(expected) > 0.8
    data.x, other.x = SCALINGS[name](data.x), SCALINGS[name](other.x)
    model = tiny(steps=40, open_set=False).fit(data)
    found = accuracy(model, data), accuracy(model, other)
    assert not model.warnings_ and found == pytest.approx(expected, abs=0.05)


def test_warnings_hold_the_diagnostics_and_arrays_may_be_read_only():
    graph = make_graph(num_classes=2)
    graph.train_mask = torch.arange(graph.num_nodes) < 4
    fitted = graphgym_srnc.ERM(hidden=8, steps=2, rounds=1).fit(graph)
    assert fitted.verdict_["sentences"]["few labels"] in fitted.warnings_
    x = graph.x.numpy().copy()
    x.flags.writeable = False
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        fitted.predict(Data(x=x, edge_index=graph.edge_index))


def test_a_later_graph_with_few_links_is_told():
    data = graph()
    model = tiny(open_set=False).fit(data)
    with pytest.warns(RuntimeWarning, match="far fewer links than those of training"):
        model.predict(graph(edge_index=data.edge_index[:, ::4]))
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        model.predict(data)


def test_a_warning_reaches_the_user():
    data = graph(x=graph().x + 1e8)
    with pytest.warns(RuntimeWarning, match="source x: all nodes have the same features"):
        model = tiny(open_set=False).fit(data)
    with pytest.warns(RuntimeWarning, match="graph x: all nodes have the same features"):
        model.predict(data)
    nodes = pandas.DataFrame({"x": np.arange(V) // 2 % 2, "label": ["a", "A"] * (V // 2)})
    with pytest.warns(RuntimeWarning) as told:
        made = from_frames(nodes, pandas.DataFrame(graph().edge_index.T.numpy()))
        told_of = tiny(open_set=False).fit(made).warnings_
        assert any(
            text.endswith("probably collapsed.") for text in told_of
        )  # not: compare with ERM
        tiny(open_set=False).fit(graph(y=["a", "A"] * (V // 2)))
    assert {warning.filename for warning in told} == {__file__}
    assert sum("similar labels" in str(warning.message) for warning in told) == 2


# ---- settings of torch ----


@contextlib.contextmanager
def default(setter, value, usual):
    setter(value)
    try:
        yield
    finally:
        setter(usual)


CONTEXTS = {
    "float64": lambda: default(torch.set_default_dtype, torch.float64, torch.float32),
    "meta": lambda: default(torch.set_default_device, "meta", None),
    "autocast": lambda: torch.autocast("cpu", torch.bfloat16),
    "inference_mode": torch.inference_mode,
}


def torch_settings() -> tuple:
    default = torch.get_default_dtype(), torch.empty(0).device, torch.is_grad_enabled()
    return *default, torch.is_inference_mode_enabled(), torch.is_autocast_enabled("cpu")


def whole_use(tmp_path, context) -> list[np.ndarray]:
    """Numbers of fit, save, load and predict, all inside a context."""
    data, other, path, found = graph(), graph(1), tmp_path / "model.pt", []
    with context(), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        before = torch_settings()
        model = tiny("SRNC", open_set=False).fit(data, other)
        model.save(path)
        for each in (model, graphgym_srnc.load(path)):
            found += [each.predict_proba(other), each.predict(other), each.transform(other)]
        assert before == torch_settings()
    return [*found, graphgym_srnc.load(path).predict_proba(other)]


def test_settings_of_torch_do_not_change_the_numbers(tmp_path):
    expected = whole_use(tmp_path, contextlib.nullcontext)
    for context in CONTEXTS.values():
        assert all(map(np.array_equal, whole_use(tmp_path, context), expected))


# ---- masks ----


MASKS = {"uint8": RIGHT.byte(), "float": RIGHT.float(), "list": RIGHT.tolist()}
MASKS |= {"node numbers": NODES[:18]}
NO_MASKS = {
    "NaN": torch.full((V,), torch.nan),
    "plus and minus": RIGHT.long() * 2 - 1,
    "node numbers": NODES,
    "twice": torch.cat([NODES[:18], NODES[:1]]),
    "splits": RIGHT[:, None].expand(V, 10),
    "one NaN": torch.where(NODES == 40, torch.nan, RIGHT * 1.0),
    "sparse": RIGHT.float().to_sparse(),
    "masked": np.ma.array(RIGHT.numpy(), mask=NODES.numpy() > 3),
}


@by_name(MASKS)
def test_masks(value, tmp_path, usual_numbers):
    assert np.array_equal(numbers(graph(train_mask=value)), usual_numbers)
    torch.save(graph(train_mask=torch.as_tensor(value)).to_dict(), tmp_path / "graph.pt")
    np.savez(tmp_path / "graph.npz", **graph(train_mask=np.asarray(value)).to_dict())
    for name in ("graph.pt", "graph.npz"):
        task = shifts.find("file")(path=str(tmp_path / name), split="given")
        assert task.train.tolist() == list(range(18))


@by_name(NO_MASKS)
def test_what_is_no_mask(value, tmp_path):
    not_fitted("train_mask", graph(train_mask=value))
    not_fitted("val_mask", graph(), graph(1, val_mask=value))
    if isinstance(value, torch.Tensor) and value.dim() == 1:
        torch.save(graph(train_mask=value).to_dict(), tmp_path / "graph.pt")
        refused("train_mask", shifts.find("file"), path=str(tmp_path / "graph.pt"))


# ---- labels ----


SAME_LABELS = {
    "list": torch.Tensor.tolist,
    "float": torch.Tensor.float,
    "uint64": lambda y: y.numpy().astype("uint64"),
    "column": lambda y: y[:, None],
    "objects": lambda y: y.numpy().astype(object),
}


@by_name(SAME_LABELS)
def test_labels_in_another_form(value, usual_numbers):
    assert np.array_equal(numbers(graph(y=value(Y))), usual_numbers)


@pytest.mark.parametrize("none", [-1, float("nan"), pandas.NA], ids=str)
def test_a_missing_label(none, usual_numbers):
    y = [*Y.tolist()[:30], *[none] * (V - 30)]
    names = [*NAMES[:30], *[none] * (V - 30)]
    for given_labels in (y, names, np.array(names, dtype=object)):
        assert np.array_equal(numbers(graph(y=given_labels)), usual_numbers)
    not_fitted("train_mask", graph(y=y, train_mask=NODES < 31))


@pytest.mark.parametrize("mask", ["val_mask", "test_mask"])
def test_a_word_for_a_missing_label_in_a_given_mask_is_the_unknown_class(mask):
    data = graph(y=[*NAMES[:30], *["Unlabelled"] * (V - 30)], **{mask: NODES >= 40})
    with pytest.warns(RuntimeWarning, match="8 nodes of the validation or test set without a"):
        task, classes = from_data(data)
    held = task.val if mask == "val_mask" else task.test
    assert classes.tolist() == ["a", "b", "c", "unknown"]
    assert held.tolist() == [*range(40, V)] and (task.target.y[held] == task.unknown).all()
    refused("train_mask", from_data, graph(y=data.y, train_mask=NODES < 31))
    refused(mask, from_data, graph(y=[*NAMES[:-1], ""], **{mask: NODES == V - 1}))


def test_the_only_label_of_a_class_is_not_held_out():
    first = int((Y == 2).int().argmax())
    data = graph(train_mask=RIGHT & ((Y < 2) | (NODES == first)))
    task, _ = from_data(data, open_set=True, held_out=0.5)
    assert task.source.y[task.train].bincount().tolist() == [3, 3, 1]
    assert task.source.y[task.val].bincount().tolist() == [3, 3]


WRONG = [float("inf"), 10**400, 0.5, -2, [2], Decimal(2), 2.0**63]
WRONG_LABELS = [*([0, 1, value] for value in WRONG), ["a", "b", 0.5], ["a", "b", ("c",)]]


@pytest.mark.parametrize("y", WRONG_LABELS, ids=lambda y: str(y)[:30])
def test_labels_that_are_refused(y):
    y = y * (V // 3)
    not_fitted("y", graph(y=y))
    not_fitted("y", graph(), graph(1, y=y))
    refused("labels", OnNodes(tiny(), graph()).fit, range(V), y)


NO_LABELS = {
    "0.5": torch.full((V,), 0.5),
    "2^64": np.full(V, 2**64 - 1, dtype="uint64"),
    "one-hot": torch.eye(V),
    "fewer": torch.zeros(V - 1),
    "sparse": Y.to_sparse(),
    "dates": np.zeros(V, dtype="datetime64[s]"),
    "arrays": [np.zeros((2, 3)), np.zeros((2, 4))],
    "masked": np.ma.array(Y.numpy(), mask=NODES.numpy() >= 30),
    "words": NAMES,
}


@by_name(NO_LABELS)
def test_arrays_that_are_no_labels(value, tmp_path):
    if value is not NAMES:
        not_fitted("y", graph(y=value))
    if value is NAMES or isinstance(value, torch.Tensor):
        torch.save(graph(y=value).to_dict(), tmp_path / "graph.pt")
        refused("y", shifts.find("file"), path=str(tmp_path / "graph.pt"), labels_per_class=2)


def test_no_label_of_the_target_is_needed():
    for y in (torch.full((V,), -1), [None] * V, [""] * V, torch.full((V,), torch.nan), None):
        fitted = tiny(open_set=False).fit(graph(y=NAMES), graph(1, y=y))
        assert fitted.classes_.tolist() == ["a", "b", "c"]


def network(values: list[Any]) -> networkx.Graph:
    made = networkx.cycle_graph(9)
    for node in made:
        made.nodes[node].update(x=[float(node)], label=values[node % 3])
    return made


# ---- edges ----


NO_EDGES = {
    "10^30": [[0, 10**30], [1, 2]],
    "NaN": torch.tensor([[0, torch.nan], [1, 2]]),
    "transposed": graph().edge_index.T,
    "2^63": np.array([[0, 2**63], [1, 2]], "uint64"),
    "words": [["a", "b"], ["b", "c"]],
    "V": torch.tensor([[0], [V]]),
    "-1": torch.tensor([[-1], [0]]),
    "a word": "edges",
    "sparse": torch.ones(2, 3).to_sparse(),
    "masked": np.ma.array([[0, 1], [1, 2]], mask=[[0, 1], [0, 0]]),
}


@by_name(NO_EDGES)
def test_edges_that_are_refused(value, model):
    not_fitted("edge_index", graph(edge_index=value))
    refused("edge_index", model.predict, graph(edge_index=value))


# ---- what users try first ----


def test_wrong_arguments(model):
    net, empty = network([0, 1, 2]), Data()
    for source in (graph().x, [graph()], net, "Cora", None, empty, Data(x=graph().x)):
        not_fitted("", source)
    refused("graph", api.from_networkx, [net])
    for target in (RIGHT, Y, "Cora", [0, 1, 2], empty):
        not_fitted("", graph(), target)
    for wrong in (graph().x, None, "Cora", net, empty, from_data(graph())[0]):
        for function in (model.predict, model.predict_proba, model.transform):
            refused("graph", function, wrong)


def test_nodes_of_on_nodes():
    y, nodes = Y.numpy(), np.arange(18)
    on_nodes = OnNodes(tiny(open_set=False), graph())
    found = on_nodes.fit(nodes, y[:18]).predict_proba(nodes)
    assert np.array_equal(found, numbers(graph(), graph())[:18])
    for wrong in (RIGHT, [0.5] * 18, ["a"] * 18, [V], [-1], None, [10**30]):
        refused("nodes", on_nodes.fit, wrong, y[:18])
    assert "got 900;" in refused("nodes", on_nodes.fit, [0, 900], y[:2]).message
    for wrong in (y[:17], 1, None, [float("inf")] * 18, y[:36].reshape(18, 2)):
        refused("labels", on_nodes.fit, nodes, wrong)
    on_nodes.fit([*nodes, 0], [*y[:18], 0])
    refused("labels", on_nodes.fit, [*nodes, 0], [*y[:18], 1])
    error = refused("labels", on_nodes.fit, nodes, [*NAMES[:17], float("nan")])
    assert "such as node 17" in error.message
    assert is_classifier(on_nodes.model)
    not_fitted("train_mask", graph(train_mask=NODES < 0))
    refused("graph", OnNodes(tiny(), graph().x).fit, nodes, y[:18])


def test_an_index_and_a_column_that_both_have_the_ids_are_two_readings():
    nodes = pandas.DataFrame({"rank": [4, 2, 1, 3, 5], "label": [*"ababa"]})
    edges = pandas.DataFrame({"a": [0, 2, 3], "b": [2, 3, 4]})
    error = refused("edges", from_frames, nodes, edges.clip(1), spectral=2)
    assert "several ways. Choose one with `rename_axis('id')` or `id='rank'`" in str(error)
    ranked = from_frames(nodes, edges.clip(1), id="rank", spectral=2)
    assert ranked.ids == [4, 2, 1, 3, 5] and ranked.edge_index[:, 0].tolist() == [2, 1]
    same = nodes.assign(rank=nodes.index)  # of the same graph
    assert from_frames(same, edges.clip(1), spectral=2).num_edges == 3
    assert from_frames(nodes, edges).ids == [0, 1, 2, 3, 4]  # no rank is 0
    later = pandas.DataFrame({"x": range(2, 22), "label": [*"ab"] * 10})  # has 18 of 20 ends
    chain = pandas.DataFrame({"a": range(19), "b": range(1, 20)})
    assert from_frames(later, chain).feature_names == ["x"]
    zeros = nodes.assign(rank=[f"0{rank}" for rank in nodes["rank"]])
    error = refused("edges", from_frames, zeros, edges.clip(1), id="rank", spectral=2)
    assert "Leading zeros differ: the nodes have '01', the links '1'" in error.message
    two = nodes.assign(score=[1, 2, 3, 4, 5])
    error = refused("edges", from_frames, two, edges.clip(1))
    assert "`id='rank'` or `id='score'`" in error.message
    nodes.index.name = "node"
    assert from_frames(nodes, edges.clip(1)).ids == [0, 1, 2, 3, 4]


def test_a_column_of_classes_of_an_unusual_name_is_asked_for():
    nodes = pandas.DataFrame({"team": [*"ab"] * 5, "size": np.arange(10.0) ** 2})
    edges = pandas.DataFrame({"from": range(9), "to": range(1, 10)})
    told = str(refused("label", from_frames, nodes, edges))
    assert told.startswith("label: no column has a usual name of classes. Name the column")
    assert "perhaps team (2 values); or give `label='none'`" in told
    assert "y" in from_frames(nodes, edges, label="team")
    assert "y" not in from_frames(nodes, edges, label="none")
    assert "y" not in from_frames(nodes[["size"]], edges)


def test_one_bad_row_does_not_change_the_column_of_ids():
    ids = [f"P{number:02}" for number in range(20)]
    nodes = pandas.DataFrame({"article": ids, "x": range(20), "label": [*"ab"] * 10})
    edges = pandas.DataFrame({"a": ids, "b": [*ids[1:], "Q"]})
    assert "1 of 20 links" in refused("edges", from_frames, nodes, edges).message
    for cell, error in (("Q", "'Q'"), (None, "an empty cell")):
        with pytest.warns(graphgym_srnc.ShiftWarning, match=f"left out: {error}"):
            made = from_frames(nodes, edges.replace("Q", cell), skip_missing=True)
        assert made.ids == ids and made.feature_names == ["x"]
    far = edges.assign(b=["Q"] * 15 + ids[:5])
    error = refused("edges", from_frames, nodes, far, like=made)
    assert "Add the nodes of the earlier graph to the node table, fix the" in error.message
    with pytest.warns(graphgym_srnc.ShiftWarning, match="These are most of the links. Add the nod"):
        from_frames(nodes, far, like=made, skip_missing=True)
    again = pandas.concat([nodes, nodes[1:2]], ignore_index=True)
    assert "1 row merged" in from_frames(again, edges[:-1]).notes[0]


@pytest.mark.parametrize(
    "ends, hint",
    [
        (["01", "02", ""], "an empty cell. Ids are those of id: '01', '02' and '03'"),
        ([11, 12, 13], "The column code holds such ids; name it with `id='code'`"),
        ([7, 8, 9], "or leave out these links with `skip_missing=True`"),
    ],
)
def test_hints_on_ends_of_links(ends, hint):
    nodes = pandas.DataFrame({"id": ["01", "02", "03"], "x": [7.0, 8.0, 9.0], "code": [11, 12, 13]})
    links = pandas.DataFrame({"a": ["01", "02", "03"] if "" in ends else ends, "b": ends})
    nodes["label"] = ["a", "", "b"]
    assert hint in str(refused("edges", from_frames, nodes, links, id="id"))


def test_hints_on_graphs_and_nodes(model):
    one = graph()
    one.train_mask = one.train_mask[:, None].repeat(1, 2)
    not_fitted("graph: train_mask", one)
    not_fitted("graph: edge_index", graph(edge_index=None, adj_t=torch.eye(V)))
    for nodes in ([-1], [True] * (V - 1)):
        refused("nodes", model.score, graph(), None, nodes)
    with pytest.raises(TypeError, match="unexpected keyword argument 'device'"):
        tiny(device="cuda")
    bare = networkx.path_graph(3)
    assert "3 nodes without the attribute 'x': 0, 1" in str(
        refused("features", api.from_networkx, bare)
    )
