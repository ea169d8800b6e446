"""What users pass from Python: one clear ``InputError``, or the numbers of the usual input."""

from __future__ import annotations

import contextlib
import warnings
from decimal import Decimal
from functools import partial
from typing import Any

import networkx
import numpy as np
import pandas
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch_geometric.data import Data
from torch_geometric.utils import index_to_mask

import graphgym_srnc
from graphgym_srnc import OnNodes, api, shifts
from graphgym_srnc.api.estimator import plain
from graphgym_srnc.backbones import features as scaling
from graphgym_srnc.core.errors import InputError
from graphgym_srnc.shifts.given import labels

V = 48
NODES = torch.arange(V)
NAMES = sorted(set(api.make.estimators()) - {"IID"})  # which needs a task with an oracle
TINY = {
    "hidden": 4,
    "pretrain_steps": 3,
    "gnn_steps": 3,
    "steps": 2,
    "rounds": 1,
    "max_episodes": 1,
}
few = settings(
    max_examples=25,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


def tiny(name: str = "ERM", **changes) -> api.Estimator:
    cls = getattr(graphgym_srnc, name)
    params = cls().get_params()
    return cls(**{key: value for key, value in TINY.items() if key in params} | changes)


def graph(seed: int = 0, width: int = 6, **changes) -> Data:
    random = np.random.default_rng(seed)
    y = NODES % 3
    x = torch.from_numpy(random.random((V, width)) + np.eye(width)[y.numpy()])
    pairs = random.integers(0, V, (2, 4 * V))
    pairs[1, : 3 * V] = (pairs[0, : 3 * V] + 3 * random.integers(1, 9, 3 * V)) % V
    found = Data(x=x.float(), edge_index=torch.from_numpy(pairs), y=y, train_mask=NODES < 18)
    return found.update(changes)


def numbers(data: Data, other: Data | None = None, name: str = "ERM", **changes) -> np.ndarray:
    """Probabilities of the nodes of a graph after training on ``data``."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        model = tiny(name, open_set=False, **changes).fit(data)
        return model.predict_proba(graph(1) if other is None else other)


def refused(key: str, function, *args, **kwargs) -> str:
    with pytest.raises(InputError) as error:
        function(*args, **kwargs)
    assert key in error.value.key and "\n" not in str(error.value)
    return str(error.value)


def refused_or(expected: Any, function) -> bool:
    """Whether a function gave the expected numbers, which it must unless it refuses its input."""
    try:
        found = function()
    except InputError as error:
        assert "\n" not in str(error)
        return False
    assert np.array_equal(found, expected)
    return True


# ---- two graphs ----


@pytest.mark.parametrize("name", NAMES)
def test_two_graphs_with_different_features(name):
    callback = pytest.fail  # no episode is trained
    model = tiny(name, callbacks=[callback])
    text = refused("target: x", model.fit, graph(width=4), graph(width=5))
    assert "5 features" in text and "4" in text
    refused("graph: x", tiny("ERM").fit(graph()).predict, graph(width=5))


# ---- features ----


def in_inference_mode(x: torch.Tensor) -> torch.Tensor:
    with torch.inference_mode():
        return x.clone()


def trained(x: torch.Tensor) -> torch.Tensor:
    return torch.nn.Embedding.from_pretrained(x, freeze=False).weight


@pytest.mark.parametrize("name", ["ERM", "SRNCPlus", "UDAGCN"])
@pytest.mark.parametrize(
    "given_as",
    [
        trained,
        in_inference_mode,
        lambda x: x * torch.ones(1, requires_grad=True),
        np.asarray,
        torch.Tensor.tolist,
        torch.Tensor.double,
        torch.Tensor.to_sparse,
        torch.Tensor.to_sparse_csr,
        lambda x: x.T.contiguous().T,
    ],
    ids=lambda value: getattr(value, "__name__", str(value)),
)
@pytest.mark.filterwarnings("ignore:Sparse")
def test_features_in_another_form(name, given_as):
    expected = numbers(graph(), name=name)
    data, other = graph(), graph(1)
    data.x, other.x = given_as(data.x), given_as(other.x)
    assert np.array_equal(numbers(data, other, name), expected)
    assert not isinstance(data.x, torch.Tensor) or not data.x.is_leaf or data.x.grad is None
    data.y, data.train_mask, data.edge_index = (
        in_inference_mode(data[key]) for key in ("y", "train_mask", "edge_index")
    )
    assert np.array_equal(numbers(data, other, name), expected)


@pytest.mark.parametrize(
    "dtype", [torch.half, torch.bfloat16, torch.int8, torch.uint8, torch.int64, torch.bool]
)
def test_features_of_another_type(dtype):
    data, other = graph(), graph(1)
    data.x, other.x = (
        (g.x * 2).round().clamp(max=1 if dtype == torch.bool else 9) for g in (data, other)
    )
    expected = numbers(data, other)
    data.x, other.x = data.x.to(dtype), other.x.to(dtype)
    assert np.array_equal(numbers(data, other), expected)


@pytest.mark.parametrize(
    "x",
    [
        graph().x.to(torch.complex64),
        np.ma.array(graph().x, mask=graph().x > 1),
        [["word"] * 6] * V,
        [[10**400] * 6] * V,
        [[1.0], [1.0, 2.0]],
        np.full((V, 6), None),
        torch.ones(V, 6).to("meta"),
        graph().x[0],
        graph().x.double() * 1e300,
        "features",
    ],
)
def test_features_that_are_refused(x):
    model = tiny().fit(graph())
    refused("graph", tiny().fit, graph(x=x))
    refused("graph", model.predict, graph(x=x))


def test_a_task_whose_features_require_a_gradient():
    task = shifts.from_data(graph(), open_set=False)[0]
    expected = tiny(features="none").fit(task).predict_proba(graph(1))
    task.source.x = trained(task.source.x)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        assert np.array_equal(tiny(features="none").fit(task).predict_proba(graph(1)), expected)
    assert task.source.x.grad is None and task.fingerprint()


@pytest.mark.parametrize("name", ["ERM", "SRNCPlus"])
def test_a_task_of_inference_mode(name):
    with torch.inference_mode():
        task = shifts.from_data(graph(), open_set=False)[0]
    usual = shifts.from_data(graph(), open_set=False)[0]
    found = [tiny(name).fit(each).predict_proba(graph(1)) for each in (task, usual)]
    assert np.array_equal(*found)


# ---- magnitude of features ----


SCALINGS = {
    "times 1e-18": lambda x: x * 1e-18,
    "times 1e-40": lambda x: x * 1e-40,
    "times 1e-200": lambda x: x * 1e-200,
    "times 1e15": lambda x: x * 1e15,
    "plus 1e8": lambda x: x + 1e8,
    "plus 1e4": lambda x: x + 1e4,
    "column plus 1e8": lambda x: x + 1e8 * torch.eye(x.size(1))[1],
    "column times 1e9": lambda x: x * (1 + 1e9 * torch.eye(x.size(1))[1]),
    "rows times 1e-18": lambda x: x * torch.where(NODES % 2 == 0, 1, 1e-18)[:, None],
    "integers": lambda x: (x * 2**12 + 2**42).long(),
}


@pytest.mark.parametrize("is_sparse", [False, True])
@pytest.mark.parametrize("features", scaling.FEATURES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("change", SCALINGS.values(), ids=SCALINGS)
def test_features_far_from_one_are_scaled_or_give_a_warning(change, dtype, features, is_sparse):
    x = graph(width=30).x.double()
    x = torch.where(x > 0.9, x, 0) if is_sparse else x
    data, changed = graph(x=x), change(x)
    changed = changed if changed.dtype == torch.int64 else changed.to(dtype)
    if features == "none" or float(changed.abs().max()) > 1e16:
        x = x.new_ones(x.shape)  # such features cannot give the same numbers
    expected = scaling.scaled_features(x.float(), features)
    found = shifts.unlabelled(data.update({"x": changed})).x
    texts = scaling.feature_warnings(found, features)
    assert all(text.endswith(".") and "\n" not in text for text in texts)
    found = scaling.scaled_features(found, features)
    same = type(found) is type(expected) and np.allclose(
        *(scaling_dense(part) for part in (found, expected)), atol=1e-3
    )
    # Scaling compares rows with each other if it centres them, or does nothing.
    is_row = change is SCALINGS["rows times 1e-18"] and features in ("auto", "none")
    assert same or texts or is_row or features == "auto" and is_sparse


def scaling_dense(x: Any) -> np.ndarray:
    return x.numpy() if isinstance(x, torch.Tensor) else x.matrix.toarray()


@pytest.mark.parametrize("name", ["times 1e-18", "times 1e15", "plus 1e8", "integers"])
def test_accuracy_does_not_depend_on_the_magnitude(name):
    data, other = (graph(seed, x=graph(seed).x.double()) for seed in (0, 1))
    model = tiny(steps=40, open_set=False).fit(data)
    expected = model.accuracy(data), model.accuracy(other)
    assert min(expected) > 0.8
    data.x, other.x = SCALINGS[name](data.x), SCALINGS[name](other.x)
    model = tiny(steps=40, open_set=False).fit(data)
    found = model.accuracy(data), model.accuracy(other)
    assert not model.warnings_ and found == pytest.approx(expected, abs=0.05)


def test_a_warning_reaches_the_user():
    data = graph()
    data.x = data.x + 1e8
    with pytest.warns(RuntimeWarning, match="source x: all nodes have the same features"):
        model = tiny(open_set=False).fit(data)
    assert any("same features" in text for text in model.warnings_)
    with pytest.warns(RuntimeWarning, match="graph x: all nodes have the same features"):
        model.predict(data)


def test_usual_features_give_no_warning():
    for features in scaling.FEATURES:
        assert not scaling.feature_warnings(graph().x, features)
        assert not scaling.feature_warnings((graph().x > 1.2).float(), features)


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
    "half": lambda: default(torch.set_default_dtype, torch.half, torch.float32),
    "meta": lambda: default(torch.set_default_device, "meta", None),
    "autocast": lambda: torch.autocast("cpu", torch.bfloat16),
    "no_grad": torch.no_grad,
    "inference_mode": torch.inference_mode,
    "no gradients": lambda: torch.set_grad_enabled(False),
}


def torch_settings() -> tuple:
    return (
        torch.get_default_dtype(),
        torch.get_default_device(),
        torch.is_grad_enabled(),
        torch.is_inference_mode_enabled(),
        torch.is_autocast_enabled("cpu"),
    )


def whole_use(name: str, tmp_path, context) -> list[np.ndarray]:
    """Numbers of fit, save, load and predict, all inside a context."""
    data, other = graph(), graph(1)
    with context(), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        before = torch_settings()
        model = tiny(name, open_set=False).fit(data, other)
        model.save(tmp_path / "model.pt")
        loaded = graphgym_srnc.load(tmp_path / "model.pt")
        found = [
            part
            for each in (model, loaded)
            for part in (
                each.predict_proba(other),
                each.predict(other),
                each.transform(other),
                each.accuracy(other),
            )
        ]
        assert before == torch_settings()
    return [*found, graphgym_srnc.load(tmp_path / "model.pt").predict_proba(other)]


@pytest.mark.parametrize("name", NAMES)
def test_settings_of_torch_do_not_change_the_numbers(name, tmp_path):
    @contextlib.contextmanager
    def several():
        with CONTEXTS["float64"](), CONTEXTS["autocast"](), torch.inference_mode():
            yield

    expected = whole_use(name, tmp_path, contextlib.nullcontext)
    found = whole_use(name, tmp_path, several)
    assert all(map(np.array_equal, found, expected))


@pytest.mark.parametrize("context", CONTEXTS.values(), ids=CONTEXTS)
def test_each_setting_of_torch(context, tmp_path):
    expected = whole_use("SRNC", tmp_path, contextlib.nullcontext)
    assert all(map(np.array_equal, whole_use("SRNC", tmp_path, context), expected))


def test_the_default_type_stays_float32_until_the_last_call_returns():
    torch.set_default_dtype(torch.float64)
    try:
        with plain():
            with plain():
                assert torch.get_default_dtype() == torch.float32
            assert torch.get_default_dtype() == torch.float32
        assert torch.get_default_dtype() == torch.float64
    finally:
        torch.set_default_dtype(torch.float32)


# ---- masks ----


RIGHT = NODES < 18
MASKS = {
    "int": RIGHT.long(),
    "uint8": RIGHT.byte(),
    "float": RIGHT.float(),
    "half": RIGHT.half(),
    "numpy": RIGHT.numpy(),
    "list": RIGHT.tolist(),
    "numbers": RIGHT.long().tolist(),
}
NO_MASKS = {
    "NaN": torch.full((V,), torch.nan),
    "plus and minus": RIGHT.long() * 2 - 1,
    "node numbers": NODES,
    "fewer": NODES[:18],
    "list": list(range(18)),
    "0.3": RIGHT * 0.3,
    "column": RIGHT[:, None],
    "splits": RIGHT[:, None].expand(V, 10),
    "scalar": torch.tensor(True),
    "words": ["yes"] * V,
    "empty": [],
    "one NaN": torch.where(NODES == 40, torch.nan, RIGHT * 1.0),
    "weights": torch.rand(V),
    "sparse": RIGHT.float().to_sparse(),
    "a name": "train",
    "None": [None] * V,
    "complex": RIGHT.to(torch.complex64),
    "large": RIGHT.long() * 2**40,
    "masked": np.ma.array(RIGHT.numpy(), mask=NODES.numpy() > 3),
}


@pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS)
def test_masks(mask, tmp_path):
    expected = numbers(graph())
    assert np.array_equal(numbers(graph(train_mask=mask)), expected)
    model = tiny(open_set=False).fit(graph())
    assert (
        model.accuracy(graph(1, test_mask=mask))
        == model.accuracy(graph(1, test_mask=RIGHT))
        == model.accuracy(graph(1), torch.where(RIGHT, NODES % 3, -1))
    )
    torch.save(graph(train_mask=torch.as_tensor(mask)).to_dict(), tmp_path / "graph.pt")
    np.savez(tmp_path / "graph.npz", **graph(train_mask=np.asarray(mask)).to_dict())
    for name in ("graph.pt", "graph.npz"):
        task = shifts.find("file")(path=str(tmp_path / name), split="given")
        assert task.train.tolist() == list(range(18))


@pytest.mark.parametrize("mask", NO_MASKS.values(), ids=NO_MASKS)
def test_what_is_no_mask(mask, tmp_path):
    model = tiny(open_set=False).fit(graph())
    for part in ("train_mask", "val_mask", "test_mask"):
        refused(part, tiny().fit, graph(**{part: mask}))
    refused("test_mask", model.accuracy, graph(test_mask=mask))
    refused("val_mask", tiny().fit, graph(), graph(1, val_mask=mask))
    refused("train_mask", tiny().fit, graph(train_mask=mask), graph(1))
    if isinstance(mask, torch.Tensor):
        torch.save(graph(train_mask=mask).to_dict(), tmp_path / "graph.pt")
        refused("train_mask", shifts.find("file"), path=str(tmp_path / "graph.pt"))


def test_the_error_says_how_to_make_a_mask():
    text = refused("train_mask", tiny().fit, graph(train_mask=NODES[:18]))
    assert f"index_to_mask(nodes, {V})" in text
    mask = index_to_mask(NODES[:18], V)
    assert np.array_equal(numbers(graph(train_mask=mask)), numbers(graph()))


@given(
    st.lists(
        st.sampled_from([True, False, 0, 1, 0.0, 1.0, -1, 2, 0.5, float("nan")]),
        min_size=V - 1,
        max_size=V,
    )
)
@few
def test_any_mask_is_right_or_refused(values):
    wanted = torch.tensor([value == 1 for value in values])
    is_mask = len(values) == V and set(values) <= {0, 1}
    try:
        ids = shifts.given.masked_nodes(
            graph(train_mask=torch.tensor(values, dtype=torch.float64)), "graph"
        )["train_mask"]
    except InputError as error:
        assert not is_mask and f"[{V}]" in str(error)
    else:
        assert is_mask and ids.tolist() == wanted.nonzero().view(-1).tolist()


# ---- labels ----


@pytest.mark.parametrize(
    "given_as",
    [
        torch.Tensor.tolist,
        torch.Tensor.numpy,
        torch.Tensor.float,
        torch.Tensor.double,
        torch.Tensor.int,
        lambda y: y.to(torch.uint8),
        lambda y: y.to(torch.bfloat16),
        lambda y: y.numpy().astype("uint64"),
        lambda y: [*y.numpy()],
        lambda y: y[:, None],
        lambda y: y.numpy().astype(object),
        lambda y: y.float().tolist(),
        lambda y: tuple(y.tolist()),
    ],
)
def test_labels_in_another_form(given_as):
    assert np.array_equal(numbers(graph(y=given_as(NODES % 3))), numbers(graph()))


@pytest.mark.parametrize(
    "none", [-1, None, float("nan"), np.float32("nan"), pandas.NA, pandas.NaT], ids=str
)
def test_a_missing_label(none):
    y = (NODES % 3).tolist()
    y[30:] = [none] * (V - 30)
    names = [none if value is none else "abc"[value] for value in y]
    expected = numbers(graph())
    assert np.array_equal(numbers(graph(y=y)), expected)
    assert np.array_equal(numbers(graph(y=names)), expected)
    assert np.array_equal(numbers(graph(y=np.array(names, dtype=object))), expected)
    model = tiny(open_set=False).fit(graph())
    assert model.accuracy(graph(1), y) == model.accuracy(graph(1, test_mask=NODES < 30))
    refused("train_mask", tiny().fit, graph(y=y, train_mask=NODES < 31))


@pytest.mark.parametrize("word", ["unknown", "?", "nan", "NaN", "N/A", "unlabeled", "", "None"])
def test_words_for_a_missing_label(word):
    names = [*map("abc".__getitem__, (NODES % 3).tolist()[:30]), *[word] * (V - 30)]
    if word:
        with pytest.warns(RuntimeWarning, match="18 cells read as no label"):
            model = tiny().fit(graph(y=names))
    else:
        model = tiny().fit(graph(y=names))
    assert model.classes_.tolist() == ["a", "b", "c"]


@pytest.mark.parametrize(
    "y",
    [
        [0, 1, float("inf")],
        [0, 1, 10**30],
        [0, 1, 0.5],
        [0, 1, -2],
        [0, 1, 10**400],
        [0, 1, {}],
        [0, 1, [2]],
        [0, 1, b"a"],
        [0, 1, Decimal(2)],
        [0, 1, 2j],
        ["a", "b", 0.5],
        ["a", "b", ("c",)],
        ["a", "b", -7],
        [0, 1, 2.0**63],
        [0, 1, -1e30],
        ["a", "b", np.datetime64("2020-01-01")],
    ],
    ids=str,
)
def test_labels_that_are_refused(y):
    refused("y", tiny().fit, graph(y=y * (V // 3)))
    refused("y", tiny().fit, graph(), graph(1, y=y * (V // 3)))
    refused("y", tiny().fit(graph()).accuracy, graph(), y * (V // 3))
    nodes = range(V)
    refused("labels", OnNodes(tiny(), graph()).fit, nodes, y * (V // 3))


@pytest.mark.parametrize(
    "y",
    [
        torch.full((V,), torch.inf),
        torch.full((V,), 0.5),
        torch.full((V,), 1e30),
        torch.full((V,), 2.0**63),
        torch.full((V,), -2),
        np.full(V, 2**64 - 1, dtype="uint64"),
        torch.eye(V),
        torch.zeros(V - 1),
        (NODES % 3).to(torch.complex64),
        (NODES % 3).to_sparse(),
        np.zeros(V, dtype="datetime64[s]"),
        np.zeros(V, dtype="V3"),
        "labels",
        3,
        {"a": 1},
        [[0], [1, 2]],
        [np.zeros((2, 3)), np.zeros((2, 4))],
    ],
    ids=lambda y: str(y)[:30],
)
def test_arrays_that_are_no_labels(y, tmp_path):
    refused("y", tiny().fit, graph(y=y))
    refused("y", tiny().fit(graph()).accuracy, graph(), y)
    if isinstance(y, torch.Tensor):
        torch.save(graph(y=y).to_dict(), tmp_path / "graph.pt")
        refused("y", shifts.find("file"), path=str(tmp_path / "graph.pt"), labels_per_class=2)


def test_a_masked_label_is_no_label():
    y = np.ma.array((NODES % 3).numpy(), mask=NODES.numpy() >= 30)
    assert labels(y, V, "y").tolist() == torch.where(NODES < 30, NODES % 3, -1).tolist()


def test_a_graph_without_any_label_goes_with_words():
    names = ["abc"[i] for i in (NODES % 3).tolist()]
    expected = numbers(graph(), graph(1))
    for y in (torch.full((V,), -1), [None] * V, [""] * V, torch.full((V,), torch.nan), None):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            model = tiny(open_set=False).fit(graph(y=names), graph(1, y=y))
        assert model.classes_.tolist() == ["a", "b", "c"]
    assert expected.shape == (V, 3)


def test_accuracy_refuses_labels_of_another_kind():
    names = ["abc"[i] for i in (NODES % 3).tolist()]
    model, by_name = tiny().fit(graph()), tiny().fit(graph(y=names))
    assert "words" in refused("y", model.accuracy, graph(), names)
    assert "words" in refused("y", by_name.accuracy, graph(y=NODES % 3))
    assert by_name.accuracy(graph(1), names) == model.accuracy(graph(1))


def test_unknown_is_a_class_of_a_model_that_predicts_it():
    names = ["abc"[i] for i in (NODES % 3).tolist()]
    model = tiny("SRNC", open_set=True).fit(graph(y=names))
    predicted = model.predict(graph(1))
    assert model.accuracy(graph(1), predicted) == 1
    assert model.accuracy(graph(1), ["unknown"] * V) == (predicted == "unknown").mean()


VALUES = st.one_of(
    st.integers(-3, 5),
    st.sampled_from([None, float("nan"), "a", "b", "?", "", "NaN", True, 2.0]),
    st.integers(),
    st.floats(),
    st.text(max_size=3),
    st.binary(max_size=2),
    st.tuples(st.integers()),
)


@given(st.lists(VALUES, min_size=1, max_size=8))
@few
def test_any_labels_are_right_or_refused(y):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        try:
            found = labels(y, len(y), "y")
        except InputError as error:
            assert "\n" not in str(error)
            return
    assert len(found) == len(y) and found.dtype.kind in "iU"
    for cell, label in zip(y, found.tolist()):
        if isinstance(label, int):
            assert label == (-1 if cell is None or cell != cell else cell)
        elif label:
            assert label == " ".join(str(int(cell) if isinstance(cell, float) else cell).split())


@pytest.mark.parametrize("label", [float("nan"), None, np.float64("nan"), ""])
def test_networkx_without_some_labels(label):
    found = graphgym_srnc.from_networkx(network([0, 1, label]))
    assert found.train_mask.tolist() == [True, True, False] * 3 and found.y.tolist()[:2] == [0, 1]


@pytest.mark.parametrize("label", [float("inf"), 10**30, 0.5, {}, (1,)], ids=str)
def test_networkx_with_other_labels(label):
    """A label is no label, or a class of its own in the words of the user."""
    if label == float("inf"):
        with pytest.warns(RuntimeWarning, match="read as no label: 'inf'"):
            found = graphgym_srnc.from_networkx(network([0, 1, label]))
        assert found.y[:3].tolist() == [0, 1, -1]
    else:
        found = graphgym_srnc.from_networkx(network([0, 1, label]))
        assert found.y[:3] == ["0", "1", str(label)]


@pytest.mark.parametrize(
    "values",
    [
        [np.int64(0), np.int32(1), np.int8(2)],
        [True, False, True],
        [0.0, 1.0, 2.0],
        [np.float32(0), 1, 2.0],
    ],
    ids=str,
)
def test_networkx_with_types_of_numpy(values):
    found = graphgym_srnc.from_networkx(network(values))
    assert labels(found.y, 9, "y")[:3].tolist() in ([*map(int, values)], [*map(str, values)])


def network(values: list[Any]) -> networkx.Graph:
    made = networkx.cycle_graph(9)
    for node in made:
        made.nodes[node].update(x=[float(node)], label=values[node % 3])
    return made


# ---- edges ----


@pytest.mark.parametrize(
    "edges",
    [
        [[0, 10**30], [1, 2]],
        torch.tensor([[0, 1e20], [1, 2]]),
        torch.tensor([[0, torch.nan], [1, 2]]),
        torch.tensor([[0, torch.inf], [1, 2]]),
        torch.tensor([[0.0, 1], [1, 2]]),
        graph().edge_index.T,
        graph().edge_index[0],
        graph().edge_index[None],
        torch.eye(2).bool(),
        np.array([[0, 2**63], [1, 2]], "uint64"),
        np.array([[0, 2**64 - 1], [1, 2]], "uint64"),
        [["a", "b"], ["b", "c"]],
        torch.tensor([[0], [V]]),
        torch.tensor([[-1], [0]]),
        torch.tensor([[0, 1j], [1, 2]]),
        [[0, 1], [1]],
        [[0, None], [1, 2]],
        "edges",
        {},
        torch.ones(2, 3).to_sparse(),
        np.ma.array([[0, 1], [1, 2]], mask=[[0, 1], [0, 0]]),
    ],
    ids=lambda edges: str(edges)[:30],
)
def test_edges_that_are_refused(edges):
    model = tiny().fit(graph())
    refused("edge_index", tiny().fit, graph(edge_index=edges))
    refused("edge_index", model.predict, graph(edge_index=edges))


def test_a_graph_without_edges():
    none = torch.empty(2, 0, dtype=torch.long)
    refused("edge_index", tiny().fit, graph(edge_index=none))
    assert len(tiny().fit(graph()).predict(graph(edge_index=none))) == V


@pytest.mark.parametrize(
    "given_as",
    [
        torch.Tensor.int,
        torch.Tensor.short,
        torch.Tensor.byte,
        torch.Tensor.numpy,
        torch.Tensor.tolist,
        lambda e: e.numpy().astype("uint64"),
        lambda e: e.T.contiguous().T,
    ],
)
def test_edges_in_another_form(given_as):
    data, other = graph(), graph(1)
    data.edge_index, other.edge_index = given_as(data.edge_index), given_as(other.edge_index)
    assert np.array_equal(numbers(data, other), numbers(graph()))


# ---- what users try first ----


@pytest.mark.parametrize(
    "source, target",
    [
        (graph(), RIGHT),
        (graph(), graph().y),
        (graph().x, graph().y),
        (graph().x.numpy(), None),
        ([graph()], None),
        (network([0, 1, 2]), None),
        ("Cora", None),
        (None, None),
        (graph(), "Cora"),
        (graph(), [0, 1, 2]),
        (Data(), None),
        (Data(x=graph().x), None),
        (graph(), Data()),
    ],
)
def test_a_wrong_argument_of_fit(source, target):
    with pytest.raises(InputError) as error:
        tiny().fit(source, target)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "given_graph",
    [graph().x, RIGHT, None, "Cora", network([0, 1, 2]), Data(), shifts.from_data(graph())[0]],
)
def test_a_wrong_argument_of_predict(given_graph):
    model = tiny().fit(graph())
    for function in (model.predict, model.predict_proba, model.transform):
        refused("graph", function, given_graph)


def test_nodes_of_on_nodes():
    y, nodes = (NODES % 3).numpy(), np.arange(18)
    expected = OnNodes(tiny(open_set=False), graph()).fit(nodes, y[:18]).predict_proba(nodes)
    assert np.array_equal(expected, numbers(graph(), graph())[:18])
    for wrong in (RIGHT, [0.5] * 18, ["a"] * 18, [V], [-1], [[0], [1, 2]], None, [10**30]):
        refused("nodes", OnNodes(tiny(), graph()).fit, wrong, y[:18])
    for wrong in (y[:17], 1, None, [float("inf")] * 18, y[:36].reshape(18, 2)):
        refused("labels", OnNodes(tiny(), graph()).fit, nodes, wrong)
    twice = partial(OnNodes(tiny(), graph()).fit, [*nodes, 0])
    twice([*y[:18], 0])
    assert "node 0 has two different labels" in refused("labels", twice, [*y[:18], 1])
    names = ["abc"[value] for value in y[:17]]
    refused("train_mask", OnNodes(tiny(), graph()).fit, nodes, [*names, float("nan")])
    refused("graph", OnNodes(tiny(), graph().x).fit, nodes, y[:18])
