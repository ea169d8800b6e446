"""Shift between graphs and localised training data: counts, what is hidden, seeds, errors."""

from __future__ import annotations

import io
import os
import random
from pathlib import Path

import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp
import torch
import written
from scipy.sparse.csgraph import shortest_path
from torch_geometric.data import Data
from torch_geometric.utils import contains_self_loops, is_undirected

from graphgym_srnc import shifts
from graphgym_srnc.core.errors import InputError
from graphgym_srnc.data import citation as _citation
from graphgym_srnc.data import matlab
from graphgym_srnc.data.describe import describe
from graphgym_srnc.shifts.localized import personalised_pagerank

cross_graph, localized, synthetic = (
    shifts.find(name) for name in ("cross_graph", "localized", "synthetic")
)
DATA = Path(os.environ.get("GRAPHGYM_SRNC_DATA") or Path(__file__).parents[2] / "shared" / "data")
citation = pytest.mark.skipif(
    not (DATA / "citation" / "acmv9.mat").is_file(), reason=f"no citation networks in {DATA}"
)
planetoid = pytest.mark.skipif(
    not (DATA / "planetoid" / "Cora" / "raw").is_dir(), reason=f"no Planetoid files in {DATA}"
)


@pytest.fixture
def home(tmp_path, monkeypatch) -> str:
    """A data folder with small networks, in a world without a network."""
    written.citation(tmp_path)
    monkeypatch.setattr(_citation, "NODES", written.CITATION)
    monkeypatch.setattr(_citation, "WORDS", written.WORDS)
    monkeypatch.setattr(matlab, "urlopen", unreachable)
    monkeypatch.setenv("GRAPHGYM_SRNC_CACHE", str(tmp_path / "cache"))
    return str(tmp_path)


def unreachable(*args, **kwargs):
    raise OSError("no network")


def equal(a, b) -> bool:
    return a.fingerprint() == b.fingerprint()


def refused(key: str, build, **options) -> InputError:
    with pytest.raises(InputError) as error:
        build(**options)
    assert error.value.key.startswith(key) and "\n" not in str(error.value)
    return error.value


def overlap(*parts: torch.Tensor) -> bool:
    every = torch.cat(parts)
    return len(every.unique()) < len(every)


@citation
@pytest.mark.parametrize(
    "name, nodes, edges, two, groups",
    [
        ("acmv9", 9360, 15556, 581, [1916, 2872, 2550, 818, 1785]),
        ("citationv1", 8935, 15098, 166, [2262, 2325, 2137, 704, 1673]),
        ("dblpv7", 5484, 8117, 15, [1188, 1808, 1307, 332, 864]),
    ],
)
def test_the_published_networks(name, nodes, edges, two, groups):
    data = _citation.load(name, str(DATA))
    assert (data.num_nodes, data.num_edges // 2, data.num_features, data.num_two) == (
        nodes,
        edges,
        6775,
        two,
    )
    assert is_undirected(data.edge_index) and not contains_self_loops(data.edge_index)
    assert data.x.unique().tolist() == [0.0, 1.0] and data.y.unique().tolist() == [0, 1, 2, 3, 4]
    assert all(count <= group for count, group in zip(data.y.bincount().tolist(), groups))
    assert sum(groups) == nodes + two
    assert int((_citation.load(name, str(DATA), "drop").y < 0).sum()) == two


@citation
def test_the_published_task():
    task = cross_graph(root=str(DATA), source="DBLPv7", target="ACMv9", split_seed=1)
    assert task.name == "cross_graph/dblpv7-acmv9" and task.num_known == 5 and not task.open_set
    assert (len(task.train), len(task.source_val), len(task.test), len(task.pool)) == (
        4387,
        1097,
        9360,
        9360,
    )
    assert task.validation is task.source and torch.equal(task.val, task.source_val)
    assert task.info["nodes_with_two_labels"] == {"source": 15, "target": 581}


def test_files_are_read_as_documented(home):
    fields = written.citation_network("acmv9")
    data = _citation.load("ACMv9", home)
    assert data.y[:3].tolist() == [1, 1, 2] and data.num_two == 1
    assert torch.equal(data.x, torch.from_numpy(fields["attrb"] > 0).float())
    wanted = ((fields["network"] + fields["network"].T) > 0).toarray()
    np.fill_diagonal(wanted, False)
    found = np.zeros_like(wanted)
    found[tuple(data.edge_index.numpy())] = True
    assert (found == wanted).all()
    assert data.cleaned == {"self_loops": 1, "duplicates": 0, "one_way": data.cleaned["one_way"]}
    assert _citation.load("acmv9", home, "drop").y[:2].tolist() == [-1, 1]
    assert _citation.load("acmv9", home).y[0] == 1  # what is kept in memory stays as it is


def test_a_changed_file_is_read_again(home):
    before = _citation.load("dblpv7", home)
    fields = written.citation_network("dblpv7")
    fields["group"] = np.roll(fields["group"], 1, 1)
    file = Path(home) / "citation" / "dblpv7.mat"
    scipy.io.savemat(file, fields)
    os.utime(file, ns=(1, 1))
    assert not torch.equal(before.y, _citation.load("dblpv7", home).y)


def test_close_set_without_target_labels(home):
    task = cross_graph(root=home, source="acmv9", target="dblpv7", split_seed=3)
    assert task.source is not task.target and not task.open_set and task.num_known == 5
    assert task.unknown is None
    assert (len(task.train), len(task.source_val), len(task.test), len(task.pool)) == (
        80,
        20,
        60,
        60,
    )
    assert task.validation is task.source and torch.equal(task.val, task.source_val)
    assert not overlap(task.train, task.val)
    assert task.info["nodes_with_two_labels"] == {"source": 1, "target": 1}
    assert task.info["unseen"] == []
    assert (
        task.info | {"source": "acmv9", "target": "dblpv7", "split_seed": 3, "two_labels": "first"}
        == task.info
    )
    assert describe(task)["splits"]["val"] == 20 and task.class_names == ()


def test_no_leak(home):
    task = cross_graph(root=home, num_unseen=1, num_val=20)
    blind = task.blind()
    assert (blind.target.y == -1).all() and blind.oracle is None and blind.info == {}
    assert "y_true" not in blind.target
    assert set((blind.source.y >= 0).nonzero().view(-1).tolist()) == set(task.train.tolist())
    blind = cross_graph(root=home).blind()
    assert (blind.target.y == -1).all() and (blind.validation.y[blind.val] == -1).all()


def test_two_labels_dropped(home):
    task = cross_graph(root=home, two_labels="drop")
    assert task.source.y[0] == task.target.y[0] == -1 and 0 not in task.test.tolist()
    assert 0 in task.pool.tolist()
    assert 0 not in torch.cat([task.train, task.val]).tolist() and len(task.test) == 79


def test_validation_on_the_target(home):
    task = cross_graph(root=home, num_val=30, val_share=0.5)
    assert task.validation is task.target
    assert (len(task.val), len(task.test), len(task.source_val)) == (30, 50, 50)
    assert not overlap(task.val, task.test) and not overlap(task.train, task.source_val)
    assert len(cross_graph(root=home, num_val=30, val_share=0.0).source_val) == 0


def test_labels_per_class(home):
    task = cross_graph(root=home, labels_per_class=3)
    assert task.source.y[task.train].bincount().tolist() == [3] * 5 and len(task.source_val) == 20
    full = cross_graph(root=home)
    assert set(task.train.tolist()) < set(full.train.tolist()) and torch.equal(task.val, full.val)


def test_seed_decides_alone(home):
    torch.manual_seed(1), np.random.seed(1), random.seed(1)
    states = torch.get_rng_state(), np.random.get_state()[1].copy(), random.getstate()
    options = {"root": home, "num_unseen": 2, "num_val": 20}
    first = cross_graph(split_seed=3, **options)
    assert torch.equal(states[0], torch.get_rng_state()) and states[2] == random.getstate()
    assert (states[1] == np.random.get_state()[1]).all()
    torch.manual_seed(2)
    second = cross_graph(split_seed=3, **options)
    assert equal(first, second) and equal(first.oracle, second.oracle)
    assert not equal(first, cross_graph(split_seed=4, **options))


def test_masked_classes(home):
    task = cross_graph(root=home, unseen=[3, 1], unlabelled_share=0.0)
    full = cross_graph(root=home)
    assert task.open_set and task.num_known == 3 and task.info["unseen"] == [1, 3]
    for graph in (task.source, task.target):
        assert torch.equal(graph.y == 3, torch.isin(graph.y_true, torch.tensor([1, 3])))
        assert [graph.y_true[graph.y == i].unique().tolist() for i in range(3)] == [[0], [2], [4]]
    assert set(task.train.tolist()) == {
        v for v in full.train.tolist() if full.source.y[v] not in (1, 3)
    }
    assert torch.equal(task.val, full.val) and 3 in task.source.y[task.val].tolist()
    assert task.source.num_edges == full.source.num_edges and len(task.test) == 80
    drawn = cross_graph(root=home, num_unseen=2, split_seed=1)
    assert len(drawn.info["unseen"]) == 2 and drawn.num_known == 3


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


@pytest.mark.parametrize("unseen, share", [([1], 0.4), ([0, 3], 0.4), ([2], 0.2)])
def test_index_sets_tell_nothing_of_masked_classes(pair, unseen, share):
    task = cross_graph(**pair, unseen=unseen, unlabelled_share=share)
    original = cross_graph(**pair).source.y_true
    rest = task.source.y_true[other_source_nodes(task)]
    assert len(rest) == round(share * 1500) and len(task.source_val) == 300
    assert set(unseen) < set(rest.tolist())
    # As many of each class as a random draw gives: five standard deviations at most.
    for c in range(5):
        p = float((original == c).float().mean())
        deviation = (p * (1 - p) / len(rest)) ** 0.5
        assert abs(float((rest == c).float().mean()) - p) < 5 * deviation
    assert not torch.isin(task.source.y_true[task.train], torch.tensor(unseen)).any()
    full, known = cross_graph(**pair), [c for c in range(5) if c not in unseen]
    assert len(task.train) <= len(full.train) * (1 - 0.2 - share) / 0.8 + 1
    pure = cross_graph(**pair, unseen=unseen, unlabelled_share=0.0)
    assert set(pure.source.y_true[other_source_nodes(pure)].tolist()) == set(unseen)
    assert task.num_known == len(known) and task.test.tolist() == full.test.tolist()


def test_which_node_is_unlabelled_does_not_depend_on_the_masked_classes(pair):
    kept = []
    for unseen in ([1], [2]):
        task = cross_graph(**pair, unseen=unseen)
        x = task.source.x[other_source_nodes(task)]
        kept.append({tuple(row) for row in x.tolist()})
    assert kept[0] == kept[1]


def test_nothing_leaves_the_source_where_nothing_would_be_told(home):
    few = [
        cross_graph(root=home, unseen=[1], labels_per_class=3, unlabelled_share=share)
        for share in (0.0, 0.4)
    ]
    assert equal(*few) and few[0].source.num_nodes == 100
    assert equal(*(cross_graph(root=home, unlabelled_share=share) for share in (0.0, 0.4)))
    assert equal(
        *(
            cross_graph(root=home, unseen=[1], drop_nodes=True, unlabelled_share=share)
            for share in (0.0, 0.4)
        )
    )


def test_masked_nodes_dropped(home):
    kept, task = (
        cross_graph(root=home, unseen=[1], drop_nodes=drop, unlabelled_share=0.0)
        for drop in (False, True)
    )
    known = (kept.source.y_true != 1).nonzero().view(-1)
    assert task.source.num_nodes == len(known) and torch.equal(task.source.x, kept.source.x[known])
    assert torch.equal(known[task.train], kept.train)
    assert set(known[task.val].tolist()) < set(kept.val.tolist())
    assert torch.equal(task.source.y[task.train], kept.source.y[kept.train])
    assert 4 not in task.source.y.tolist() and 4 in task.target.y.tolist()
    pairs = {(a, b) for a, b in kept.source.edge_index.T.tolist() if {a, b} <= set(known.tolist())}
    assert {(int(known[a]), int(known[b])) for a, b in task.source.edge_index.T.tolist()} == pairs
    assert equal(cross_graph(root=home), cross_graph(root=home, drop_nodes=True))


def test_oracle_is_the_target_alone(home):
    oracle = cross_graph(root=home, num_unseen=2).oracle
    assert oracle.source is oracle.target and oracle.num_known == 5 and not oracle.open_set
    assert oracle.source.num_nodes == 80
    assert (len(oracle.train), len(oracle.val), len(oracle.test)) == (48, 16, 16)
    assert not overlap(oracle.train, oracle.val, oracle.test)
    assert not overlap(oracle.train, oracle.pool)
    assert torch.equal(oracle.source.y, oracle.source.y_true)


def graph(
    nodes: int = 40, classes: int = 3, features: int = 6, seed: int = 0
) -> dict[str, np.ndarray]:
    rng = np.random.RandomState(seed)
    x, edge_index = rng.random_sample((nodes, features)), rng.randint(nodes, size=(2, 4 * nodes))
    return {"x": x, "edge_index": edge_index, "y": np.arange(nodes) % classes}


def saved(file: Path, fields: dict[str, np.ndarray]) -> str:
    if file.suffix == ".npz":
        np.savez(file, **fields)
    elif file.suffix == ".pt":
        torch.save(Data(**{key: torch.from_numpy(value) for key, value in fields.items()}), file)
    else:
        file.mkdir()
        np.savetxt(file / "edges.csv", fields["edge_index"].T, fmt="%d", delimiter=",")
        np.save(file / "features.npy", fields["x"])
        (file / "labels.csv").write_text("label\n" + "".join(f"{c}\n" for c in fields["y"]))
    return str(file)


def test_own_files(tmp_path):
    a, b = graph(), graph(50, seed=1)
    pairs = [
        (saved(tmp_path / f"a{kind}", a), saved(tmp_path / f"b{kind}", b))
        for kind in (".pt", ".npz", "")
    ]
    tasks = [
        cross_graph(source=source, target=target, labels_per_class=4) for source, target in pairs
    ]
    assert equal(tasks[0], tasks[1]) and equal(tasks[0].oracle, tasks[1].oracle)
    assert tasks[2].num_known == 3 and len(tasks[2].test) == 50
    assert "two_labels" not in tasks[0].info
    assert tasks[0].name == "cross_graph/a-b"
    assert equal(
        tasks[0], cross_graph(source="a.pt", target="b.npz", root=str(tmp_path), labels_per_class=4)
    )


def test_words_for_labels_are_matched(tmp_path):
    a, b = graph(), graph(seed=1)
    a["y"] = np.array(["bio", "law", "art"])[a["y"]]
    b["y"] = np.array(["law", "zoo", "bio"])[b["y"]]
    pair = {"source": saved(tmp_path / "a", a), "target": saved(tmp_path / "b", b)}
    assert "[3]" in refused("cross_graph.target", cross_graph, **pair).message
    task = cross_graph(**pair, open_set=True)
    assert task.class_names == ("art", "bio", "law") and task.num_known == 3 and task.unknown == 3
    assert task.target.y[:3].tolist() == [2, 3, 1] and task.source.y[:3].tolist() == [1, 2, 0]
    assert task.oracle is None  # the target has no node of art
    task = cross_graph(**pair, unseen=[2, 3])
    assert task.class_names == ("art", "bio") and task.target.y[:3].tolist() == [2, 2, 1]


def test_classes_that_only_one_graph_has(tmp_path):
    few, many = (
        saved(tmp_path / "few.pt", graph(classes=3)),
        saved(tmp_path / "many.pt", graph(classes=4, seed=1)),
    )
    assert (
        "open_set to True"
        in refused("cross_graph.target", cross_graph, source=few, target=many).message
    )
    for options in ({"open_set": True}, {"unseen": [3]}):
        task = cross_graph(source=few, target=many, **options)
        assert task.open_set and task.num_known == 3 and task.info["unseen"] == [3]
        assert torch.equal(task.target.y == 3, task.target.y_true == 3) and task.source.y.max() == 2
        assert task.oracle.num_known == 4
    assert cross_graph(source=few, target=many, num_unseen=1).info["unseen"][-1] == 3
    assert cross_graph(source=many, target=few).num_known == 4


def test_refused_pairs(tmp_path, home):
    a = saved(tmp_path / "a.pt", graph())
    assert (
        "12"
        in refused("cross_graph.target", cross_graph, root=home, source="acmv9", target=a).message
    )
    refused("cross_graph.target", cross_graph, root=home, source="acmv9", target="ACMv9")
    refused("cross_graph.target", cross_graph, source=a, target="a.pt", root=str(tmp_path))
    assert "dblpv7" in refused("cross_graph.source", cross_graph, root=home, source="acmv8").message
    assert "dblpv7" in refused("cross_graph.target", cross_graph, root=home, target="").message
    (tmp_path / "edges.csv").write_text("0,1\n")
    refused("cross_graph.target", cross_graph, source=a, target=str(tmp_path / "edges.csv"))
    (tmp_path / "bad.pt").write_bytes(b"nothing")
    refused("cross_graph.target bad.pt", cross_graph, source=a, target=str(tmp_path / "bad.pt"))
    bare = saved(tmp_path / "bare.npz", graph() | {"y": np.full(40, -1)})
    refused("cross_graph.target bare.npz: y", cross_graph, source=a, target=bare)
    refused(
        "cross_graph.source one.npz",
        cross_graph,
        source=saved(tmp_path / "one.npz", {"x": np.ones((3, 6))}),
        target=a,
    )
    refused(
        "cross_graph.source",
        cross_graph,
        source=saved(tmp_path / "flat.npz", graph(classes=1)),
        target=a,
    )
    words = graph()
    words["y"] = np.array(["bio", "law", "art"])[words["y"]]
    refused("cross_graph.target", cross_graph, source=a, target=saved(tmp_path / "words", words))


@pytest.mark.parametrize(
    "key, options",
    [
        ("two_labels", {"two_labels": "both"}),
        ("val_share", {"val_share": 1.0}),
        ("val_share", {"val_share": -0.1}),
        ("val_share", {"val_share": 0.0}),
        ("val_share", {"val_share": 0.001}),
        ("labels_per_class", {"labels_per_class": 0}),
        ("labels_per_class", {"labels_per_class": 1000}),
        ("unlabelled_share", {"unseen": [0], "unlabelled_share": 0.8}),
        ("unlabelled_share", {"unlabelled_share": -0.1}),
        ("num_val", {"num_val": 80}),
        ("num_val", {"num_val": -1}),
        ("num_unseen", {"num_unseen": 4}),
        ("unseen", {"unseen": [7]}),
        ("unseen", {"unseen": [0, 1, 2, 3]}),
        (
            "drop_nodes",
            {"unseen": [0, 1, 2], "drop_nodes": True, "val_share": 0.01, "split_seed": 3},
        ),
    ],
)
def test_refused_options(home, key, options):
    refused(f"cross_graph.{key}", cross_graph, root=home, **options)


def test_refused_networks(home):
    file, fields = Path(home) / "citation" / "acmv9.mat", written.citation_network("acmv9")
    refused("name", _citation.load, name="acmv8", root=home)
    for field, wrong in (
        ("attrb", fields["attrb"][:, 1:]),
        ("group", fields["group"][:, 1:]),
        ("network", fields["network"][1:]),
        ("group", np.array([["a"] * 5] * 100)),
        ("attrb", np.ones((99, written.WORDS))),
    ):
        scipy.io.savemat(file, fields | {field: wrong})
        refused(f"citation/acmv9.mat: {field}", _citation.load, name="acmv9", root=home)
    scipy.io.savemat(file, {key: fields[key] for key in ("network", "group")})
    refused("citation/acmv9.mat: attrb", _citation.load, name="acmv9", root=home)
    for content in (b"", b"<html>not found</html>", file.read_bytes()[:300]):
        file.write_bytes(content)
        refused("citation/acmv9.mat", _citation.load, name="acmv9", root=home)


def test_without_file_and_network(home):
    (Path(home) / "citation" / "acmv9.mat").unlink()
    error = refused("cross_graph.source", cross_graph, root=home)
    assert "acmv9.mat" in error.message and str(Path(home) / "citation") in error.allowed


def test_download_is_kept_only_if_whole(home, monkeypatch):
    folder = Path(home) / "citation"
    content = (folder / "acmv9.mat").read_bytes()
    before = _citation.load("acmv9", home)
    (folder / "acmv9.mat").unlink()
    monkeypatch.setattr(matlab, "urlopen", lambda url, timeout: io.BytesIO(content[:200]))
    refused("citation/acmv9.mat", _citation.load, name="acmv9", root=home)
    assert not (folder / "acmv9.mat").exists()
    asked = []
    monkeypatch.setattr(
        matlab, "urlopen", lambda url, timeout: asked.append(url) or io.BytesIO(content)
    )
    assert torch.equal(_citation.load("acmv9", home).edge_index, before.edge_index)
    assert (folder / "acmv9.mat").read_bytes() == content and asked[0].startswith("https://")
    assert asked[0].endswith("/acmv9.mat")
    _citation.load("acmv9", home)
    assert len(asked) == 1
    assert {path.name for path in folder.iterdir()} == {f"{name}.mat" for name in written.CITATION}


@pytest.fixture(scope="module")
def photo(tmp_path_factory) -> str:
    """A data folder with Amazon Photo's raw file, in it a small graph of four classes."""
    folder = tmp_path_factory.mktemp("data")
    task = synthetic(
        num_nodes=900,
        num_classes=4,
        num_features=20,
        num_unseen=0,
        avg_degree=4.0,
        homophily=0.9,
        class_imbalance=1.0,
    )
    matrices = {
        "attr": sp.csr_matrix(task.source.x.numpy()),
        "adj": sp.csr_matrix(
            (np.ones(task.source.num_edges), task.source.edge_index.numpy()), shape=(900, 900)
        ),
    }
    arrays = {
        f"{key}_{part}": getattr(matrix, part)
        for key, matrix in matrices.items()
        for part in ("data", "indices", "indptr", "shape")
    }
    raw = folder / "amazon" / "Photo" / "raw"
    raw.mkdir(parents=True)
    np.savez(raw / "amazon_electronics_photo.npz", labels=task.source.y_true.numpy(), **arrays)
    return str(folder)


def near(graph: Data, nodes: torch.Tensor) -> float:
    """Mean distance in edges between training nodes of the same class."""
    adjacency = sp.csr_matrix(
        (np.ones(graph.num_edges), graph.edge_index.numpy()), shape=(graph.num_nodes,) * 2
    )
    distance = np.minimum(
        shortest_path(adjacency, unweighted=True, indices=nodes.numpy())[:, nodes.numpy()],
        graph.num_nodes,
    )
    y = graph.y_true[nodes].numpy()
    pairs = (y[:, None] == y) & ~np.eye(len(y), dtype=bool)
    return float(distance[pairs].mean())


@pytest.mark.parametrize("restart", [0.05, 0.5, 0.95])
def test_pagerank_is_the_solution_of_its_equation(restart):
    fields = graph(60)
    edges = np.unique(np.concatenate([fields["edge_index"], fields["edge_index"][::-1]], 1), axis=1)
    kept = (edges != 7).all(0) & (edges[0] != edges[1])  # node 7 is isolated
    edges = torch.from_numpy(edges[:, kept])
    adjacency = np.zeros((60, 60))
    adjacency[tuple(edges.numpy())] = 1
    walk = adjacency / np.maximum(adjacency.sum(1, keepdims=True), 1)
    seeds = torch.tensor([3, 0, 7])
    wanted = (
        restart * np.linalg.solve((np.eye(60) - (1 - restart) * walk).T, np.eye(60)[:, seeds]).T
    )
    found = personalised_pagerank(edges, 60, seeds, restart)
    assert found.shape == (3, 60) and np.allclose(found, wanted, atol=1e-7)
    assert found[:2].sum(1) == pytest.approx([1, 1]) and (found[2] > 0).nonzero()[0].tolist() == [7]


def test_pagerank_orders_far_nodes():
    line = torch.stack([torch.arange(49), torch.arange(1, 50)])
    share = personalised_pagerank(torch.cat([line, line.flip(0)], 1), 50, torch.tensor([0]), 0.9)[0]
    assert (share[:-1] > share[1:]).all() and share[-1] > 0


def test_training_nodes_lie_near_each_other(photo):
    options = {
        "name": "Photo",
        "root": photo,
        "labels_per_class": 10,
        "num_val": 50,
        "num_test": 200,
    }
    for seed in range(3):
        task = localized(split_seed=seed, **options)
        assert near(task.source, task.train) < 0.8 * near(task.source, task.oracle.train)
        assert set(task.info["seeds"]) <= set(task.train.tolist())
    wide, narrow = (
        near(task.source, task.train)
        for task in (localized(restart=a, **options) for a in (0.01, 0.9))
    )
    assert narrow <= wide


def test_training_nodes_are_the_largest_in_pagerank(photo):
    task = localized(
        name="Photo", root=photo, labels_per_class=10, num_val=50, num_test=200, restart=0.2
    )
    share = personalised_pagerank(
        task.source.edge_index, 900, torch.tensor(task.info["seeds"]), 0.2
    )
    for c, own in enumerate(share):
        chosen = task.train[task.source.y[task.train] == c]
        of_class = (task.source.y == c).nonzero().view(-1)
        others = of_class[~torch.isin(of_class, chosen)]
        assert len(chosen) == 10 and own[chosen].min() >= own[others].max()


def test_localized_counts(photo):
    task = localized(name="Photo", root=photo, labels_per_class=10, num_val=50, num_test=200)
    assert task.name == "localized/Photo" and task.source is task.target and not task.open_set
    assert task.num_known == 4
    assert (len(task.train), len(task.val), len(task.test), len(task.pool)) == (40, 50, 200, 860)
    assert task.info["split"] == "random" and task.info["restart"] == 0.1
    assert task.info["filled"] == 0
    oracle = task.oracle
    assert oracle.source.y[oracle.train].bincount().tolist() == [10] * 4 and not oracle.open_set
    assert torch.equal(oracle.val, task.val) and torch.equal(oracle.test, task.test)
    assert not torch.equal(oracle.train, task.train)
    every = localized(name="Photo", root=photo, labels_per_class=10, num_val=50, num_test=-1)
    assert len(every.test) == 900 - 50 - len(torch.cat([every.train, every.oracle.train]).unique())


def test_localized_with_masked_classes(photo):
    options = {
        "name": "Photo",
        "root": photo,
        "labels_per_class": 10,
        "num_val": 50,
        "num_test": 200,
    }
    task, full = localized(unseen=[2], **options), localized(**options)
    assert task.open_set and task.num_known == 3 and task.info["unseen"] == [2]
    assert len(task.train) == 30
    assert set(task.train.tolist()) == {v for v in full.train.tolist() if full.source.y[v] != 2}
    assert task.oracle.num_known == 4 and torch.equal(task.oracle.train, full.oracle.train)
    assert (task.blind().target.y >= 0).nonzero().view(-1).tolist() == task.train.tolist()
    assert len(localized(num_unseen=2, **options).info["unseen"]) == 2


def test_localized_seed_decides_alone(photo):
    options = {"name": "Photo", "root": photo, "num_unseen": 1}
    torch.manual_seed(1), np.random.seed(1), random.seed(1)
    states = torch.get_rng_state(), np.random.get_state()[1].copy(), random.getstate()
    first = localized(split_seed=3, **options)
    assert torch.equal(states[0], torch.get_rng_state()) and states[2] == random.getstate()
    assert (states[1] == np.random.get_state()[1]).all()
    second = localized(split_seed=3, **options)
    assert equal(first, second) and equal(first.oracle, second.oracle)
    assert not equal(first, localized(split_seed=4, **options))


def test_classes_out_of_reach_are_filled_up(tmp_path):
    """A class is a path of 40 nodes and 20 pairs: what a seed in a pair does not reach is drawn."""
    path = np.stack([np.arange(39), np.arange(1, 40)])
    edges = np.concatenate(
        [
            np.concatenate([path, np.arange(40, 80).reshape(20, 2).T], 1) + start
            for start in (0, 80)
        ],
        1,
    )
    adjacency = sp.csr_matrix((np.ones(edges.shape[1]), edges), shape=(160, 160))
    matrices = {"attr": sp.identity(160, format="csr"), "adj": adjacency}
    arrays = {
        f"{key}_{part}": getattr(matrix, part)
        for key, matrix in matrices.items()
        for part in ("data", "indices", "indptr", "shape")
    }
    raw = tmp_path / "amazon" / "Computers" / "raw"
    raw.mkdir(parents=True)
    np.savez(raw / "amazon_electronics_computers.npz", labels=np.arange(160) // 80, **arrays)
    options = {
        "name": "Computers",
        "root": str(tmp_path),
        "labels_per_class": 10,
        "num_val": 20,
        "num_test": 40,
    }
    filled = {seed: localized(split_seed=seed, **options) for seed in range(8)}
    for task in filled.values():
        assert task.source.y[task.train].bincount().tolist() == [10, 10]
        assert task.info["filled"] == 8 * sum(seed % 80 >= 40 for seed in task.info["seeds"])
    assert len({task.info["filled"] for task in filled.values()}) > 1


@planetoid
@pytest.mark.parametrize("name, classes", [("Cora", 7), ("PubMed", 3)])
def test_localized_planetoid(name, classes):
    task = localized(name=name, root=str(DATA), split_seed=2)
    assert (len(task.train), len(task.val), len(task.test), len(task.class_names)) == (
        20 * classes,
        500,
        1000,
        classes,
    )
    assert not overlap(torch.cat([task.train, task.oracle.train]).unique(), task.val, task.test)
    assert task.info["split"] == "public"
    assert near(task.source, task.train) < near(task.source, task.oracle.train)


@pytest.mark.parametrize(
    "key, options",
    [
        ("restart", {"restart": 0.0}),
        ("restart", {"restart": 1.0}),
        ("labels_per_class", {"labels_per_class": 0}),
        ("labels_per_class", {"labels_per_class": 500}),
        ("split", {"split": "mine"}),
        ("split", {"split": "public"}),
        ("num_val", {"num_val": 0}),
        ("num_test", {"num_test": 0}),
        ("num_unseen", {"num_unseen": 3}),
        ("unseen", {"unseen": [9]}),
    ],
)
def test_localized_refuses(photo, key, options):
    refused(f"localized.{key}", localized, **{"name": "Photo", "root": photo} | options)


def test_found_by_folder():
    assert {"cross_graph", "localized"} <= set(shifts.names())
