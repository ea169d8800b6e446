"""From a heterogeneous graph to a graph folder and its task."""

from __future__ import annotations

import csv
import runpy
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch_geometric.data import Data, HeteroData

from graphgym_srnc import shifts
from graphgym_srnc.cli.main import main
from graphgym_srnc.errors import InputError
from graphgym_srnc.own.tables import hetero
from graphgym_srnc.own.tables.hetero import Limits, make_graph, read_pt

PAPERS = ("--node", "paper", "--metapath", "paper-author-paper")
EXAMPLE = Path(__file__).parents[1] / "examples" / "dblp_four_area.py"


def run(*words: object) -> int:
    return main([str(word) for word in ("data", *words)])


def rows_of(path: Path) -> list[list[str]]:
    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.reader(file))


def stored(data: HeteroData, folder: Path) -> HeteroData:
    torch.save(data, folder / "hetero.pt")
    return read_pt(folder / "hetero.pt")


# Links.


def random_graph(seed: int = 0) -> HeteroData:
    rng, data = np.random.default_rng(seed), HeteroData()
    for kind, size in {"p": 30, "a": 12, "t": 9}.items():
        data[kind].x = torch.ones(size, 1)
    for pair, share in ((("p", "a"), 0.15), (("p", "t"), 0.2), (("p", "p"), 0.03)):
        shape = [data[kind].num_nodes for kind in pair]
        data[pair[0], "has", pair[1]].edge_index = torch.tensor(
            np.array((rng.random(shape) < share).nonzero())
        )
    return data


def dense(data: HeteroData, source: str, target: str) -> np.ndarray:
    links = np.zeros((data[source].num_nodes, data[target].num_nodes), dtype=int)
    for (start, _, end), store in data.edge_items():
        a, b = store.edge_index.numpy()
        if (start, end) == (source, target):
            links[a, b] = 1
        if (end, start) == (source, target):
            links[b, a] = 1
    return links


LIMITS = [Limits(), Limits(top=2), Limits(max_degree=4), Limits(1, 2, 5)]


@pytest.mark.parametrize("limits", LIMITS, ids=str)
@pytest.mark.parametrize("path", ["p-p", "p-a-p-t-p", "a-p-p-a"])
def test_links_are_those_of_dense_products(path, limits):
    data, types = random_graph(), path.split("-")
    steps = [dense(data, *pair) for pair in zip(types, types[1:])]
    for place in range(1, len(steps)) if limits.max_degree else ():
        degree = np.maximum((steps[place - 1] > 0).sum(0), (steps[place] > 0).sum(1))
        hub = degree > limits.max_degree
        steps[place - 1], steps[place] = steps[place - 1] * ~hub, steps[place] * ~hub[:, None]
    m = np.linalg.multi_dot(steps) if len(steps) > 1 else steps[0]
    s = m if types == types[::-1] else m + m.T
    pathsim, d, wanted = types == types[::-1] and len(types) % 2 == 1, s.sum(1), set()
    for i in range(len(s)):
        near = [
            (-(2 * s[i, j] / (s[i, i] + s[j, j]) if pathsim else s[i, j] / np.sqrt(d[i] * d[j])), j)
            for j in range(len(s))
            if j != i and s[i, j] >= max(limits.min_count, 1)
        ]
        wanted |= {(min(i, j), max(i, j)) for _, j in sorted(near)[: limits.top or None]}
    if not wanted:
        with pytest.raises(InputError, match="links two nodes"):
            make_graph(data, types[0], [path], limits)
        return
    made, told = make_graph(data, types[0], [path], limits)
    assert sorted(map(tuple, made.edges.T.tolist())) == sorted(wanted)
    assert f"{path}: {m.sum():,} paths, {len(wanted):,} links" in told


def test_too_many_links_are_refused(monkeypatch):
    data = HeteroData()
    data["p"].x, data["c"].num_nodes = torch.ones(700, 1), 1
    data["p", "in", "c"].edge_index = torch.stack([torch.arange(700), torch.zeros(700).long()])
    assert make_graph(data, "p", ["p-c-p"], Limits(top=2))[0].edges.shape[1] < 1400
    monkeypatch.setattr(hetero, "MAX_ENTRIES", 1000)
    with pytest.raises(InputError, match=r"490,000 pairs.*--max-degree"):
        make_graph(data, "p", ["p-c-p"], Limits(top=2))
    data["p", "to", "p"].edge_index = torch.tensor([[0], [1]])
    with pytest.raises(InputError, match="490,000 pairs"):
        make_graph(data, "p", ["p-p"], bag="p-c-p")


# Files.


@pytest.fixture
def small():
    data = HeteroData()
    data["paper"].x, data["paper"].y = torch.rand(6, 3), torch.tensor([0, 1, -1, 1, 0, 1])
    data["paper"].train_mask, data["paper"].val_mask = torch.arange(6) < 2, torch.arange(6) == 3
    data["paper"].test_mask = torch.arange(6) > 3
    data["author"].num_nodes, data["venue"].y = 3, torch.tensor([1, 0])
    written = torch.tensor([[0, 0, 1, 1, 2, 2], [0, 1, 1, 2, 3, 4]])
    data["author", "writes", "paper"].edge_index = written
    data["paper", "written_by", "author"].edge_index = torch.tensor([[0, 1], [0, 0]])
    data["paper", "in", "venue"].edge_index = torch.tensor([[0, 1, 2, 3, 4], [0, 0, 0, 1, 1]])
    return data


def test_a_heterodata_becomes_a_task(small, tmp_path, capsys):
    torch.save(small, tmp_path / "hetero.pt")
    assert run("make", tmp_path / "hetero.pt", *PAPERS, "--out", tmp_path / "graph") == 0
    assert "paper-author-paper: 12 paths, 3 links" in capsys.readouterr().out
    task = shifts.find("file")(path=str(tmp_path / "graph"), open_set=False)
    torch.testing.assert_close(task.target.x, small["paper"].x)
    assert task.target.y.tolist() == small["paper"].y.tolist()
    assert (task.train.tolist(), task.val.tolist(), task.test.tolist()) == ([0, 1], [3], [4, 5])
    assert task.target.edge_index.T.tolist() == [[0, 1], [1, 0], [1, 2], [2, 1], [3, 4], [4, 3]]


def test_features_from_elsewhere(small, tmp_path):
    data = stored(small, tmp_path)
    made, told = make_graph(
        data,
        "author",
        ["author-paper-author", "author-paper-venue-paper-author"],
        bag="author-paper",
    )
    x = small["paper"].x.numpy()
    np.testing.assert_allclose(
        made.features.toarray(),
        [x[[0, 1]].mean(0), x[[1, 2]].mean(0), x[[3, 4]].mean(0)],
        rtol=1e-6,
    )
    assert made.labels == [] and made.edges.T.tolist() == [[0, 1]] and made.split is None
    assert "features: paper.x over author-paper" in told and "paper.train_mask" in told[-1]
    counted, told = make_graph(data, "author", ["author-paper-author"], bag="author-paper-venue")
    assert counted.features.toarray().tolist() == [[2, 0], [2, 0], [0, 2]]
    assert counted.words == ["0", "1"] and "features: number of paths author-paper-venue" in told
    for node, paths, key in (
        ("book", ["paper-author-paper"], "--node"),
        ("paper", [], "--metapath"),
        ("paper", ["paper-author"], "--metapath"),
        ("paper", ["paper-book-paper"], "book"),
        ("author", ["author-paper-author"], "--bag"),
    ):
        with pytest.raises(InputError, match=key):
            make_graph(data, node, paths)


class Trap:
    def __reduce__(self):
        return open, ("ran", "w")


def outside(data: HeteroData) -> HeteroData:
    data["author", "writes", "paper"].edge_index[0, 0] = 9
    return data


@pytest.mark.parametrize(
    "content",
    [
        lambda _: Trap(),
        lambda _: Data(x=torch.ones(2, 1)),
        lambda _: HeteroData(),
        lambda _: b"not a file of torch",
        outside,
    ],
)
def test_a_pt_file_that_contains_something_else(content, small, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path, content = tmp_path / "hetero.pt", content(small)
    path.write_bytes(content) if isinstance(content, bytes) else torch.save(content, path)
    assert run("make", path, *PAPERS, "--out", tmp_path / "graph") == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert [file.name for file in tmp_path.iterdir()] == ["hetero.pt"]


def test_fields_that_are_not_read_are_named(small, tmp_path):
    small["paper"].year, small["paper"].train_idx = torch.arange(6), torch.arange(2)
    small["paper", "in", "venue"].edge_weight = torch.rand(5)
    small.about = "words"
    _, told = make_graph(stored(small, tmp_path), "paper", ["paper-author-paper"])
    for name in ("about", "paper.year", "paper.train_idx", "venue').edge_weight"):
        assert name in told[-1] and told[-1].startswith("not read: ")
    del small["paper"].y
    _, told = make_graph(stored(small, tmp_path), "paper", ["paper-author-paper"])
    assert "paper.train_mask" in told[-1]


NAN = float("nan")


@pytest.mark.parametrize(
    "kind, field, value, told",
    [
        ("paper", "train_mask", torch.tensor([0, 1, 2, 3, 4, 5]), "train_mask"),
        ("paper", "train_mask", torch.arange(6) == 2, "node 2 has no label"),
        ("paper", "train_mask", torch.arange(6) == 5, "node 5 has no label, or is in another mask"),
        ("paper", "y", torch.tensor([0, 0.1, 0.9, 1, 0, 1]), "0.1"),
        ("paper", "y", torch.tensor([0, 1, -7, 1, 0, 1]), "-7"),
        ("paper", "x", torch.ones(5, 3), "lengths"),
        ("paper", "x", torch.full((6, 1), NAN), "NaN"),
        ("paper", "ids", ["a"] * 6, "twice"),
        ("paper", "text", [1, 2, 3, 4, 5, None], "texts"),
        ("author", "num_nodes", 2, "larger"),
        ("author", "num_nodes", 10**9, "GiB"),
        ("author", "num_nodes", None, "num_nodes"),
    ],
)
def test_bad_fields_are_refused(kind, field, value, told, small, tmp_path):
    small[kind][field] = value
    if value is None:
        del small[kind][field]
    with pytest.raises(InputError) as caught:
        make_graph(stored(small, tmp_path), "paper", ["paper-author-paper"])
    assert told in str(caught.value)


def test_the_example_of_the_four_area_files(tmp_path, capsys, monkeypatch):
    for name, content in {
        "author.txt": '10\tAnn "A" O\'Hara\n20\tBob\n30\tCy\n40\tJosé\n',
        "paper.txt": '1\tGraph networks\n2\tGraph "mining\n3\tQuery plans\n4\tQuery\n5\tAlone\n',
        "paper_author.txt": "1\t10\n1\t20\n2\t20\n3\t30\n4\t30\n4\t40\n4\t99\n",
        "author_label.txt": "10\t1\tAnn\n30\t0\tCy\n77\t0\tNobody\n",
    }.items():
        (tmp_path / name).write_bytes(content.encode("latin-1" if "é" in content else "utf-8"))
    monkeypatch.setattr(sys, "argv", [str(EXAMPLE), str(tmp_path), str(tmp_path / "hetero.pt")])
    runpy.run_path(str(EXAMPLE), run_name="__main__")
    told, out = capsys.readouterr().out, tmp_path / "graph"
    for name in ("paper_author.txt", "author_label.txt"):
        assert f"{name}: 1 lines with unknown ids left out" in told
    authors = ("--node", "author", "--metapath", "author-paper-author", "--bag", "author-paper")
    assert run("make", tmp_path / "hetero.pt", *authors, "--min-nodes", 1, "--out", out) == 0
    nodes = [["10", 'Ann "A" O\'Hara'], ["20", "Bob"], ["30", "Cy"], ["40", "José"]]
    assert rows_of(out / "nodes.csv") == [["id", "text"], *nodes]
    assert rows_of(out / "edges.csv")[1:] == [["0", "1"], ["2", "3"]]
    assert rows_of(out / "labels.csv")[1:] == [["0", "1"], ["2", "0"]]
    words = (out / "words.txt").read_text().split()
    assert words == ["graph", "mining", "networks", "plans", "query"]


def test_a_folder_is_no_graph(tmp_path, capsys):
    assert run("make", tmp_path, "--out", tmp_path / "made") == 2
    assert "is not a graph" in capsys.readouterr().err
