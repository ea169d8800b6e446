"""Shifts on one graph: what is hidden, how many, the same from the same seed."""

from __future__ import annotations

import stat
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
import torch
import written
from conftest import refused
from torch_geometric.data import Data
from torch_geometric.utils import homophily, is_undirected
from written import DATA, decided_by_its_seed, equal, overlap

from graphgym_srnc import shifts
from graphgym_srnc.data import catalogue, datasets
from graphgym_srnc.data.block_model import class_shares, class_topics, dcsbm
from graphgym_srnc.data.describe import describe
from graphgym_srnc.errors import InputError
from graphgym_srnc.report.page import of_data
from graphgym_srnc.report.summary import show_shift
from graphgym_srnc.shifts import splits
from graphgym_srnc.shifts.given import from_data
from graphgym_srnc.shifts.localized import personalised_pagerank

open_set, synthetic, own_file, localized = (
    shifts.find(name) for name in ("open_set", "synthetic", "file", "localized")
)
SMALL = {"num_nodes": 400, "num_classes": 5, "num_features": 60}
SMALL |= {"labels_per_class": 5, "num_val": 50, "num_test": 100}


def ring_graph(**changes) -> Data:
    """Twelve nodes of three classes in a ring, the last two without a label."""
    nodes = torch.arange(12)
    fields = {
        "x": torch.eye(12),
        "edge_index": torch.stack([nodes, (nodes + 1) % 12]),
        "y": torch.tensor([0, 1, 2] * 3 + [0, -1, -1]),
    }
    return Data(**fields | changes)


def saved(folder: Path, data: Data) -> str:
    torch.save(data, folder / "graph.pt")
    return str(folder / "graph.pt")


# ---- any shift ----


def test_every_masked_set_once_before_any_twice(classes=6, masked=3):
    labels = [10 * c for c in range(classes)]
    sets = list(combinations(range(classes), masked))
    expected = sorted([10 * c for c in chosen] for chosen in sets)
    turns = [
        [splits.choose_unseen(labels, masked, [], turn * len(sets) + i) for i in range(len(sets))]
        for turn in range(2)
    ]
    assert all(sorted(turn) == expected for turn in turns)
    assert turns[0] != expected and turns[0] != turns[1]  # in random order


# ---- synthetic ----


def test_synthetic_open_set_counts():
    task = synthetic(num_unseen=2, **SMALL)
    true = task.source.y_true
    unseen = task.info["unseen"]
    assert task.source is task.target and task.num_known == 3 and len(unseen) == 2
    assert task.source.y[task.train].bincount().tolist() == [5, 5, 5]
    assert (len(task.val), len(task.test), len(task.pool)) == (50, 100, 400 - 15)
    assert torch.equal(task.source.y == task.unknown, torch.isin(true, torch.tensor(unseen)))
    known = [c for c in range(5) if c not in unseen]
    assert [true[task.source.y == i].unique().tolist() for i in range(3)] == [[c] for c in known]
    oracle = task.oracle
    assert torch.equal(oracle.val, task.val) and torch.equal(oracle.test, task.test)
    assert set(task.train.tolist()) < set(oracle.train.tolist()) and not oracle.open_set
    assert oracle.source.y[oracle.train].bincount().tolist() == [5] * 5
    assert torch.equal(oracle.source.y, task.source.y_true)


def test_sizes_of_a_random_split():
    assert len(synthetic(**SMALL | {"num_test": -1}).test) == 400 - 5 * 5 - 50
    task = synthetic(**SMALL | {"labels_per_class": -1})
    assert (len(task.val), len(task.test)) == (50, 100)
    taken = task.source.y[torch.cat([task.val, task.test])]
    assert len(task.train) == int((task.source.y < 3).sum()) - int((taken < 3).sum())
    task = synthetic(**SMALL | {"num_val": 500, "num_test": 1000})  # shrink in proportion
    assert (len(task.val), len(task.test)) == (125, 250)


@pytest.mark.parametrize(
    "wanted, drawn",
    [((500, 70), (80, 70)), ((500, 100), (75, 75)), ((500, 1000), (50, 100)), ((90, 0), (90, 0))],
)
def test_test_nodes_get_half_of_the_room_if_they_need_it(wanted, drawn):
    val, test = splits.draw_val_test(torch.zeros(300), splits.Sizes(*wanted, 0), most=150)
    assert (len(val), len(test)) == drawn
    assert not {*val.tolist()} & {*test.tolist()}


def test_a_small_class_keeps_half_of_its_labels_for_training():
    y = torch.tensor([0] * 30 + [1] * 30 + [2] * 3 + [3] * 2 + [-1] * 9)
    for seed in range(20):
        nodes = splits.draw(y, [], -1, splits.Sizes(500, 500, seed))
        counts = y[nodes.train].bincount().tolist()
        assert min(counts[:2]) >= 5 and counts[2] >= 2 and counts[3] >= 1
        assert [*map(len, nodes[:3])] == [33, 16, 16]


def test_a_small_masked_class_keeps_half_of_its_nodes_for_validation_and_test():
    y = torch.tensor([0] * 30 + [1] * 30 + [2] * 6)
    nodes = splits.draw(y, [2], 5, splits.Sizes(20, splits.REST, 0))
    assert y[nodes.extra].tolist() == [2] * 3 and y[nodes.train].bincount().tolist() == [5, 5]
    drawn = torch.cat([nodes.val, nodes.test])
    assert len(nodes.val) == (66 - 13) // 3 and len(drawn) == 66 - 13
    assert (y[drawn] == 2).sum() == 3


def test_close_set_differs_in_classes_and_words():
    decided_by_its_seed(synthetic, mode="close_set", **SMALL)
    task = synthetic(mode="close_set", shift=0.5, **SMALL)
    assert task.source is not task.target and not task.open_set and task.num_known == 5
    assert task.source.y[task.train].bincount().tolist() == [5] * 5
    assert len(task.source_val) == 50 and not overlap(task.source_val, task.train)
    assert len(task.pool) == 400
    assert not torch.equal(task.source.y.bincount(), task.target.y.bincount())
    assert task.oracle.source is task.target
    same = synthetic(mode="close_set", shift=0.0, **SMALL)
    assert torch.equal(same.source.y.bincount(), same.target.y.bincount())


def test_dcsbm_has_the_asked_degree_and_homophily():
    rng = splits.generator(0, "classes")
    made = {"shares": class_shares(6, 4.0, rng), "topics": class_topics(6, 80, 0.3, rng)}
    graph = dcsbm(num_nodes=2000, **made, rng=rng, avg_degree=8.0, homophily=0.2)
    assert graph.num_edges == 2000 * 8 and is_undirected(graph.edge_index)
    assert homophily(graph.edge_index, graph.y) == pytest.approx(0.2, abs=0.02)
    sizes = graph.y.bincount()
    assert float(sizes.max() / sizes.min()) == pytest.approx(4.0, rel=0.05)
    degree = torch.bincount(graph.edge_index[0], minlength=2000)
    assert degree.max() > 5 * degree.float().mean()
    assert set(graph.x.unique().tolist()) == {0.0, 1.0}


# ---- data sets ----


def test_names():
    names = "cora CitationFull/Cora CoraFull ogbn-arxiv Actor"
    full = "Planetoid/Cora CitationFull/Cora CitationFull/Cora OGB/ogbn-arxiv Actor"
    assert [*map(catalogue.full_name, names.split())] == full.split()


def test_a_read_only_folder_without_public_split(tmp_path):
    file = written.npz(tmp_path, "amazon/Photo/raw/amazon_electronics_photo.npz", 4)
    for path in (file, file.parent, file.parent.parent):
        path.chmod(path.stat().st_mode & ~(stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH))
    before = sorted(tmp_path.rglob("*")), file.read_bytes()
    sizes = {"name": "Photo", "root": str(tmp_path), "num_unseen": 1, "labels_per_class": 10}
    task = open_set(**sizes, num_val=40, num_test=60)
    assert task.num_known == 3 and len(task.train) == 30 and task.info["split"] == "random"
    assert (len(task.val), len(task.test)) == (40, 60)
    assert before == (sorted(tmp_path.rglob("*")), file.read_bytes())
    refused("open_set.split", open_set, **sizes, split="public")


@written.real("planetoid/Cora/raw")
@pytest.mark.parametrize(
    "name, counts", [("Cora", (2708, 5278, 80, 140)), ("CiteSeer", (3327, 4552, 60, 120))]
)
def test_planetoid_follows_the_paper(name, counts):
    task = open_set(name=name, root=str(DATA), split_seed=1)
    source = task.source
    sizes = source.num_nodes, source.num_edges // 2, len(task.train), len(task.oracle.train)
    assert sizes == counts
    assert (len(task.val), len(task.test), len(task.pool)) == (500, 1000, counts[0] - counts[2])
    assert (task.source.y[task.train].bincount() == 20).all()
    assert len(task.class_names) == task.num_known
    public = datasets.load(name, str(DATA))
    assert torch.equal(task.test, public.test_mask.nonzero().view(-1))
    assert torch.equal(task.val, public.val_mask.nonzero().view(-1))
    if name == "CiteSeer":  # papers that the files lack have no label
        assert int((source.y == -1).sum()) == 15 and (source.x[task.train] != 0).any(1).all()
    local = localized(name=name, root=str(DATA), split_seed=2)
    assert (len(local.val), len(local.test), local.info["split"]) == (500, 1000, "public")
    assert not overlap(torch.cat([local.train, local.oracle.train]).unique(), local.val, local.test)


def six_classes(**masks) -> Data:
    """Sixty nodes of six classes, a fifth each public training, validation and test nodes."""
    nodes = torch.arange(60)
    parts = enumerate(("train_mask", "val_mask", "test_mask"))
    public = {part: nodes // 6 % 5 == i for i, part in parts}
    edges = torch.stack([nodes, (nodes + 1) % 60])
    fields = {"x": torch.eye(60), "edge_index": edges, "y": nodes % 6, "cleaned": {}}
    return Data(**(fields | public | masks))


@pytest.fixture
def loads_six_classes(monkeypatch):
    monkeypatch.setattr(datasets, "load", lambda name, root: six_classes())


@pytest.mark.usefixtures("loads_six_classes")
def test_all_nodes_of_masked_classes_are_tested_but_unscored_ones():
    options = {"labelled": "public", "unseen_nodes": "all", "unscored": [2]}
    task = open_set(name="Cora", unseen=[0, 2, 5], **options)
    data = six_classes()
    y = np.arange(60) % 6
    known = ~np.isin(y, [0, 2, 5])
    assert task.train.tolist() == np.flatnonzero(data.train_mask.numpy() & known).tolist()
    assert task.val.tolist() == np.flatnonzero(data.val_mask.numpy() & known).tolist()
    expected = (data.test_mask.numpy() & known) | np.isin(y, [0, 5])
    assert task.test.tolist() == np.flatnonzero(expected).tolist() and task.oracle is None
    task = open_set(name="Cora", num_unseen=2, labelled="public")
    assert task.oracle.train.tolist() == data.train_mask.nonzero().view(-1).tolist()
    assert set(task.train.tolist()) < set(task.oracle.train.tolist())


@pytest.mark.usefixtures("loads_six_classes")
def test_balanced_validation_and_test():
    options = {"name": "Cora", "unseen": [1, 3, 4], "unscored": [4], "labels_per_class": 2}
    options |= {"unseen_nodes": "balanced", "num_val": 8, "num_test": 16}
    task = open_set(**options)
    y = task.target.y_true
    unknown = task.target.y == 3
    for nodes, size in ((task.val, 8), (task.test, 16)):
        assert len(nodes) == size and unknown[nodes].sum() == size // 2
        assert not (y[nodes] == 4).any()
    assert not overlap(task.train, task.val, task.test)
    decided_by_its_seed(open_set, **options)
    rest = open_set(**options | {"num_test": -1})
    # Of 30 known and 20 masked ones that are scored, 6 and, for the oracle, 4 are labelled.
    assert len(rest.test) + len(rest.val) == 50 - 6 - 4


# ---- file ----


def test_file_with_its_own_split(tmp_path):
    masks = {
        f"{part}_mask": torch.isin(torch.arange(12), torch.tensor(nodes))
        for part, nodes in (("train", [0, 1]), ("val", [2, 3]), ("test", [4, 5, 6]))
    }
    task = own_file(name="mine", path=saved(tmp_path, ring_graph(**masks)))
    assert task.name == "file/graph" and task.num_known == 2 and task.info["unseen"] == [2]
    assert task.train.tolist() == [0, 1] and task.val.tolist() == [2, 3]
    assert task.test.tolist() == [4, 5, 6] and task.pool.tolist() == list(range(2, 12))
    assert task.target.y.tolist() == [0, 1, 2] * 3 + [0, -1, -1]
    del masks["val_mask"], masks["test_mask"]
    path = Path(saved(tmp_path, ring_graph(**masks)))
    before = path.read_bytes(), sorted(tmp_path.iterdir())
    task = own_file(path=str(path), num_val=3, num_test=4)
    assert (len(task.val), len(task.test)) == (3, 4)
    assert not {0, 1, 10, 11} & {*task.val.tolist(), *task.test.tolist()}
    assert before == (path.read_bytes(), sorted(tmp_path.iterdir()))  # it is only read


def test_file_kinds_agree(tmp_path):
    data = ring_graph()
    options = {"labels_per_class": 1, "num_unseen": 1, "split_seed": 2}
    fields = {"x": data.x, "edge_index": data.edge_index, "y": data.y}
    task = own_file(path=saved(tmp_path, data), **options)
    assert task.num_known == 2 and len(task.train) == 2 and task.oracle.num_known == 3
    assert equal(task, own_file(path="graph.pt", root=str(tmp_path), **options))
    close = own_file(path=str(tmp_path / "graph.pt"), labels_per_class=2, open_set=False)
    assert not close.open_set and close.num_known == 3 and close.oracle is None

    torch.save(fields, tmp_path / "dict.pt")
    np.savez(tmp_path / "graph.npz", **fields)
    folder = tmp_path / "tables"
    folder.mkdir()
    edges = [f"{a},{b}" for a, b in data.edge_index.T.tolist()]
    labels = [f"{i},{'abc'[y]}" for i, y in enumerate(data.y.tolist()) if y >= 0]
    (folder / "edges.csv").write_text("\n".join(["from,to", *edges]))
    (folder / "labels.csv").write_text("\n".join(["node,label", *labels]))
    np.save(folder / "features.npy", data.x)
    for name in ("dict.pt", "graph.npz", "tables"):
        assert equal(task, found := own_file(path=str(tmp_path / name), **options))
    unseen = found.info["unseen"]
    assert found.class_names == tuple(c for i, c in enumerate("abc") if i not in unseen)
    # Classes go by their names, also if these are numbers.
    for named in (["b"], [1]):
        masked = own_file(path=str(folder), labels_per_class=1, unseen=named)
        assert masked.class_names == ("a", "c") and masked.info["unseen"] == [1]
    for wrong in ("bb", 3):
        with pytest.raises(InputError, match="unseen: got .*; allowed: a, b, c"):
            own_file(path=str(folder), unseen=["a", wrong])
    with pytest.raises(InputError, match="unseen: got 'a'; allowed: 0, 1, 2"):
        own_file(path=str(tmp_path / "dict.pt"), unseen=["a"])
    counted = [f"{i},{y + 1}" for i, y in enumerate(data.y.tolist()) if y >= 0]
    (folder / "labels.csv").write_text("\n".join(["node,label", *counted]))
    assert own_file(path=str(folder), labels_per_class=1, unseen=[2]).class_names == ("1", "3")
    (folder / "labels.csv").write_text("\n".join(["node,label", *labels]))
    sp.save_npz(folder / "features.npz", sp.csr_matrix(data.x.numpy()))
    (folder / "features.npy").unlink()
    assert equal(task, own_file(path=str(folder), **options))
    (folder / "split.csv").write_text("node,part\n0,train\n1,train\n2,val\n3,val\n4,test\n5,test\n")
    assert own_file(path=str(folder)).test.tolist() == [4, 5]


@pytest.mark.parametrize("edges, same, is_told", [(30, 14, True), (30, 15, False), (29, 0, False)])
def test_enough_edges_between_labelled_nodes_tell_that_few_join_one_class(edges, same, is_told):
    pairs = [(a, b) for a in range(12) for b in range(a)]
    y = torch.arange(12) % 2
    inside, between = ([pair for pair in pairs if (sum(pair) % 2 == 0) == own] for own in (1, 0))
    chosen = torch.tensor([*inside[:same], *between[: edges - same], (0, 12)]).T
    y = torch.cat([y, torch.tensor([-1])])
    graph = Data(x=torch.rand(13, 3), edge_index=chosen, y=y, train_mask=y >= 0)
    summary = describe(from_data(graph)[0])
    figures = summary["graphs"]["graph"]
    assert figures["labelled_edges"] == edges and figures["homophily"] == same / edges
    told = [text for text in summary["warnings"] if "same class" in text]
    assert len(told) == is_told
    if told:
        assert told[0].startswith("graph: only 46.7 % of the 30 edges between labelled nodes join")


def test_describe_counts_and_warns(tmp_path, capsys):
    edges = torch.tensor([[0, 1, 2, 2, 0], [1, 2, 3, 2, 1]])
    path = saved(tmp_path, ring_graph(edge_index=edges))
    summary = describe(own_file(path=path, labels_per_class=1, unseen=[2]))
    wanted = {"nodes": 12, "edges": 3, "isolated": 8, "labelled": 10, "classes": 3}
    assert summary["graphs"]["graph"] | wanted == summary["graphs"]["graph"]
    counts = {name: [*count.values()] for name, count in summary["labels"].items()}
    assert counts == {"0": [1, 4], "1": [1, 3], "unseen 2": [0, 3]}
    text = " ".join([*summary["notes"], *summary["warnings"]])
    for part in ("1 self-loops", "1 repeated", "0 (1 of 4 given) and 1 (1 of 3 given)"):
        assert part in text
    show_shift(summary)
    told = capsys.readouterr().out
    for part in ("unseen 2", "nodes           12\n", "\n1 self-loops", "\n1 repeated"):
        assert part in told
    page = of_data(summary)
    for part in ("unseen 2", "1 self-loops", 'style="width: 75.00%"'):
        assert part in page


# ---- localized ----


@pytest.fixture(scope="module")
def photo(tmp_path_factory) -> dict[str, object]:
    """Options for Amazon Photo, in whose file is a graph of 900 nodes and four classes."""
    folder = tmp_path_factory.mktemp("data")
    sizes = {"num_nodes": 900, "num_classes": 4, "num_features": 20, "num_unseen": 0}
    graph = synthetic(**sizes, avg_degree=4.0, homophily=0.9, class_imbalance=1.0).source
    graph = Data(x=graph.x, edge_index=graph.edge_index, y=graph.y_true)
    written.npz_of(graph, folder / "amazon/Photo/raw/amazon_electronics_photo.npz")
    sizes = {"labels_per_class": 10, "num_val": 50, "num_test": 200}
    return {"name": "Photo", "root": str(folder), **sizes}


def test_pagerank_is_the_solution_of_its_equation(restart=0.05):
    edges = np.random.RandomState(0).randint(60, size=(2, 240))
    edges = np.unique(np.concatenate([edges, edges[::-1]], 1), axis=1)
    kept = (edges != 7).all(0) & (edges[0] != edges[1])  # node 7 is isolated
    adjacency = np.zeros((60, 60))
    seeds = torch.tensor([3, 0, 7])
    adjacency[tuple(edges[:, kept])] = 1
    walk = adjacency / np.maximum(adjacency.sum(1, keepdims=True), 1)
    left = (np.eye(60) - (1 - restart) * walk).T
    right = np.eye(60)[:, seeds]
    wanted = restart * np.linalg.solve(left, right).T
    found = personalised_pagerank(torch.from_numpy(edges[:, kept]), 60, seeds, restart)
    assert found.shape == (3, 60) and np.allclose(found, wanted, atol=1e-7)
    assert found[:2].sum(1) == pytest.approx([1, 1]) and (found[2] > 0).nonzero()[0].tolist() == [7]


def test_training_nodes_are_the_largest_in_pagerank(photo):
    task = localized(**photo, restart=0.2)
    seeds = torch.tensor(task.info["seeds"])
    share = personalised_pagerank(task.source.edge_index, 900, seeds, 0.2)
    for c, own in enumerate(share):
        chosen = task.train[task.source.y[task.train] == c]
        of_class = (task.source.y == c).nonzero().view(-1)
        others = of_class[~torch.isin(of_class, chosen)]
        assert len(chosen) == 10 and own[chosen].min() >= own[others].max()


def test_validation_nodes_have_the_class_shares_of_the_test_nodes():
    tasks = [synthetic(num_nodes=500, split_seed=seed, num_unseen=1) for seed in range(20)]
    val, test = (
        torch.cat([task.target.y[getattr(task, part)] for task in tasks]).bincount().float()
        for part in ("val", "test")
    )
    assert (val / val.sum() - test / test.sum()).abs().max() < 0.02


def test_localized_counts(photo):
    task = localized(**photo)
    assert task.name == "localized/Photo" and task.source is task.target and not task.open_set
    sizes = [len(part) for part in (task.train, task.val, task.test, task.pool)]
    assert task.num_known == 4 and sizes == [40, 50, 200, 860]
    assert task.info | {"split": "random", "restart": 0.1} == task.info
    oracle = task.oracle
    assert oracle.source.y[oracle.train].bincount().tolist() == [10] * 4 and not oracle.open_set
    assert torch.equal(oracle.val, task.val) and torch.equal(oracle.test, task.test)
    assert not torch.equal(oracle.train, task.train)
    every = localized(**photo | {"num_test": -1})
    assert len(every.test) == 900 - 50 - len(torch.cat([every.train, every.oracle.train]).unique())
    masked = localized(unseen=[2], **photo)
    assert masked.open_set and masked.num_known == 3 and masked.info["unseen"] == [2]
    assert set(masked.train.tolist()) == {v for v in task.train.tolist() if task.source.y[v] != 2}
    assert masked.oracle.num_known == 4 and torch.equal(masked.oracle.train, oracle.train)
    assert (masked.blind().target.y >= 0).nonzero().view(-1).tolist() == masked.train.tolist()
    decided_by_its_seed(localized, **photo, num_unseen=1)
    for key, value in {"restart": 0.0, "labels_per_class": 500, "unseen": [9]}.items():
        refused(f"localized.{key}", localized, **photo | {key: value})
