"""Shifts between graphs: files, index sets, masked classes and errors."""

from __future__ import annotations

import io
from functools import partial
from pathlib import Path
from typing import Callable

import numpy as np
import pytest
import scipy.io
import torch
import written
from conftest import refused
from torch_geometric.data import Data
from torch_geometric.utils import contains_self_loops, is_undirected
from written import DATA, equal, overlap

from graphgym_srnc import shifts
from graphgym_srnc.core.task import ShiftTask
from graphgym_srnc.data import networks
from graphgym_srnc.data.describe import describe
from graphgym_srnc.data.networks import BLOG, CITATION, OCNNC
from graphgym_srnc.errors import InputError
from graphgym_srnc.shifts.cross_graph import UNLABELLED

cross_graph, open_networks, synthetic = map(shifts.find, ("cross_graph", "ocnnc", "synthetic"))


@pytest.fixture
def networks_folder(tmp_path, monkeypatch) -> Path:
    """A data folder with small networks, in a world without a network."""
    written.citation(tmp_path)
    written.ocnnc(tmp_path)
    written.blog(tmp_path)
    for family in (CITATION, BLOG, OCNNC):
        monkeypatch.setattr(family, "nodes", getattr(written, family.name.upper()))
        monkeypatch.setattr(family, "words", written.WORDS)
    monkeypatch.setattr(networks, "urlopen", written.unreachable)
    return tmp_path


@pytest.fixture
def of_networks(networks_folder) -> Callable[..., ShiftTask]:
    """Builds tasks of these networks."""
    return partial(cross_graph, root=str(networks_folder))


# ---- the networks ----


@pytest.mark.slow
@written.real("citation/acmv9.mat")
@pytest.mark.parametrize(
    "family, name, nodes, edges, unknown",
    [(CITATION, "acmv9", 9360, 15556, 0), (OCNNC, "acm-v8", 8806, 17661, 3012)],
)
def test_the_published_networks(family, name, nodes, edges, unknown):
    data = family.load(name, str(DATA))
    assert (data.num_nodes, data.num_edges // 2, data.num_features) == (nodes, edges, family.words)
    assert is_undirected(data.edge_index) and not contains_self_loops(data.edge_index)
    assert data.y.unique().tolist() == list(range(family.classes))
    assert int((data.y >= 5).sum()) == unknown and torch.equal(data.x, data.x.round())


def linked(matrix) -> set[tuple[int, int]]:
    """Both directions of the links of a matrix without its diagonal."""
    return {(a, b) for a, b in zip(*(matrix + matrix.T).nonzero()) if a != b}


def test_files_are_read_as_documented(networks_folder):
    root = str(networks_folder)
    fields = written.citation_network("acmv9")
    data = CITATION.load("acmv9", root)
    assert data.y[:3].tolist() == [1, 1, 2]
    assert torch.equal(data.x, torch.from_numpy(fields["attrb"] > 0).float())
    assert set(zip(*data.edge_index.tolist())) == linked(fields["network"])
    assert data.cleaned["self_loops"] == 1 and data.cleaned["one_way"] > 0

    fields = written.ocnnc_network("acm-v8")
    data = OCNNC.load("acm-v8", root)
    assert data.y.tolist() == fields["labels"][0].tolist()
    assert torch.equal(data.x, torch.from_numpy(fields["features"].toarray()).float())
    assert set(zip(*data.edge_index.tolist())) == linked(fields["adjacency_matrix"])

    fields = written.citation_network("Blog2", 6)
    data = BLOG.load("Blog2", root)
    assert torch.equal(data.x, torch.from_numpy(fields["attrb"] > 0).float())
    assert data.y[:8].tolist() == [1, 1, 2, 3, 4, 5, 0, 1]


def test_pairs_of_pygda(networks_folder, of_networks):
    task = of_networks(source="blog1", target="Blog2")
    assert (task.name, task.num_known) == ("cross_graph/Blog1-Blog2", 6)
    assert (task.source.num_nodes, len(task.test)) == (90, 70)
    made = written.mag(networks_folder, "FR", "RU")
    task = of_networks(source="MAG_FR", target="mag_ru")
    assert task.name == "cross_graph/MAG_FR-MAG_RU"
    assert torch.equal(task.target.x, made["RU"].x) and torch.equal(
        task.oracle.source.x, task.target.x
    )
    assert set(zip(*task.source.edge_index.tolist())) == set(zip(*made["FR"].edge_index.tolist()))
    assert len(task.test) == 120, "masks are not used"
    error = refused("source", of_networks, source="MAG_US", target="MAG_RU")
    assert "MAG_US_labels_20.pt is missing" in error.message and "mag" in str(error)
    mark = networks_folder / "ran"
    torch.save(written.Trap(mark), networks_folder / "mag" / "MAG_US_labels_20.pt")
    with pytest.raises(InputError):
        of_networks(source="MAG_US", target="MAG_RU")
    assert not mark.exists()


WRONG_CITATION = {
    "attrb": [lambda x: x[:, 1:], lambda _: np.ones((99, written.WORDS))],
    "group": [lambda y: y[:, 1:], lambda _: np.array([["a"] * 5] * 100)],
    "network": [lambda links: links[1:]],
}
WRONG_OCNNC = {
    "features": [lambda x: x[:, 1:]],
    "labels": [lambda y: y.T, lambda y: y + 1, lambda y: y + 0.5],
    "adjacency_matrix": [lambda links: links[1:]],
}


@pytest.mark.parametrize(
    "family, name, fields, wrong",
    [
        (CITATION, "acmv9", written.citation_network("acmv9"), WRONG_CITATION),
        (OCNNC, "acm-v8", written.ocnnc_network("acm-v8"), WRONG_OCNNC),
    ],
    ids=["citation", "ocnnc"],
)
def test_refused_networks(networks_folder, family, name, fields, wrong):
    place = f"{family.name}/{name}.mat"
    file = networks_folder / place
    load = partial(family.load, root=str(networks_folder))
    refused("name", load, "acmv7")
    for field, changes in wrong.items():
        for change in changes:
            scipy.io.savemat(file, fields | {field: change(fields[field])})
            refused(place, load, name)
        scipy.io.savemat(file, {key: value for key, value in fields.items() if key != field})
        refused(place, load, name)
    for content in (b"", b"<html>not found</html>", file.read_bytes()[:300]):
        file.write_bytes(content)
        refused(place, load, name)


@pytest.mark.parametrize("family, name", [(CITATION, "acmv9"), (OCNNC, "acm-v8")])
def test_download_is_kept_only_if_whole(networks_folder, monkeypatch, family, name):
    place = f"{family.name}/{name}.mat"
    file = networks_folder / place
    load = partial(family.load, root=str(networks_folder))
    before = load(name)
    asked = []
    content = file.read_bytes()
    file.unlink()
    error = refused("name", load, name)
    assert file.name in error.message + error.allowed and str(file.parent) in error.allowed
    for answer in (content[:200], content):
        assert not file.exists()
        monkeypatch.setattr(
            networks,
            "urlopen",
            lambda url, timeout, answer=answer: asked.append(url) or io.BytesIO(answer),
        )
        if answer != content:
            refused(place, load, name)
    assert torch.equal(load(name).edge_index, before.edge_index)
    load(name)
    assert asked == [f"{family.url}{name}.mat"] * 2 and asked[0].startswith("https://")
    assert file.read_bytes() == content and len(list(file.parent.iterdir())) == 3


# ---- cross_graph ----


def test_close_set_without_target_labels(of_networks):
    task = of_networks(source="acmv9", target="dblpv7", split_seed=3)
    assert task.source is not task.target and not task.open_set and task.num_known == 5
    sizes = [len(part) for part in (task.train, task.source_val, task.test, task.pool)]
    assert sizes == [80, 20, 60, 60]
    assert task.validation is task.source and torch.equal(task.val, task.source_val)
    assert not overlap(task.train, task.val)
    told = {"source": "acmv9", "target": "dblpv7", "split_seed": 3, "unseen": []}
    assert task.info | told == task.info
    assert describe(task)["splits"]["validation nodes"] == 20 and task.class_names == ()
    task = of_networks(num_val=30, val_share=0.5)
    assert task.validation is task.target
    assert (len(task.val), len(task.test), len(task.source_val)) == (30, 50, 50)
    assert not overlap(task.val, task.test) and not overlap(task.train, task.source_val)
    assert len(of_networks(num_val=30, val_share=0.0).source_val) == 0


def test_masked_classes(of_networks):
    task = of_networks(unseen=[3, 1])
    full = of_networks()
    assert task.open_set and task.num_known == 3 and task.info["unseen"] == [1, 3]
    for graph in (task.source, task.target):
        assert torch.equal(graph.y == 3, torch.isin(graph.y_true, torch.tensor([1, 3])))
        assert [graph.y_true[graph.y == i].unique().tolist() for i in range(3)] == [[0], [2], [4]]
    assert torch.equal(task.source.y_true[task.val], full.source.y_true[full.val])
    assert 3 in task.source.y[task.val].tolist() and len(task.test) == 80
    oracle = of_networks(num_unseen=2).oracle
    assert oracle.source is oracle.target and oracle.num_known == 5 and not oracle.open_set
    assert (len(oracle.train), len(oracle.val), len(oracle.test)) == (48, 16, 16)
    assert not overlap(oracle.train, oracle.val, oracle.test)
    assert torch.equal(oracle.source.y, oracle.source.y_true)


def other_source_nodes(task) -> torch.Tensor:
    """Source nodes that are neither trained on nor held out."""
    seen = torch.cat([task.train, task.source_val])
    return torch.tensor(sorted({*range(task.source.num_nodes)} - {*seen.tolist()}))


@pytest.fixture
def pair(tmp_path) -> dict[str, str]:
    """Two files of one block model, whose classes are of unequal size."""
    task = synthetic(mode="close_set", num_nodes=1500, num_classes=5, num_features=40)
    for name, graph in (("a", task.source), ("b", task.target)):
        fields = {key: graph[key] for key in ("x", "edge_index")} | {"y": graph.y_true}
        saved(tmp_path / f"{name}.npz", {key: value.numpy() for key, value in fields.items()})
    return {"source": str(tmp_path / "a.npz"), "target": str(tmp_path / "b.npz")}


def test_index_sets_tell_nothing_of_masked_classes(pair):
    unseen = [0, 3]
    task = cross_graph(**pair, unseen=unseen)
    full = cross_graph(**pair)
    original = full.source.y_true
    rest = task.source.y_true[other_source_nodes(task)]
    assert len(rest) == round(UNLABELLED * 1500) and len(task.source_val) == 300
    assert set(unseen) < set(rest.tolist())
    # As many of each class as a random draw gives: five standard deviations at most.
    for c in range(5):
        p = float((original == c).float().mean())
        deviation = (p * (1 - p) / len(rest)) ** 0.5
        assert abs(float((rest == c).float().mean()) - p) < 5 * deviation
    assert not torch.isin(task.source.y_true[task.train], torch.tensor(unseen)).any()
    # Which node is unlabelled does not depend on the masked classes.
    other = cross_graph(**pair, unseen=[4])
    kept = [{*map(tuple, t.source.x[other_source_nodes(t)].tolist())} for t in (task, other)]
    assert kept[0] == kept[1]


def test_networks_of_pyg(tmp_path):
    written.networks(tmp_path)
    task = cross_graph(root=str(tmp_path), source="Airports/USA", target="airports/brazil")
    assert (task.num_known, task.open_set, len(task.test)) == (4, False, 40)
    assert task.name == "cross_graph/USA-Brazil" and task.oracle.num_known == 4
    # One-hot degrees, which both networks share.
    degree = torch.bincount(task.target.edge_index[0], minlength=40)
    assert torch.equal(task.target.x, torch.eye(241)[degree])


# ---- your own files ----


def graph(nodes: int = 40, classes: int = 3, seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.RandomState(seed)
    x = rng.random_sample((nodes, 6))
    edge_index = rng.randint(nodes, size=(2, 4 * nodes))
    return {"x": x, "edge_index": edge_index, "y": np.arange(nodes) % classes}


def saved(file: Path, fields: dict[str, np.ndarray]) -> str:
    if file.suffix == ".npz":
        np.savez(file, **fields)
    elif file.suffix == ".pt":
        torch.save(Data(**{key: torch.from_numpy(value) for key, value in fields.items()}), file)
    else:
        file.mkdir()
        np.save(file / "edges.npy", fields["edge_index"])
        np.save(file / "features.npy", fields["x"])
        lines = ["node,label", *(f"{node},{c}" for node, c in enumerate(fields["y"]))]
        (file / "labels.csv").write_text("\n".join(lines))
    return str(file)


def test_own_files(tmp_path):
    source = saved(tmp_path / "a.pt", graph())
    target = saved(tmp_path / "b.npz", graph(50, seed=1))
    task = cross_graph(source=source, target=target)
    assert task.name == "cross_graph/a-b" and task.num_known == 3 and len(task.test) == 50
    assert equal(task, cross_graph(source="a.pt", target="b.npz", root=str(tmp_path)))


def test_words_for_labels_are_matched(tmp_path):
    a = graph()
    b = graph(seed=1)
    a["y"] = np.array(["bio", "law", "art"])[a["y"]]
    b["y"] = np.array(["law", "zoo", "bio"])[b["y"]]
    pair = {"source": saved(tmp_path / "a", a), "target": saved(tmp_path / "b", b)}
    assert "[3]" in refused("cross_graph.target", cross_graph, **pair).message
    task = cross_graph(**pair, open_set=True)
    assert task.class_names == ("art", "bio", "law") and task.num_known == 3 and task.unknown == 3
    assert task.target.y[:3].tolist() == [2, 3, 1] and task.source.y[:3].tolist() == [1, 2, 0]
    assert task.oracle is None  # the target has no node of art
    task = cross_graph(**pair, unseen=[2])
    assert task.class_names == ("art", "bio") and task.target.y[:3].tolist() == [2, 2, 1]


def test_classes_that_only_one_graph_has(tmp_path):
    few = saved(tmp_path / "few.pt", graph())
    many = saved(tmp_path / "many.pt", graph(classes=4, seed=1))
    error = refused("cross_graph.target", cross_graph, source=few, target=many)
    assert "cross_graph.open_set True" in error.message
    task = cross_graph(source=few, target=many, open_set=True)
    assert task.open_set and task.num_known == 3 and task.info["unseen"] == [3]
    assert torch.equal(task.target.y == 3, task.target.y_true == 3) and task.source.y.max() == 2
    assert task.oracle.num_known == 4
    assert cross_graph(source=few, target=many, num_unseen=1).info["unseen"][-1] == 3
    assert cross_graph(source=many, target=few).num_known == 4


def test_refused_pairs(tmp_path, of_networks):
    def no(key: str, words: str = "", **options: str) -> None:
        assert words in refused(f"cross_graph.{key}", of_networks, **options).message

    def new(name: str, **changes: np.ndarray) -> str:
        return saved(tmp_path / name, graph() | changes)

    a = new("a.pt")
    no("target", "12", source="acmv9", target=a)
    no("target", source="acmv9", target="ACMv9")
    no("target", source=a, target="a.pt")
    no("source", "dblpv7", source="acmv8")
    (tmp_path / "bad.pt").write_bytes(b"nothing")
    no("target bad.pt", source=a, target=str(tmp_path / "bad.pt"))
    no("source", source=new("bare.npz", y=np.full(40, -1)), target=a)
    words = np.array(["bio", "law", "art"])[graph()["y"]]
    named = new("words", y=words)
    no("source", "the labels are words in", source=a, target=named)
    pair = {"source": new("first"), "target": new("second")}
    for path, column in zip(pair.values(), "ab"):
        names = [f"{column}\n"] * graph()["x"].shape[1]
        (Path(path) / "words.txt").write_text("".join(names))
    no("target", "feature 0 is 'b', and 'a' in training", **pair)
    b, narrow = new("b.pt"), new("narrow.pt", x=graph()["x"][:, :3])
    no("source", "is given twice", source=f"{a},{a}", target=b)
    no("target", "is given twice", source=f"{a},{b}", target=b)
    no("source", "3 features", source=f"{a},{narrow}", target=b)
    no("source", "the labels are words in", source=f"{a},{named}", target=b)
    no("source", "does not exist", source=f"{a},nothing.pt", target=b)


def test_refused_options(of_networks):
    for key, options in {
        "val": {"val_share": 0.001},
        "test": {"num_val": 80},
        "unseen": {"unseen": [0, 1, 2, 3]},
    }.items():
        assert key in refused("", of_networks, **options).key


# ---- ocnnc ----


def test_unknown_classes_leave_the_source_alone(networks_folder):
    task = open_networks(root=str(networks_folder), source="citation-v1", target="dblp-v4")
    fields = written.ocnnc_network("citation-v1")
    known = np.arange(90) % 9 < 5
    assert task.source.num_nodes == known.sum() == 50 and task.target.num_nodes == 72
    assert torch.equal(task.source.x, torch.from_numpy(fields["features"].toarray()[known]).float())
    links = linked(fields["adjacency_matrix"].toarray()[known][:, known])
    assert set(zip(*task.source.edge_index.tolist())) == links
    assert task.source.y.tolist() == fields["labels"][0][known].tolist()
    assert torch.equal(task.target.y, task.target.y_true.clamp(max=5))
    assert task.info["unseen"] == [5, 6, 7, 8] and task.oracle is None


def test_all_source_nodes_teach(networks_folder):
    task = open_networks(root=str(networks_folder))
    assert torch.equal(task.train, torch.arange(50)) and not len(task.source_val)
    assert task.val is task.train and task.validation is task.source
    assert task.test.tolist() == task.pool.tolist() == list(range(72))
    fields = {name: getattr(task, name) for name in ("source", "target", "train", "test", "pool")}
    fields |= {"val_graph": task.source, "num_known": 5, "open_set": True}
    with pytest.raises(InputError):  # sets that overlap have to be one object
        ShiftTask("copy", val=task.train.clone(), **fields)


# ---- several sources ----


def test_several_sources_are_one_graph_without_edges_between_them(of_networks):
    both = of_networks(source="acmv9,DBLPv7", target="citationv1")
    first, second = (of_networks(source=name, target="citationv1") for name in ("acmv9", "dblpv7"))
    count = first.source.num_nodes
    assert torch.equal(both.source.x, torch.cat([first.source.x, second.source.x]))
    expected = torch.block_diag(*map(dense, (first.source, second.source)))
    assert torch.equal(dense(both.source), expected)
    assert torch.equal(both.source.domain, (torch.arange(both.source.num_nodes) >= count).long())
    assert torch.equal(both.source.y, torch.cat([first.source.y, second.source.y]))
    assert torch.equal(both.target.x, first.target.x) and both.num_known == first.num_known
    assert both.name == "cross_graph/acmv9+dblpv7-citationv1"
    assert both.info["source"] == "acmv9,dblpv7"
    for part in (0, 1):  # each source teaches
        assert (both.source.domain[both.train] == part).any()
    masked = of_networks(source="acmv9,dblpv7", target="citationv1", num_unseen=1)
    assert len(masked.source.domain) == masked.source.num_nodes < both.source.num_nodes


def dense(graph: Data) -> torch.Tensor:
    size = graph.num_nodes
    return torch.zeros(size, size).index_put(tuple(graph.edge_index), torch.ones(()))


def test_classes_and_weights_of_several_own_sources(tmp_path):
    a = graph()
    b = graph(30, seed=1)
    c = graph(20, seed=2)
    a["y"] = np.array(["bio", "law", "art"])[a["y"]]
    b["y"] = np.array(["law", "zoo", "bio"])[b["y"]]
    c["y"] = np.array(["law", "zoo", "art"])[c["y"]]
    places = [saved(tmp_path / name, fields) for name, fields in zip("abc", (a, b, c))]
    task = cross_graph(source=",".join(places[:2]), target=places[2])
    assert task.class_names == ("art", "bio", "law", "zoo") and task.name == "cross_graph/a+b-c"
    assert task.source.y[:3].tolist() == [1, 2, 0] and task.source.y[40:43].tolist() == [2, 3, 1]
    assert task.target.y[:3].tolist() == [2, 3, 0]

    weighted = graph() | {"edge_weight": np.full(160, 2.0)}
    places = [saved(tmp_path / "weighted.pt", weighted)]
    numbers = [saved(tmp_path / f"n{k}.pt", graph(seed=k)) for k in range(2)]
    task = cross_graph(source=f"{places[0]},{numbers[0]}", target=numbers[1])
    inside = task.source.domain[task.source.edge_index[0]] == 0
    assert (task.source.edge_weight[inside] == 2).all()
    assert (task.source.edge_weight[~inside] == 1).all() and (~inside).any()
    named = saved(tmp_path / "one,two.pt", graph(seed=5))  # a name with a comma
    assert cross_graph(source=named, target=numbers[1]).source.num_nodes == 40
