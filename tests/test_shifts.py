"""Every shift: what is hidden, how many, the same from the same seed, and nothing else touched."""

from __future__ import annotations

import os
import random
import stat
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp
import torch
import written
from conftest import make_graph
from torch_geometric.data import Data
from torch_geometric.utils import homophily, is_undirected

from graphgym_srnc import shifts
from graphgym_srnc.core.errors import InputError
from graphgym_srnc.data import catalogue, datasets, pyg, untrusted
from graphgym_srnc.data.block_model import class_shares, class_topics, dcsbm
from graphgym_srnc.data.cleaning import clean
from graphgym_srnc.data.describe import describe
from graphgym_srnc.plots.charts import shift_figure
from graphgym_srnc.report.summary import show_shift
from graphgym_srnc.shifts import splits

open_set, synthetic, own_file = (shifts.find(name) for name in ("open_set", "synthetic", "file"))
DATA = Path(os.environ.get("GRAPHGYM_SRNC_DATA") or Path(__file__).parents[2] / "shared" / "data")
planetoid = pytest.mark.skipif(
    not (DATA / "planetoid" / "Cora" / "raw").is_dir(), reason=f"no Planetoid files in {DATA}"
)
SMALL = {
    "num_nodes": 400,
    "num_classes": 5,
    "num_features": 60,
    "labels_per_class": 5,
    "num_val": 50,
    "num_test": 100,
}


def toy(**changes) -> Data:
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


def equal(a, b) -> bool:
    return a.fingerprint() == b.fingerprint()


def test_found_by_folder():
    assert {"open_set", "synthetic", "file"} <= set(shifts.names())
    assert not set(shifts.SHARED) & set(shifts.names())
    for name in ("splits", "nothing"):
        with pytest.raises(InputError, match="shift.*open_set"):
            shifts.find(name)


OWN = """
from graphgym_srnc.core.errors import InputError
from graphgym_srnc.core.options import Share

def build(*, name: str = "", root: str = "", split_seed: int = 0, share: Share = 0.5):
    if name != "Photo":
        raise InputError("name", name, "Photo")
    if share == 1:
        raise InputError("share", share, "less than 1")
    return share
"""


def test_a_shift_of_ones_own_is_checked(tmp_path, monkeypatch):
    (tmp_path / "own_shift.py").write_text(OWN)
    monkeypatch.setattr(shifts, "__path__", [*shifts.__path__, str(tmp_path)])
    build = shifts.find("own_shift")
    assert build is shifts.find("own_shift") and build(name="Photo", share=0.25) == 0.25
    for share, allowed in ((2.0, "in [0, 1]"), (-0.5, "in [0, 1]"), (1.0, "less than 1")):
        with pytest.raises(InputError) as error:
            build(name="Photo", share=share)
        refused = error.value
        assert (refused.key, refused.value, refused.allowed) == ("own_shift.share", share, allowed)
    with pytest.raises(InputError) as error:
        build(name="Cora")
    assert error.value.key == "name"


def test_streams_have_names():
    for stream, number in (("classes", 0), ("nodes", 1), ("arxiv_like", 3), ("example", 5)):
        wanted = np.random.RandomState([7, number]).permutation(50)
        assert (splits.generator(7, stream).permutation(50) == wanted).all()
        assert (splits.shuffled(50, 7, stream).numpy() == wanted).all()
    streams = "own", "own", "other", "nodes"
    orders = [splits.shuffled(50, 7, stream).tolist() for stream in streams]
    assert orders[0] == orders[1] and len({*map(tuple, orders)}) == 3
    with pytest.raises(InputError, match="split_seed"):
        splits.generator(-1, "nodes")


@pytest.mark.parametrize("mode", ["open_set", "close_set"])
def test_synthetic_is_decided_by_its_seed_alone(mode):
    torch.manual_seed(1), np.random.seed(1), random.seed(1)
    states = torch.get_rng_state(), np.random.get_state()[1].copy(), random.getstate()
    first = synthetic(mode=mode, split_seed=3, **SMALL)
    assert torch.equal(states[0], torch.get_rng_state()) and states[2] == random.getstate()
    assert (states[1] == np.random.get_state()[1]).all()
    torch.manual_seed(2)
    assert equal(first, synthetic(mode=mode, split_seed=3, **SMALL))
    assert not equal(first, synthetic(mode=mode, split_seed=4, **SMALL))


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


def test_oracle_shares_the_split_and_sees_every_class():
    task = synthetic(num_unseen=2, **SMALL)
    oracle = task.oracle
    assert torch.equal(oracle.val, task.val) and torch.equal(oracle.test, task.test)
    assert set(task.train.tolist()) < set(oracle.train.tolist())
    assert oracle.num_known == 5 and not oracle.open_set
    assert oracle.source.y[oracle.train].bincount().tolist() == [5] * 5
    assert torch.equal(oracle.source.y, task.source.y_true)


def test_training_nodes_of_a_class_do_not_depend_on_the_masked_ones():
    a, b = (synthetic(unseen=[c], **SMALL) for c in (0, 1))
    nodes = [set(t.train[t.source.y_true[t.train] == 3].tolist()) for t in (a, b)]
    assert nodes[0] == nodes[1] and len(nodes[0]) == 5
    assert torch.equal(a.test, b.test)


def test_unseen_list_overrides_the_number():
    assert synthetic(unseen=[4, 0], num_unseen=1, **SMALL).info["unseen"] == [0, 4]


def test_all_other_nodes():
    task = synthetic(**SMALL | {"num_test": -1})
    assert len(task.test) == 400 - 5 * 5 - 50
    task = synthetic(**SMALL | {"labels_per_class": -1})
    assert (len(task.val), len(task.test)) == (50, 100)
    taken = torch.cat([task.val, task.test])
    known_rest = int((task.source.y < 3).sum()) - int((task.source.y[taken] < 3).sum())
    assert len(task.train) == known_rest


def test_validation_and_test_shrink_in_proportion():
    task = synthetic(**SMALL | {"num_val": 500, "num_test": 1000})
    assert (len(task.val), len(task.test)) == (125, 250)


def test_close_set_differs_in_classes_and_words():
    task = synthetic(mode="close_set", shift=0.5, **SMALL)
    assert task.source is not task.target and not task.open_set and task.num_known == 5
    assert task.source.y[task.train].bincount().tolist() == [5] * 5
    assert len(task.source_val) == 50
    assert not set(task.source_val.tolist()) & set(task.train.tolist())
    assert len(task.pool) == 400
    assert not torch.equal(task.source.y.bincount(), task.target.y.bincount())
    assert task.oracle.source is task.target
    assert task.oracle.source.y[task.oracle.train].bincount().tolist() == [5] * 5
    same = synthetic(mode="close_set", shift=0.0, **SMALL)
    assert torch.equal(same.source.y.bincount(), same.target.y.bincount())


@pytest.mark.parametrize("wanted", [0.2, 0.5, 0.9])
def test_dcsbm_has_the_asked_degree_and_homophily(wanted):
    rng = splits.generator(0, "classes")
    graph = dcsbm(
        num_nodes=3000,
        shares=class_shares(6, 4.0, rng),
        topics=class_topics(6, 80, 0.3, rng),
        rng=rng,
        avg_degree=8.0,
        homophily=wanted,
    )
    assert graph.num_edges == 3000 * 8 and is_undirected(graph.edge_index)
    assert homophily(graph.edge_index, graph.y) == pytest.approx(wanted, abs=0.02)
    sizes = graph.y.bincount()
    assert float(sizes.max() / sizes.min()) == pytest.approx(4.0, rel=0.05)
    degree = torch.bincount(graph.edge_index[0], minlength=3000)
    assert degree.max() > 5 * degree.float().mean()
    assert set(graph.x.unique().tolist()) == {0.0, 1.0}


def test_dcsbm_blocks_lie_inside_classes():
    rng = splits.generator(0, "classes")
    graph = dcsbm(
        num_nodes=1000,
        shares=class_shares(4, 1.0, rng),
        topics=class_topics(4, 50, 0.3, rng),
        rng=rng,
        blocks_per_class=3,
    )
    assert torch.equal(graph.block // 3, graph.y) and len(graph.block.unique()) == 12
    row, column = graph.edge_index
    same_class = graph.y[row] == graph.y[column]
    assert float((graph.block[row] == graph.block[column])[same_class].float().mean()) > 0.8


def test_dcsbm_never_holds_a_dense_matrix():
    rng = splits.generator(0, "classes")
    graph = dcsbm(
        num_nodes=60_000,
        shares=class_shares(20, 5.0, rng),
        topics=class_topics(20, 8, 0.3, rng),
        rng=rng,
    )
    assert graph.num_edges == 60_000 * 5


def test_clean_makes_the_graph_simple_and_counts_what_it_did():
    edges = torch.tensor([[0, 1, 1, 2, 3, 3], [1, 0, 2, 2, 0, 0]])
    data = clean(toy(edge_index=edges))
    assert sorted(zip(*data.edge_index.tolist())) == [
        (0, 1),
        (0, 3),
        (1, 0),
        (1, 2),
        (2, 1),
        (3, 0),
    ]
    assert data.cleaned == {"self_loops": 1, "duplicates": 1, "one_way": 2}
    assert data.num_nodes == 12


@pytest.mark.parametrize(
    "name, full",
    [
        ("Cora", ("Planetoid", "Cora")),
        ("pubmed", ("Planetoid", "PubMed")),
        ("CitationFull/Cora", ("CitationFull", "Cora")),
        ("DBLP", ("CitationFull", "DBLP")),
        ("CoraFull", ("CitationFull", "Cora")),
        ("Photo", ("Amazon", "Photo")),
        ("Coauthor/CS", ("Coauthor", "CS")),
        ("WikiCS", ("WikiCS", "")),
        ("ogbn-arxiv", ("OGB", "ogbn-arxiv")),
        ("WebKB/Cornell", ("WebKB", "Cornell")),
        ("Actor", ("Actor", "")),
    ],
)
def test_names(name, full):
    assert catalogue.resolve(name) == full


def write_photo(folder: Path) -> dict[Path, bytes]:
    """Amazon Photo's raw file with a small graph in it, in a read-only folder."""
    file = written.npz(folder, "amazon/Photo/raw/amazon_electronics_photo.npz", 4)
    for path in (file, file.parent, file.parent.parent):
        path.chmod(path.stat().st_mode & ~(stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH))
    return {path: path.read_bytes() if path.is_file() else b"" for path in folder.rglob("*")}


def test_other_families_without_public_split_from_a_read_only_folder(tmp_path):
    before = write_photo(tmp_path)
    task = open_set(
        name="Photo", root=str(tmp_path), num_unseen=1, labels_per_class=10, num_val=40, num_test=60
    )
    assert task.num_known == 3 and len(task.train) == 30
    assert (len(task.val), len(task.test)) == (40, 60)
    assert task.info["split"] == "random"
    assert {
        path: path.read_bytes() if path.is_file() else b"" for path in tmp_path.rglob("*")
    } == before
    with pytest.raises(InputError, match="open_set.split"):
        open_set(name="Photo", root=str(tmp_path), num_unseen=1, split="public")


def test_ogb_keeps_its_split_and_parses_once(tmp_path, monkeypatch):
    monkeypatch.setenv("GRAPHGYM_SRNC_CACHE", str(tmp_path / "cache"))
    papers = written.graph(200, 4, 10)
    written.arxiv(
        tmp_path,
        papers.x.numpy(),
        papers.edge_index.numpy().T,
        papers.y.numpy(),
        np.full(200, 2010),
    )
    task = open_set(name="ogbn-arxiv", root=str(tmp_path), num_unseen=1, labels_per_class=5)
    assert (task.info["split"], task.val.tolist(), task.test.tolist()) == ("public", [198], [199])
    datasets.load.cache_clear()
    monkeypatch.setattr(pyg, "read", lambda *args: pytest.fail("parsed twice"))
    assert equal(
        task, open_set(name="ogbn-arxiv", root=str(tmp_path), num_unseen=1, labels_per_class=5)
    )


@planetoid
@pytest.mark.parametrize(
    "name, num_unseen, counts",
    [
        ("Cora", 3, (2708, 5278, 80, 140)),
        ("CiteSeer", 3, (3327, 4552, 60, 120)),
        ("PubMed", 1, (19717, 44324, 40, 60)),
    ],
)
def test_planetoid_follows_the_paper(name, num_unseen, counts):
    torch.manual_seed(5)
    state = torch.get_rng_state()
    task = open_set(name=name, root=str(DATA), split_seed=1, num_unseen=num_unseen)
    assert (
        task.source.num_nodes,
        task.source.num_edges // 2,
        len(task.train),
        len(task.oracle.train),
    ) == counts
    assert (len(task.val), len(task.test), len(task.pool)) == (500, 1000, counts[0] - counts[2])
    assert (task.source.y[task.train].bincount() == 20).all()
    assert len(task.class_names) == task.num_known
    public = datasets.load(name, str(DATA))
    assert torch.equal(task.test, public.test_mask.nonzero().view(-1))
    assert torch.equal(task.val, public.val_mask.nonzero().view(-1))
    assert torch.equal(state, torch.get_rng_state())
    assert equal(task, open_set(name=name, root=str(DATA), split_seed=1, num_unseen=num_unseen))
    assert equal(
        task.oracle, open_set(name=name, root=str(DATA), split_seed=1, num_unseen=num_unseen).oracle
    )


@planetoid
def test_planetoid_other_splits():
    task = open_set(name="Cora", root=str(DATA), num_test=-1)
    assert len(task.test) == 2708 - 7 * 20 - 500
    task = open_set(name="Cora", root=str(DATA), split="random", num_val=200, num_test=300)
    assert (len(task.val), len(task.test)) == (200, 300)
    assert open_set(name="Cora", root=str(DATA), unseen=[0, 1, 2, 3, 4]).num_known == 2


@planetoid
def test_citeseer_papers_that_the_files_lack_have_no_label():
    task = open_set(name="CiteSeer", root=str(DATA), unseen=[5])
    assert int((task.source.y == -1).sum()) == 15
    assert int((task.source.x[task.train] == 0).all(1).sum()) == 0


def test_file_with_its_own_split(tmp_path):
    masks = {
        f"{part}_mask": torch.isin(torch.arange(12), torch.tensor(nodes))
        for part, nodes in (("train", [0, 1]), ("val", [2, 3]), ("test", [4, 5, 6]))
    }
    task = own_file(name="mine", path=saved(tmp_path, toy(**masks)))
    assert task.name == "file/graph" and task.num_known == 2 and task.info["unseen"] == [2]
    assert task.train.tolist() == [0, 1] and task.val.tolist() == [2, 3]
    assert task.test.tolist() == [4, 5, 6]
    assert task.target.y.tolist() == [0, 1, 2] * 3 + [0, -1, -1]
    assert task.pool.tolist() == list(range(2, 12))
    del masks["val_mask"], masks["test_mask"]
    task = own_file(path=saved(tmp_path, toy(**masks)), num_val=3, num_test=4)
    assert (len(task.val), len(task.test)) == (3, 4)
    assert not {0, 1, 10, 11} & {*task.val.tolist(), *task.test.tolist()}


def test_file_with_a_drawn_split(tmp_path):
    path = saved(tmp_path, toy())
    task = own_file(path=path, labels_per_class=1, num_unseen=1)
    assert task.num_known == 2 and len(task.train) == 2 and task.oracle.num_known == 3
    assert equal(
        task, own_file(path="graph.pt", root=str(tmp_path), labels_per_class=1, num_unseen=1)
    )
    close = own_file(path=path, labels_per_class=2, open_set=False)
    assert not close.open_set and close.num_known == 3 and close.oracle is None


def test_file_kinds_agree(tmp_path):
    import scipy.sparse as sp

    data, options = toy(), {"labels_per_class": 1, "num_unseen": 1, "split_seed": 2}
    task = own_file(path=saved(tmp_path, data), **options)
    torch.save({"x": data.x, "edge_index": data.edge_index, "y": data.y}, tmp_path / "dict.pt")
    np.savez(tmp_path / "graph.npz", x=data.x, edge_index=data.edge_index, y=data.y)
    assert equal(task, own_file(path=str(tmp_path / "dict.pt"), **options))
    assert equal(task, own_file(path=str(tmp_path / "graph.npz"), **options))
    folder = tmp_path / "tables"
    folder.mkdir()
    edges = [f"{a},{b}" for a, b in data.edge_index.T.tolist()]
    labels = [f"{i},{'abc'[y]}" for i, y in enumerate(data.y.tolist()) if y >= 0]
    (folder / "edges.csv").write_text("\n".join(["from,to", *edges]))
    (folder / "labels.csv").write_text("\n".join(["node,label", *labels]))
    np.save(folder / "features.npy", data.x)
    assert equal(task, own_file(path=str(folder), **options))
    named = own_file(path=str(folder), **options)
    assert named.class_names == tuple(
        c for i, c in enumerate("abc") if i not in named.info["unseen"]
    )
    (tmp_path / "labels.txt").write_text("\n".join(str(y) for y in data.y.tolist()))
    sp.save_npz(tmp_path / "features.npz", sp.csr_matrix(data.x.numpy()))
    (tmp_path / "edges.txt").write_text(
        "\n".join(f"{a} {b}" for a, b in data.edge_index.T.tolist())
    )
    assert equal(
        task,
        own_file(
            path=str(tmp_path / "edges.txt"),
            features=str(tmp_path / "features.npz"),
            labels=str(tmp_path / "labels.txt"),
            **options,
        ),
    )
    (folder / "split.csv").write_text("node,part\n0,train\n1,train\n2,val\n3,val\n4,test\n5,test\n")
    assert own_file(path=str(folder)).test.tolist() == [4, 5]


def test_file_is_only_read(tmp_path):
    path = Path(saved(tmp_path, toy()))
    before = path.read_bytes(), sorted(tmp_path.iterdir())
    own_file(path=str(path), labels_per_class=1)
    assert before == (path.read_bytes(), sorted(tmp_path.iterdir()))


def test_describe_counts_and_warns(tmp_path, capsys):
    edges = torch.tensor([[0, 1, 2, 2, 0], [1, 2, 3, 2, 1]])
    summary = describe(
        own_file(path=saved(tmp_path, toy(edge_index=edges)), labels_per_class=1, unseen=[2])
    )
    graph = summary["graphs"]["source"]
    assert (
        graph["nodes"],
        graph["edges"],
        graph["isolated"],
        graph["labelled"],
        graph["classes"],
    ) == (12, 3, 8, 10, 3)
    assert summary["labels"] == {
        "0": {"source": 1, "target": 4},
        "1": {"source": 1, "target": 3},
        "unseen 2": {"source": 0, "target": 3},
    }
    text = " ".join(summary["warnings"])
    for part in (
        "8 of 12 nodes have no edge",
        "2 of 12 nodes have no label",
        "1 self-loops",
        "1 repeated",
        "only 0 % of edges join",
    ):
        assert part in text
    show_shift(summary)
    assert "unseen 2" in capsys.readouterr().out


def test_figure_is_a_picture(tmp_path):
    shift_figure(describe(synthetic(mode="close_set", **SMALL))).savefig(tmp_path / "shift.png")
    assert (tmp_path / "shift.png").read_bytes().startswith(b"\x89PNG")


def test_a_rare_class_keeps_a_node_to_train_on():
    y = torch.arange(20).repeat(3)
    for seed in range(5):
        nodes = splits.draw(y, [], labels_per_class=-1, num_val=20, num_test=20, split_seed=seed)
        assert set(y[nodes.train].tolist()) == set(range(20))
        every = torch.cat([nodes.train, nodes.val, nodes.test])
        assert len(every.unique()) == len(every) and len(nodes.val) and len(nodes.test)


@pytest.mark.parametrize("classes, masked", [(7, 3), (6, 3), (3, 1)])
def test_every_masked_set_once_before_any_twice(classes, masked):
    labels, sets = [10 * c for c in range(classes)], list(combinations(range(classes), masked))
    expected = sorted([10 * c for c in chosen] for chosen in sets)
    turns = [
        [splits.choose_unseen(labels, masked, [], turn * len(sets) + i) for i in range(len(sets))]
        for turn in range(2)
    ]
    assert all(sorted(turn) == expected for turn in turns)
    assert classes == 3 or (turns[0] != expected and turns[0] != turns[1])  # in random order


def test_too_many_masked_sets_are_drawn():
    drawn = [splits.choose_unseen(range(60), 30, [], seed) for seed in range(4)]
    assert all(len(set(part)) == 30 for part in drawn) and len(set(map(tuple, drawn))) == 4
    assert drawn[2] == splits.choose_unseen(range(60), 30, [], 2)


def six_classes(**masks) -> Data:
    """Sixty nodes of six classes, a fifth each public training, validation and test nodes."""
    nodes = torch.arange(60)
    parts = enumerate(("train_mask", "val_mask", "test_mask"))
    public = {part: nodes // 6 % 5 == i for i, part in parts}
    return Data(
        x=torch.eye(60),
        edge_index=torch.stack([nodes, (nodes + 1) % 60]),
        y=nodes % 6,
        cleaned={},
        **(public | masks),
    )


@pytest.fixture
def loads_six_classes(monkeypatch):
    monkeypatch.setattr(datasets, "load", lambda name, root: six_classes())


@pytest.mark.usefixtures("loads_six_classes")
def test_all_nodes_of_masked_classes_are_tested_but_unscored_ones():
    task = open_set(
        name="Cora", unseen=[0, 2, 5], labelled="public", unseen_nodes="all", unscored=[2]
    )
    data, y = six_classes(), np.arange(60) % 6
    known = ~np.isin(y, [0, 2, 5])
    assert task.train.tolist() == np.flatnonzero(data.train_mask.numpy() & known).tolist()
    assert task.val.tolist() == np.flatnonzero(data.val_mask.numpy() & known).tolist()
    expected = (data.test_mask.numpy() & known) | np.isin(y, [0, 5])
    assert task.test.tolist() == np.flatnonzero(expected).tolist() and task.oracle is None
    assert (task.target.y[task.test] == 3).sum() == 20


@pytest.mark.usefixtures("loads_six_classes")
def test_public_labels_keep_an_oracle():
    task = open_set(name="Cora", num_unseen=2, labelled="public")
    data = six_classes()
    assert task.oracle.train.tolist() == data.train_mask.nonzero().view(-1).tolist()
    assert set(task.train.tolist()) < set(task.oracle.train.tolist())
    assert torch.equal(task.oracle.test, task.test)


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.usefixtures("loads_six_classes")
def test_balanced_validation_and_test(seed):
    options = {
        "name": "Cora",
        "split_seed": seed,
        "unseen": [1, 3, 4],
        "unscored": [4],
        "labels_per_class": 2,
        "unseen_nodes": "balanced",
        "num_val": 8,
        "num_test": 16,
    }
    task = open_set(**options)
    y, unknown = task.target.y_true, task.target.y == 3
    for nodes, size in ((task.val, 8), (task.test, 16)):
        assert len(nodes) == size and unknown[nodes].sum() == size // 2
        assert not (y[nodes] == 4).any()
    every = torch.cat([task.train, task.val, task.test])
    assert len(every.unique()) == len(every) and equal(task, open_set(**options))
    assert not equal(task, open_set(**options | {"split_seed": seed + 1}))
    rest = open_set(**options | {"num_test": -1})
    # Of 30 known and 20 masked ones that are scored, 6 and, for the oracle, 4 are labelled.
    assert len(rest.test) + len(rest.val) == 50 - 6 - 4


def test_protocol_options_are_checked(monkeypatch):
    for masks, options, key in (
        ({}, {"unseen": [0, 1], "unscored": [2]}, "unscored"),
        ({"train_mask": None}, {"labelled": "public"}, "labelled"),
        ({}, {"labelled": "public", "split": "random"}, "labelled"),
        ({}, {"unseen_nodes": "some"}, "unseen_nodes"),
    ):
        data = six_classes(**{name: mask for name, mask in masks.items() if mask is not None})
        for name, mask in masks.items():
            if mask is None:
                del data[name]
        monkeypatch.setattr(datasets, "load", lambda name, root, data=data: data)
        with pytest.raises(InputError, match=f"open_set.{key}"):
            open_set(name="Cora", **{"num_unseen": 2, "labels_per_class": 2, **options})


@planetoid
def test_label_leave_out_is_that_of_its_authors():
    task = open_set(
        name="Cora",
        root=str(DATA),
        unseen=[0, 1, 2, 3],
        labelled="public",
        unseen_nodes="all",
        unscored=[3],
    )
    assert task.num_known == 3 and len(task.train) == 60
    assert (task.target.y[task.test] == 3).sum() == 351 + 217 + 418
    assert (task.target.y[task.test] < 3).sum() == 316 and (task.target.y[task.val] < 3).all()


@pytest.mark.parametrize("group", ["one-hot", "numbers"])
def test_a_matlab_file_is_read_from_whom_one_trusts(group, tmp_path):
    rng = np.random.default_rng(0)
    y = np.arange(40) % 3
    network = sp.csc_matrix(np.triu(rng.random((40, 40)) < 0.2, 1).astype(float))
    attrb = rng.random((40, 5))
    labels = np.eye(3)[y] if group == "one-hot" else y[:, None] + 1.0
    scipy.io.savemat(tmp_path / "net.mat", {"network": network, "attrb": attrb, "group": labels})
    sizes = {"path": str(tmp_path / "net.mat"), "labels_per_class": 3, "num_val": 6, "num_test": 9}
    with pytest.raises(InputError, match="--trust"):
        shifts.find("file")(**sizes)
    with untrusted.trusted():
        task = shifts.find("file")(**sizes)
        assert task.target.y_true.tolist() == y.tolist()
        np.testing.assert_allclose(task.target.x.numpy(), attrb, rtol=1e-6)
        assert task.target.num_edges == 2 * network.nnz
        scipy.io.savemat(tmp_path / "net.mat", {"network": network, "attrb": attrb})
        with pytest.raises(InputError, match="path: group: the matrix is missing"):
            shifts.find("file")(**sizes)


def test_weights_that_are_not_read_are_told(tmp_path):
    graph = make_graph()
    fields = {"x": graph.x, "edge_index": graph.edge_index, "y": graph.y}
    sizes = {"path": str(tmp_path / "graph.pt"), "labels_per_class": 3, "num_val": 6, "num_test": 9}
    tasks = []
    for more in ({}, {"edge_weight": torch.rand(graph.num_edges)}):
        torch.save(fields | more, tmp_path / "graph.pt")
        tasks.append(shifts.find("file")(**sizes))
    told = [
        [text for text in describe(task)["warnings"] if "edge_weight" in text] for task in tasks
    ]
    assert told == [[], ["not read: edge_weight; edge weights are not used"]]
    assert tasks[0].fingerprint() == tasks[1].fingerprint()
