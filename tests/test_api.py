"""Estimators: the trainer's numbers, scikit-learn's habits, masks, threads and files."""

from __future__ import annotations

import copy
import doctest
import inspect
import pickle
import random
import re
import runpy
import threading
from pathlib import Path

import networkx
import numpy as np
import pandas
import pytest
import torch
from conftest import make_graph, make_task, refused
from matplotlib.figure import Figure
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV
from tasks import ESTIMATORS, OTHER_GRAPH, QUICK, masked_graph, task_for, tiny_estimator
from torch_geometric.data import Data

import graphgym_srnc
from graphgym_srnc import api, methods, plot, shifts
from graphgym_srnc.api import parameters
from graphgym_srnc.backbones import EncoderSpec
from graphgym_srnc.core import progress
from graphgym_srnc.core.options import options
from graphgym_srnc.core.task import ShiftTask, Sizes
from graphgym_srnc.errors import InputError
from graphgym_srnc.gym.build import visible_task
from graphgym_srnc.methods.shared.scores import SCORES
from graphgym_srnc.plots.style import PALETTE
from graphgym_srnc.shifts.given import unlabelled
from graphgym_srnc.train import trainer

ROOT = Path(__file__).parents[1]
PLUGINS = {*api.estimators()} - {*ESTIMATORS}
FITTED = ["CMD", "DANN", "DOC", "ERM", "IID", "OpenWGL", "PGL", "SRNC", "SRNCPlus"]
"""Estimators of each kind; tests/test_contract.py has all methods."""
PAGE = (ROOT / "docs/how-to/python.md").read_text(encoding="utf-8")

pytestmark = [
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),
    pytest.mark.usefixtures("hardly_pretrained"),
]


@pytest.fixture(scope="module")
def fitted(tmp_path_factory) -> dict[str, tuple[api.Estimator, ShiftTask, Path]]:
    """Each method on a task of the kind that it is made for, and its file."""
    folder = tmp_path_factory.mktemp("models")
    made = {}
    for name in FITTED:
        model = tiny_estimator(name)
        task = task_for(name)
        path = folder / f"{name}.pt"
        model.fit(task).save(path)
        made[name] = model, task, path
    return made


@pytest.mark.parametrize("name", FITTED)
def test_numbers_are_those_of_the_trainer(fitted, name):
    model, task, _ = fitted[name]
    cls = model._method
    recipe = {"features": "auto", **cls.encoder_defaults, "hidden": 8}
    own = {o.key: QUICK[o.key] for o in options(cls) if o.key in QUICK}
    method = cls(encoder=EncoderSpec(**recipe), **own)
    shown = visible_task(cls, task)
    record = trainer.fit(method, shown, seed=0)
    assert [(e.number, e.losses, e.val, e.test) for e in model.record_.history] == [
        (e.number, e.losses, e.val, e.test) for e in record.history
    ]
    assert model.record_.best == record.best
    assert (model.scores_["val"], model.scores_["test"]) == (record.val, record.test)
    number = np.array([*range(shown.num_known), -1])
    assert model.classes_.tolist() == number[: shown.num_outputs].tolist()
    for graph in (shown.target, OTHER_GRAPH):
        assert np.array_equal(model.predict(graph), number[method.decide(method.predict(graph))])
    assert model.score(task) == pytest.approx(model.scores_["test"]["micro_f1"])


@pytest.mark.parametrize("name", FITTED)
def test_predictions_leave_the_model_as_it_was(fitted, name):
    method = fitted[name][0].method_
    before = copy.deepcopy(method.state_dict()), str(vars(method))
    modes = [module.training for module in method.modules()]
    p = fitted[name][0].predict_proba(OTHER_GRAPH)
    assert p.shape == (90, len(fitted[name][0].classes_)) and (p >= 0).all()
    assert np.allclose(p.sum(1), 1)
    assert np.array_equal(
        fitted[name][0].classes_[p.argmax(1)], fitted[name][0].predict(OTHER_GRAPH)
    )
    assert fitted[name][0].transform(OTHER_GRAPH).shape == (90, 8)
    after = method.state_dict()
    assert before[0].keys() == after.keys()
    assert all(torch.equal(before[0][key], after[key]) for key in after)
    assert modes == [module.training for module in method.modules()]
    assert before[1] == str(vars(method))


@pytest.mark.parametrize("score", SCORES)
def test_probability_of_the_unknown_class(score):
    torch.manual_seed(0)
    method = methods.find("erm")(confidence=score)
    method.build(Sizes(4, 3, True))
    scores = 3 * torch.randn(200, 3 if score == "max_softmax" else 4)
    sure = method.confidence(scores)
    for cut in (-torch.inf, torch.inf, 0.0, 1.0, *sure.sort().values[[0, 99, 199]].tolist()):
        method.threshold.fill_(cut)
        p = method.posterior(scores)
        assert torch.isfinite(p).all() and torch.allclose(p.sum(1), torch.ones(200).double())
        assert torch.equal(p.argmax(1), method.decide(scores))
        share = p[:, :3] / p[:, :3].sum(1, keepdim=True)
        if abs(cut) < torch.inf:
            assert torch.allclose(share, scores[:, :3].double().softmax(1), atol=1e-6)
    method.threshold.fill_(float(sure.median()))
    odds = (method.posterior(scores)[:, 3] / method.posterior(scores)[:, :3].amax(1)).log()
    assert (odds[sure.argsort()].diff() <= 1e-6).all()  # the less sure, the likelier unknown


def test_srnc_has_a_posterior_of_its_own():
    method = methods.find("srnc")()
    method.build(Sizes(4, 3, True))
    log_p = torch.randn(50, 4).log_softmax(1)
    assert torch.allclose(method.posterior(log_p), log_p.exp().double(), atol=1e-6)
    method.threshold.fill_(0.7)
    moved = (log_p + torch.tensor([0, 0, 0, 0.7])).softmax(1)
    assert torch.allclose(method.posterior(log_p), moved.double(), atol=1e-6)


def test_all_that_was_fitted_comes_back(fitted):
    for model, _, path in fitted.values():
        again = graphgym_srnc.load(path)
        assert type(again) is type(model) and again.get_params() == model.get_params()
        assert (again.record_, again.scores_) == (model.record_, model.scores_)
        assert again.n_features_in_ == model.n_features_in_ == 12
        assert model.warnings_ == [*model.verdict_["sentences"].values()]
        assert again.classes_.dtype == model.classes_.dtype
        assert again.classes_.tolist() == model.classes_.tolist()
    assert np.array_equal(
        pickle.loads(pickle.dumps(model)).predict(OTHER_GRAPH), model.predict(OTHER_GRAPH)
    )


@pytest.mark.parametrize("name", ESTIMATORS)
def test_parameters(name):
    cls = getattr(graphgym_srnc, name)
    method = cls._method
    given = cls().get_params()
    told = inspect.signature(cls).parameters
    assert list(told) == [
        *(o.key for o in options(method)),
        *inspect.signature(parameters.shared).parameters,
    ]
    assert given.keys() == told.keys()
    assert all(f"    {key}: " in cls.__doc__ for key in given)
    # a parameter would hide it, or look like a method of scikit-learn
    assert not [key for key in given if callable(getattr(api.OnNodes, key, None))]
    assert not [key for key in given if callable(getattr(api.Estimator, key, None))]
    changed = cls(hidden=8, callbacks=[print])
    copy = clone(changed.set_params(layers=3))
    assert type(copy) is cls and copy.get_params() == changed.get_params() and copy.layers == 3
    assert repr(cls(hidden=8)) == f"{name}(hidden=8)"
    with pytest.raises(TypeError, match=rf"{name}.__init__\(\) got an unexpected .*'width'"):
        cls(width=8)
    with pytest.raises(TypeError, match="Did you mean hidden?"):
        cls(hiden=8)
    with pytest.raises(ValueError, match="width"):
        changed.set_params(width=8)
    for use in ("predict", "predict_proba"):
        with pytest.raises(NotFittedError):
            getattr(copy, use)(OTHER_GRAPH)
    with pytest.raises(NotFittedError):
        copy.save("never.pt")


OWN = """
from graphgym_srnc.methods.shared.supervised import Supervised

class OwnMethod(Supervised):
    '''A method of one's own.

    Args:
        weight: nothing yet.
    '''
    def __init__(self, *, weight: float = 0.5, **base):
        super().__init__(**base)
"""


def test_a_method_of_ones_own_needs_no_other_line(tmp_path, monkeypatch):
    (tmp_path / "ownmethod.py").write_text(OWN)
    monkeypatch.setattr(methods, "__path__", [*methods.__path__, str(tmp_path)])
    model = graphgym_srnc.OwnMethod(weight=0.1, hidden=8, steps=2).fit(make_task())
    model.save(tmp_path / "model.pt")
    again = graphgym_srnc.load(tmp_path / "model.pt")
    assert again.weight == 0.1
    assert np.array_equal(again.predict_proba(OTHER_GRAPH), model.predict_proba(OTHER_GRAPH))
    assert "weight: nothing yet." in graphgym_srnc.OwnMethod.__doc__


def test_defaults_are_those_of_the_shipped_configs(gym):
    for model, name in (
        (graphgym_srnc.SRNC(), "default"),
        (graphgym_srnc.SRNCPlus(), "paper/open_set/cora-srnc-plus"),
        (graphgym_srnc.SRNCPlus(), "paper/close_set/citation/srnc-plus"),
        (graphgym_srnc.SRNCPlus(), "own"),
    ):
        cfg = gym.load_config(name)
        ours = parameters.new_method(
            model._method, *parameters.checked(model._method, model.get_params())
        )
        theirs = gym.build_method(cfg)
        for option in options(model._method):
            if hasattr(ours, option.key):
                assert getattr(ours, option.key) == getattr(theirs, option.key)
        assert {**vars(ours.encoder), "make": None} == {**vars(theirs.encoder), "make": None}
        assert ours.make_optimizer.keywords == theirs.make_optimizer.keywords
    assert graphgym_srnc.SRNCPlus(spare=1, hidden=8).get_params()["spare"] == 1


def test_public_names_are_the_same_everywhere():
    names = [name for name in dir(graphgym_srnc) if name not in PLUGINS]
    stub = runpy.run_path(str(ROOT / "docs/stubs.py"))
    assert stub["FILE"].read_text("utf-8") == stub["stub"](), "run python docs/stubs.py"
    assert {*ESTIMATORS, *graphgym_srnc.PLACES, *graphgym_srnc.MODULES} == {*names}
    space: dict = {}
    exec("from graphgym_srnc import *", space)
    assert {*space} - {"__builtins__", *PLUGINS} == {*names}
    documented = " ".join(runpy.run_path(str(ROOT / "docs/site.py"))["PUBLIC"].values())
    assert {*names} <= {*ESTIMATORS, *re.split(r"[ .]", documented)}
    page = (ROOT / "docs/reference/api.md").read_text("utf-8")
    rows = re.findall(r"^\| `(\w+)`", page, re.M)
    assert rows == names, f"docs/reference/api.md: rows of {sorted({*rows} ^ {*names})}, or order"
    assert (dir(plot), dir(shifts)) == (plot.__all__, ["find", "forget", "names"])
    assert not [name for name in ("srnc", "Nothing", "torch") if hasattr(graphgym_srnc, name)]
    with pytest.raises(AttributeError, match="Did you mean SRNCPlus?"):
        graphgym_srnc.SRNCplus  # noqa: B018


@pytest.mark.parametrize("name", dir(graphgym_srnc))
def test_help_has_no_markup(name):
    thing = getattr(graphgym_srnc, name)
    functions = [function for _, function in inspect.getmembers(thing, inspect.isfunction)]
    for part in (thing, *(one for one in functions if one.__module__.startswith("graphgym_srnc"))):
        assert not re.findall(r":\w+:`|\.\. math|\\[a-z]{2}", inspect.getdoc(part) or "")


def test_two_threads_do_not_disturb_each_other():
    jobs = [("SRNC", 0), ("SRNC", 1), ("OpenWGL", 0)]
    alone = [tiny_estimator(name, random_state=seed).fit(make_task()) for name, seed in jobs]
    together = [tiny_estimator(name, random_state=seed) for name, seed in jobs]
    threads = [threading.Thread(target=model.fit, args=(make_task(),)) for model in together]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for one, other in zip(alone, together):
        assert [e.losses for e in one.record_.history] == [e.losses for e in other.record_.history]
        assert np.array_equal(one.predict_proba(OTHER_GRAPH), other.predict_proba(OTHER_GRAPH))
    assert alone[0].record_.history[0].losses != alone[1].record_.history[0].losses


def test_nothing_global_is_read_or_changed(tmp_path):
    def state() -> tuple:
        draws = random.getstate(), np.random.get_state(), torch.get_rng_state()
        return *draws, torch.get_num_threads(), torch.is_grad_enabled()

    runs = []
    for seed in (3, 4):
        random.seed(seed), np.random.seed(seed), torch.manual_seed(seed)
        before = state()
        with torch.no_grad():
            runs.append(tiny_estimator("OpenWGL").fit(make_task()))
        runs[-1].save(tmp_path / "model.pt")
        graphgym_srnc.load(tmp_path / "model.pt").predict_proba(OTHER_GRAPH)
        after = state()
        assert before[0] == after[0] and np.array_equal(before[1][1], after[1][1])
        assert before[1][2] == after[1][2]
        assert torch.equal(before[2], after[2]) and before[3:] == after[3:]
    one, other = ([episode.losses for episode in model.record_.history] for model in runs)
    assert one == other


@pytest.mark.parametrize("name", ["SRNC", "ERM"])
def test_labels_outside_the_masks_say_nothing(name):
    graph = masked_graph()
    noisy = masked_graph()
    for data in (graph, noisy):
        del data.test_mask
    noisy.y[60:] = torch.randint(5, (30,), generator=torch.Generator().manual_seed(1))
    one = tiny_estimator(name).fit(graph)
    other = tiny_estimator(name).fit(noisy)
    assert "a label of these: 4. If" in str(other.warnings_)
    assert "a label of these" not in str(one.warnings_)
    assert one.record_.fingerprint == other.record_.fingerprint and not one.scores_["test"]
    assert np.array_equal(one.predict_proba(graph), other.predict_proba(graph))


@pytest.mark.parametrize(
    "name, graph, open_set, selection",
    [
        ("SRNC", {}, None, "target_val"),
        ("SRNC", {"val": False}, None, "target_modularity"),
        ("SRNC", {"known": 4}, True, "target_modularity"),
        ("SRNC", {"val": False, "known": 4}, None, "target_modularity"),
        ("ERM", {"val": False}, None, "last"),
        ("ERM", {"val": False, "known": 4}, None, "target_modularity"),
    ],
)
def test_what_auto_selects_by(name, graph, open_set, selection):
    model = tiny_estimator(name, open_set=open_set).fit(masked_graph(**graph))
    assert model.record_.selection == selection
    is_set_by_known = name == "ERM" and selection == "last"
    assert ("no unknown held out" in model.record_.warnings) == is_set_by_known


@pytest.mark.parametrize("name", ["ERM", "PGL"])
def test_a_cut_without_unknown_validation_nodes(name):
    graph = masked_graph(val=False)
    seen = []
    with pytest.warns(RuntimeWarning, match="95 % of the held-out nodes"):
        model = tiny_estimator(
            name, steps=60, callbacks=[lambda *parts: seen.append(parts[2])]
        ).fit(graph)
    task = seen[0]
    held = task.val
    train = task.train
    labelled = set(graph.train_mask.nonzero().view(-1).tolist())
    assert set(held.tolist()) | set(train.tolist()) == labelled
    assert len(held) == 6  # of 9 a class
    assert torch.bincount(task.source.y[held]).tolist() == [2, 2, 2]
    let_through = (model.predict(graph)[held] >= 0).mean()
    assert let_through == pytest.approx(5 / 6) and model.scores_["val"]["micro_f1"] <= let_through
    sure = model.method_.confidence(model.method_.predict(task.target))
    assert torch.equal(sure < model.method_.threshold, torch.tensor(model.predict(graph) < 0))
    # nothing is held out for SRNC
    assert tiny_estimator("SRNC").fit(graph).record_.fingerprint != model.record_.fingerprint


@pytest.mark.parametrize("count, open_set", [(4, None), (4, True), (5, True)])
def test_warnings_count_the_labels_that_are_given(count, open_set):
    graph = masked_graph(val=False)
    graph.train_mask[(graph.y == 2).nonzero()[count:]] = False
    graph.y = torch.where(graph.train_mask, 3 * graph.y, -1)
    model = tiny_estimator("ERM", open_set=open_set).fit(graph)
    assert ("6 (4 of 4 given)" in model.verdict_["sentences"].get("few labels", "")) == (count == 4)
    assert ("inferred open_set" in model.record_.warnings) == (open_set is None)


def test_two_graphs():
    source = make_graph()
    target = make_graph(seed=1)
    labels = target.y
    target.y = None
    model = tiny_estimator("DANN").fit(source, target)
    assert model.classes_.tolist() == [0, 1, 2] and model.record_.selection == "target_modularity"
    assert model.scores_ == {"val": {}, "test": {}}
    source.val_mask = torch.arange(90) < 30
    seen = []
    model = tiny_estimator("ERM", steps=40, callbacks=[lambda *parts: seen.append(parts[2])])
    model.fit(source, target)
    assert seen[0].train.tolist() == list(range(30, 90)) and seen[0].validation is seen[0].source
    hit = model.predict(source, "source")[:30] == source.y[:30].numpy()
    assert model.record_.selection == "source_val"
    assert model.scores_["val"]["micro_f1"] == pytest.approx(hit.mean())
    target.y = labels.where(torch.arange(90) >= 60, torch.tensor(-1))
    target.val_mask = torch.arange(90) >= 60
    model = tiny_estimator("SRNC").fit(source, target)
    hit = model.predict(target)[60:] == labels[60:].numpy()
    assert model.scores_["val"]["micro_f1"] == pytest.approx(hit.mean())
    private = target.clone()
    private.y[60:70] = 9
    assert tiny_estimator("SRNC").fit(source, private).classes_.tolist() == [0, 1, 2, -1]


BAD = {"hidden": 8.0, "dropout": 1.0, "lr": float("nan"), "backbone": "gnn", "open_set": "yes"}
BAD |= {"num_clusters": -1, "callbacks": print, "num_threads": 1025, "layers": True}


def test_bad_parameters():
    cases = [(key, {key: value}) for key, value in BAD.items()]
    cases += [("hidden", {"backbone": "gat", "heads": 3}), ("open_set", {"open_set": False})]
    for key, changes in cases:
        assert refused(key, tiny_estimator("SRNC", **changes).fit, make_task()).key == key


def test_other_bad_input():
    task = make_task()
    model = tiny_estimator("SRNC").fit(make_task())
    refused("target", tiny_estimator("SRNC").fit, task, OTHER_GRAPH)
    refused(
        "source: y", tiny_estimator("SRNC").fit, OTHER_GRAPH, make_graph().update({"y": ["a"] * 90})
    )
    refused("IID", tiny_estimator("IID").fit, masked_graph())
    refused("path", graphgym_srnc.load, "absent.pt")
    refused("path", model.save, Path(__file__).parent)
    refused("path", model.save, Path(__file__).parent / "absent/model.pt")
    refused(
        "selection", tiny_estimator("SRNC", selection="target_val").fit, masked_graph(val=False)
    )
    few = masked_graph(val=False)
    few.train_mask = torch.arange(90) < 3
    refused("val_mask", tiny_estimator("ERM").fit, few)


def test_the_doctest():
    found = doctest.testmod(graphgym_srnc)
    assert found.failed == 0 < found.attempted


@pytest.mark.slow
def test_the_page(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    space: dict = {}
    for code in re.findall(r"^```python\n(.*?)^```$", PAGE, re.M | re.S):
        exec(code, space)
    assert space["own"].classes_[-1] == "unknown" and (tmp_path / "model.safetensors").is_file()
    assert unlabelled(space["graph"]).num_nodes == 400
    assert (space["hidden"] == -1).mean() > 0.8  # as the page says


@pytest.mark.slow
@pytest.mark.parametrize("library", ["optuna", "mlflow"])
def test_the_examples_of_callbacks(library, tmp_path, monkeypatch):
    pytest.importorskip(library, reason=f"{library} is not installed")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", (tmp_path / "runs").as_uri())
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    (code,) = re.findall(rf"^```py\n(import {library}\n.*?)^```$", PAGE, re.M | re.S)
    space = {
        "ERM": graphgym_srnc.ERM,
        "task": make_task(),
        "SRNCPlus": lambda **given: tiny_estimator("SRNCPlus", **given),
    }
    exec(code, space)
    assert library != "mlflow" or (tmp_path / "model.safetensors").is_file()


def test_grid_search_over_nodes():
    graph = make_graph(num_classes=3)
    nodes = np.arange(graph.num_nodes)
    labels = np.array(["a", "b", "c"])[graph.y.numpy()]
    search = GridSearchCV(
        api.OnNodes(tiny_estimator("ERM"), graph), {"model__hidden": [4, 8]}, cv=2
    )
    search.fit(nodes, labels)
    best = search.best_estimator_
    assert best.graph is graph and best.model_.hidden == search.best_params_["model__hidden"]
    assert best.predict(nodes[:5]).tolist() == best.model_.predict(graph)[:5].tolist()
    assert best.predict_proba(nodes[:, None]).shape == (len(nodes), 3)
    # the labels of other folds are not seen
    half = api.OnNodes(tiny_estimator("ERM"), graph).fit(nodes[::4], labels[::4])
    blind = make_graph(num_classes=3)
    blind.y = torch.full_like(blind.y, -1)
    other = api.OnNodes(tiny_estimator("ERM"), blind).fit(nodes[::4], labels[::4])
    assert not half.model_.warnings_  # of unlabelled nodes
    assert np.array_equal(half.predict_proba(nodes), other.predict_proba(nodes))
    with pytest.raises(ValueError, match="use OnNodes with GridSearchCV"):
        tiny_estimator("ERM").fit(graph.x.numpy(), labels)


@pytest.mark.usefixtures("without_ranges")
def test_frames_and_networkx_are_the_same_graph():
    graph = make_graph(num_classes=3)
    names = [f"n{i}" for i in range(graph.num_nodes)]
    words = ["a", "b", "c"]
    labels = [words[c] if i % 2 else "" for i, c in enumerate(graph.y.tolist())]
    columns = {f"x{i}": column for i, column in enumerate(graph.x.T.tolist())}
    frame = pandas.DataFrame(columns | {"label": [label or None for label in labels]}, index=names)
    ends = graph.edge_index[:, graph.edge_index[0] < graph.edge_index[1]].T.tolist()
    pairs = [(names[a], names[b], 1.0) for a, b in ends]
    links = pandas.DataFrame(pairs, columns=["source", "target", "weight"])
    net = networkx.Graph()
    for name, row, label in zip(names, graph.x.numpy(), labels):
        net.add_node(name, x=row, **({"label": label} if label else {}))
    net.add_edges_from((names[a], names[b]) for a, b in ends)

    given = Data(x=graph.x, edge_index=torch.tensor(ends).T)
    given.y = labels
    given.train_mask = torch.tensor([bool(label) for label in labels])
    expected = tiny_estimator("ERM").fit(given).predict_proba(given)
    made = api.from_networkx(net)
    assert made.ids == names and made.feature_names == [f"x {i}" for i in range(12)]
    assert np.array_equal(tiny_estimator("ERM").fit(made).predict_proba(made), expected)
    made = api.from_frames(frame, links)
    assert made.ids == names and made.feature_names == [*columns] and made.y == labels
    x = (graph.x - graph.x.mean(0)) / graph.x.std(0, correction=0)
    assert torch.allclose(made.x.float(), x.nan_to_num(), atol=1e-5)
    assert torch.equal(made.edge_index, given.edge_index)
    assert api.from_frames(frame.drop(columns="label"), links).y is None

    made = api.from_frames(frame.assign(title="a word"), links)
    assert "not read: title (`text`, `numbers` and `categories` read columns)" in " ".join(
        made.notes
    )
    assert refused("like", api.from_frames, frame, links, like=made, categories=["label"])
    refused("features", api.from_frames, frame.assign(x0=np.nan), links, numbers=["x0"])
    with pytest.raises(InputError, match=r"Give several columns as a list: \['x0', 'label'\]"):
        api.from_frames(frame, links, text="x0, label")
    made = api.from_frames(frame, links)
    model = tiny_estimator("ERM").fit(made)
    other = api.from_frames(frame.assign(x0=frame.x0 + 1), links)
    with pytest.warns(RuntimeWarning, match="with like=") as told:
        assert len(model.predict(made)) == len(model.predict(other)) and len(told) == 1
    with pytest.warns(RuntimeWarning, match="target x: .* with like="):
        assert tiny_estimator("ERM").fit(made, other).warnings_

    refused("label", api.from_networkx, net, label="lable")
    net.nodes["n0"]["x"] = "word"
    assert "attribute 'x'" in str(refused("features", api.from_networkx, net))


def test_score_is_the_accuracy_on_labelled_nodes():
    graph = masked_graph(num_classes=3, known=2)
    model = tiny_estimator("PGL").fit(graph)
    rest = ~graph.train_mask
    own = graph.clone()
    del own.test_mask
    assert model.score(own) == model.score(own, nodes=rest) != model.score(own, nodes=~rest)
    refused("nodes", model.score, graph, nodes=["n1"])
    own.y = None
    refused("y", model.score, own)
    graph.y[:3] = -1
    found = model.predict(graph)
    y = graph.y.numpy()
    right = found == np.where(y < 2, y, -1)  # the third class is the unknown class
    assert model.score(graph, nodes=range(50)) == pytest.approx(right[3:50].mean())
    assert model.score(graph, y) == pytest.approx(right[graph.test_mask & (graph.y >= 0)].mean())
    mask = torch.arange(graph.num_nodes) < 9
    assert model.score(graph, [*y[:8], *[None] * (len(y) - 8)], mask) == right[3:8].mean()
    refused("nodes", model.score, graph, nodes=[999])
    refused("y", model.score, graph, nodes=[0, 1])
    assert "words" in refused("y", model.score, graph, ["a"] * len(y)).message


def test_plots_on_given_axes(fitted):
    model, task, _ = fitted["SRNC"]
    figure = Figure()
    draw = {
        "confusion": (model, task),
        "episodes": (model,),
        "embedding": (model, task.target),
        "shift": (task,),
    }
    assert {*draw} == {*plot.__all__}
    for axes, (name, words) in zip(figure.subplots(1, len(draw)), draw.items()):
        before = len(axes.get_children())
        assert getattr(plot, name)(*words, ax=axes) is axes and len(axes.get_children()) > before
    classes = np.arange(task.target.num_nodes) % 3 - 1
    coloured = plot.embedding(model, task.target, classes, ax=Figure().subplots())
    assert [text.get_text() for text in coloured.get_legend().get_texts()] == ["0", "1", "unknown"]
    lines = figure.axes[1].get_lines()
    assert lines[0].get_color() == PALETTE[0]
    assert lines[1].get_ydata()[1] == model.record_.history[1].test["micro_f1"]
    shares = np.linspace(0, 1, task.target.num_nodes)
    coloured = plot.embedding(model, task.target, shares, ax=Figure().subplots())
    assert len(coloured.figure.axes) == 2 and coloured.get_xlabel() == "PCA 1"
    drawn = plot.confusion(model, masked_graph(), ax=Figure().subplots())
    assert sum(int(text.get_text()) for text in drawn.texts) == int(masked_graph().test_mask.sum())


# ---- habits of scikit-learn ----


def test_a_callback_that_returns_true_stops_training():
    numbers = []

    def second(episode, method, task) -> bool:
        numbers.append(episode.number)
        return episode.number == 1

    kept = {"callbacks": [second, lambda *_: object()], "rounds": 4}
    fitted = tiny_estimator("ERM", **kept).fit(make_task())
    assert numbers == [0, 1] and len(fitted.record_.history) == 2
    assert fitted.record_.stopped == "a callback returned True"
    whole = tiny_estimator("ERM", rounds=4).fit(make_task())
    assert len(whole.record_.history) == 5 and "callback" not in whole.record_.stopped
    for one, other in zip(fitted.record_.history, whole.record_.history):
        assert one.losses == other.losses


def test_verbose_shows_episodes_and_steps_and_changes_nothing(capsys, monkeypatch):
    monkeypatch.setattr(progress, "EVERY", -1.0)  # seconds between two lines
    losses = []
    shown = []
    for verbose in (0, 1, 2):
        model = tiny_estimator("ERM", steps=3, rounds=1, verbose=verbose).fit(make_task())
        told = capsys.readouterr()
        assert told.out == ""
        shown.append(told.err.splitlines())
        losses.append([episode.losses for episode in model.record_.history])
    assert shown[0] == [] and losses[0] == losses[1] == losses[2]
    episodes = [[line for line in lines if line.startswith("ERM: episode")] for lines in shown]
    steps = [sum("step 3 of 3" in line for line in lines) for lines in shown]
    assert len(episodes[2]) == 2 and "episode 1 of 1, Micro-F1" in episodes[2][-1]
    assert steps == [0, 0, 2]


def test_log_probabilities_and_fitted_predictions():
    task = make_task()
    fitted = tiny_estimator("ERM").fit(task)
    p = fitted.predict_proba(task.target)
    np.testing.assert_array_equal(fitted.predict_log_proba(task.target), np.log(p))
    again = tiny_estimator("ERM").fit_predict(task)
    np.testing.assert_array_equal(again, fitted.predict(task.target))
    graph = make_graph()
    graph.train_mask = torch.arange(90) < 40
    model = tiny_estimator("ERM", open_set=False)
    other = make_graph(seed=3)
    np.testing.assert_array_equal(model.fit_predict(graph), model.predict(graph))
    np.testing.assert_array_equal(model.fit_predict(graph, other), model.predict(other))
    nodes = np.arange(30)
    on_nodes = api.OnNodes(tiny_estimator("ERM"), graph).fit(nodes, graph.y[:30])
    np.testing.assert_array_equal(
        on_nodes.predict_log_proba(nodes), np.log(on_nodes.predict_proba(nodes))
    )


def test_embeddings_are_frames_if_asked_for():
    graph = make_graph()
    graph.train_mask = torch.arange(90) < 40
    model = tiny_estimator("ERM", open_set=False, hidden=8).fit(graph)
    plain = model.transform(graph)
    assert isinstance(plain, np.ndarray) and model.set_output() is model
    frame = model.set_output(transform="pandas").transform(graph)
    np.testing.assert_array_equal(frame.to_numpy(), plain)
    assert [*frame.columns[:2]] == ["erm0", "erm1"] and frame.index.equals(pandas.RangeIndex(90))
    graph.ids = [f"n{number}" for number in range(90)]
    assert [*model.transform(graph).index] == graph.ids
    assert clone(model).fit(graph).transform(graph).equals(model.transform(graph))
