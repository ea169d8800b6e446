"""Small data sets, written as the files that their publishers distribute."""

from __future__ import annotations

import gzip
import os
import pickle
import random
from collections import defaultdict
from pathlib import Path
from typing import Any, Callable

import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp
import torch
from torch_geometric.data import Data

from graphgym_srnc import shifts
from graphgym_srnc.core.task import ShiftTask

CITATION = {"acmv9": 100, "citationv1": 80, "dblpv7": 60}
BLOG = {"Blog1": 90, "Blog2": 70}
OCNNC = {"citation-v1": 90, "dblp-v4": 72, "acm-v8": 81}
WORDS = 12
"""Numbers of nodes and of words of the networks that :func:`citation` and :func:`ocnnc` write."""


def graph(num_nodes: int, num_classes: int, num_features: int = 40, seed: int = 0) -> Data:
    """A homophilous graph whose features tell the class; all labels visible."""
    sizes = {"num_nodes": num_nodes, "num_classes": num_classes, "num_features": num_features}
    sizes |= {"num_unseen": 0, "num_val": 10, "num_test": 10, "labels_per_class": 5}
    made = shifts.find("synthetic")(**sizes, split_seed=seed).target
    return Data(x=made.x, edge_index=made.edge_index, y=made.y_true, num_nodes=num_nodes)


def graph_folder(folder: Path, data: Data) -> Path:
    """Write edges, labels and features as a graph folder without names; returns ``folder``."""
    folder.mkdir(exist_ok=True)
    for name, rows in (("features", data.x), ("labels", data.y)):
        np.save(folder / f"{name}.npy", rows.numpy())
    lines = [f"{source},{target}\n" for source, target in data.edge_index.T.tolist()]
    (folder / "edges.csv").write_text("from,to\n" + "".join(lines))
    return folder


def planetoid(folder: Path, name: str, num_classes: int, num_nodes: int = 820) -> None:
    """``ind.<name>.*``: 20 labelled nodes a class, then 500 for validation, the last 100 test."""
    raw = folder / "planetoid" / name / "raw"
    raw.mkdir(parents=True)
    data = graph(num_nodes, num_classes)
    first = np.concatenate([np.flatnonzero(data.y.numpy() == c)[:20] for c in range(num_classes)])
    order = np.concatenate([first, np.setdiff1d(np.arange(num_nodes), first)])
    place = np.argsort(order)
    x = sp.csr_matrix(data.x.numpy()[order])
    y = np.eye(num_classes)[data.y.numpy()[order]]
    neighbours = defaultdict(list)
    for one, other in place[data.edge_index.numpy()].T.tolist():
        neighbours[one].append(other)
    train = len(first)
    rest = num_nodes - 100
    parts = {"x": x[:train], "y": y[:train], "allx": x[:rest], "ally": y[:rest]}
    parts |= {"tx": x[rest:], "ty": y[rest:], "graph": neighbours}
    for part, value in parts.items():
        (raw / f"ind.{name.lower()}.{part}").write_bytes(pickle.dumps(value, 2))
    (raw / f"ind.{name.lower()}.test.index").write_text(
        "".join(f"{node}\n" for node in range(rest, num_nodes))
    )


def npz(
    folder: Path, place: str, num_classes: int, num_nodes: int = 300, num_features: int = 20
) -> Path:
    """The sparse ``.npz`` of Amazon and Coauthor graphs at ``place`` below ``folder``."""
    return npz_of(graph(num_nodes, num_classes, num_features), folder / place)


def npz_of(data: Data, file: Path) -> Path:
    """A graph as the sparse ``.npz`` of Amazon and Coauthor graphs."""
    ones = np.ones(data.num_edges)
    shape = (data.num_nodes, data.num_nodes)
    adjacency = sp.csr_matrix((ones, data.edge_index.numpy()), shape=shape)
    arrays = {
        f"{key}_{part}": getattr(matrix, part)
        for key, matrix in {"attr": sp.csr_matrix(data.x.numpy()), "adj": adjacency}.items()
        for part in ("data", "indices", "indptr", "shape")
    }
    file.parent.mkdir(parents=True, exist_ok=True)
    np.savez(file, labels=data.y.numpy(), **arrays)
    return file


def citation_network(name: str, classes: int = 5) -> dict[str, Any]:
    """The fields of ``<name>.mat``; one edge has one direction, one is a self-loop, and node 0 has
    labels 1 and 3."""
    rng = np.random.RandomState(len(name))
    nodes = {**CITATION, **BLOG}[name]
    group = np.eye(classes, dtype=np.uint8)[np.arange(nodes) % classes]
    group[0] = np.isin(np.arange(classes), [1, 3])
    full = _random_network(nodes, rng).astype(float)
    full[0, 1] = 1
    full[1, 0] = 0
    full[2, 2] = 1
    return {
        "network": sp.csc_matrix(full),
        "group": group,
        "attrb": rng.poisson(0.5, (nodes, WORDS)).astype(np.uint8),
    }


def ocnnc_network(name: str) -> dict[str, Any]:
    """The fields of ``<name>.mat`` with nine classes; one edge is a self-loop."""
    rng = np.random.RandomState(len(name))
    nodes = OCNNC[name]
    full = _random_network(nodes, rng).astype(np.uint8)
    full[2, 2] = 1
    return {
        "adjacency_matrix": sp.csc_matrix(full),
        "features": sp.csc_matrix(rng.poisson(0.5, (nodes, WORDS))),
        "labels": np.arange(nodes, dtype=np.int32)[None] % 9,
    }


def citation(folder: Path) -> None:
    """``citation/<name>.mat`` of the three networks."""
    _matlab(folder / "citation", {name: citation_network(name) for name in CITATION})


def blog(folder: Path) -> None:
    """``blog/<name>.mat`` of both networks."""
    _matlab(folder / "blog", {name: citation_network(name, 6) for name in BLOG})


def mag(folder: Path, *countries: str) -> dict[str, Data]:
    """``mag/MAG_<country>_labels_20.pt``, a graph that ``torch.save`` wrote; returns the graphs."""
    (folder / "mag").mkdir()
    made = {}
    for seed, country in enumerate(countries):
        data = made[country] = graph(120, 4, 16, seed)
        data.train_mask = torch.arange(120) < 60
        torch.save(data, folder / "mag" / f"MAG_{country}_labels_20.pt")
    return made


def ocnnc(folder: Path) -> None:
    """``ocnnc/<name>.mat`` of the three networks."""
    _matlab(folder / "ocnnc", {name: ocnnc_network(name) for name in OCNNC})


def arxiv(folder: Path, x: np.ndarray, edges: np.ndarray, y: np.ndarray, years: np.ndarray) -> Path:
    """The raw files and the split of ogbn-arxiv as ogb unpacks them; returns ``folder``.

    Args:
        folder: the data folder.
        x, edges: ``[V, F]``, and ``[E, 2]`` from a paper to one that it cites.
        y, years: ``[V]``; the last node is the test set, the one before it validates.
    """
    count = len(y)
    order = np.arange(count)
    tables = {
        "raw/edge": edges,
        "raw/node-feat": x,
        "raw/node-label": y[:, None],
        "raw/num-node-list": [[count]],
        "raw/num-edge-list": [[len(edges)]],
        "raw/node_year": years[:, None],
        "split/time/train": order[:-2, None],
        "split/time/valid": order[-2:-1, None],
        "split/time/test": order[-1:, None],
    }
    for name, table in tables.items():
        path = folder / "ogb" / "ogbn_arxiv" / f"{name}.csv.gz"
        path.parent.mkdir(parents=True, exist_ok=True)
        with gzip.open(path, "wt", compresslevel=1) as file:
            np.savetxt(file, np.asarray(table), fmt="%g", delimiter=",")
    return folder


def networks(folder: Path) -> None:
    """The raw files of two airport networks, of two Twitch networks and of Elliptic."""
    for name, nodes in (("usa", 60), ("brazil", 40)):
        made = graph(nodes, 4)
        raw = folder / "airports" / name / "raw"
        raw.mkdir(parents=True)
        lines = "".join(f"{7 * v} {c}\n" for v, c in enumerate(made.y.tolist()))
        (raw / f"labels-{name}-airports.txt").write_text(f"node label\n{lines}")
        links = "".join(f"{7 * a} {7 * b}\n" for a, b in made.edge_index.T.tolist())
        (raw / f"{name}-airports.edgelist").write_text(links)
    for seed, name in enumerate(("DE", "EN")):
        made = graph(80, 2, 16, seed)
        raw = folder / "twitch" / name / "raw"
        raw.mkdir(parents=True)
        arrays = {"features": made.x, "target": made.y, "edges": made.edge_index.T}
        np.savez(raw / f"{name}.npz", **{key: value.numpy() for key, value in arrays.items()})
    made = graph(120, 3, 6)
    raw = folder / "ellipticbitcoindataset" / "raw"
    raw.mkdir(parents=True)
    ids = 1000 + np.arange(120)
    steps = np.arange(120) % 4 * 5 + 30  # 30, 35, 40 and 45
    table = np.column_stack([ids, steps, made.x.numpy()])
    np.savetxt(raw / "elliptic_txs_features.csv", table, fmt="%g", delimiter=",")
    labels = zip(ids, made.y.tolist())
    rows = "".join(f"{id},{('2', '1', 'unknown')[label]}\n" for id, label in labels)
    (raw / "elliptic_txs_classes.csv").write_text(f"txId,class\n{rows}")
    links = "".join(f"{ids[a]},{ids[b]}\n" for a, b in made.edge_index.T.tolist() if a < b)
    (raw / "elliptic_txs_edgelist.csv").write_text(f"txId1,txId2\n{links}")


def all_of_them(folder: Path) -> Path:
    """Every data set that a shipped config names; returns ``folder``.

    The readers know the real sizes, so ``nodes`` and ``words`` of ``networks.CITATION``,
    ``networks.BLOG`` and ``networks.OCNNC`` have to be those of this module. Planetoid's files have
    other checksums than the public ones.
    """
    for name, num_classes in (("Cora", 7), ("CiteSeer", 6), ("PubMed", 3)):
        planetoid(folder, name, num_classes)
    npz(folder, "amazon/Photo/raw/amazon_electronics_photo.npz", 8, num_nodes=900)
    npz(folder, "coauthor/CS/raw/ms_academic_cs.npz", 15, num_nodes=1200)
    citation(folder)
    blog(folder)
    mag(folder, "US", "CN")
    ocnnc(folder)
    networks(folder)
    for name, classes in (("tolokers-2", 2), ("hm-categories", 4), ("web-topics", 5)):
        graphland(folder, name, classes=classes)
    years = np.repeat([2008, 2013, 2016, 2018, 2020], [60, 50, 50, 60, 40])
    papers = graph(len(years), 4, 16)
    order = np.random.RandomState(0).permutation(len(years))
    x = papers.x.numpy().round(3)
    edges = papers.edge_index.numpy().T
    arxiv(folder, x, edges, papers.y.numpy(), years[order])
    own = folder / "own"
    own.mkdir()
    mine = graph(200, 4)
    np.save(own / "features.npy", mine.x.numpy())
    np.save(own / "edges.npy", mine.edge_index.numpy())
    labels = np.where(np.arange(200) < 60, mine.y.numpy(), -1)
    np.save(own / "labels.npy", labels)
    return folder


def _matlab(folder: Path, files: dict[str, dict[str, Any]]) -> None:
    folder.mkdir(parents=True)
    for name, fields in files.items():
        scipy.io.savemat(folder / f"{name}.mat", fields, do_compression=True)


def _random_network(nodes: int, rng: np.random.RandomState) -> np.ndarray:
    upper = np.triu(rng.random_sample((nodes, nodes)) < 0.1, 1)
    return upper | upper.T


# What tests of shifts share.

DATA = Path(os.environ.get("GRAPHGYM_SRNC_DATA") or Path(__file__).parents[2] / "shared" / "data")
"""The data folder with the real files, if there is one."""


def real(place: str) -> pytest.MarkDecorator:
    """Skip a test unless the data folder has a real file or folder."""
    return pytest.mark.skipif(
        not (DATA / place).exists(), reason=f"no published files {place} in {DATA}"
    )


def equal(a: ShiftTask, b: ShiftTask) -> bool:
    """Whether two tasks and their oracles are the same."""
    oracles = [task.oracle and task.oracle.fingerprint() for task in (a, b)]
    return a.fingerprint() == b.fingerprint() and oracles[0] == oracles[1]


def overlap(*parts: torch.Tensor) -> bool:
    """Whether a node is in several parts."""
    every = torch.cat(parts)
    return len(every.unique()) < len(every)


def decided_by_its_seed(build: Callable[..., ShiftTask], **options: Any) -> None:
    """Check that a shift depends on its seed and leaves the global generators alone."""
    torch.manual_seed(1), np.random.seed(1), random.seed(1)
    states = torch.get_rng_state(), np.random.get_state()[1].copy(), random.getstate()
    first = build(split_seed=3, **options)
    assert torch.equal(states[0], torch.get_rng_state()) and states[2] == random.getstate()
    assert (states[1] == np.random.get_state()[1]).all()
    torch.manual_seed(2)
    assert equal(first, build(split_seed=3, **options))
    assert not equal(first, build(split_seed=4, **options))


def unreachable(*_: Any, **__: Any) -> None:
    """A network that does not answer."""
    raise OSError("no network")


def graphland(folder: Path, name: str = "tolokers-2", nodes: int = 240, classes: int = 2) -> Data:
    """The files of a graph of GraphLand with its split over time; returns the graph.

    A tenth of the nodes have no label, and some numbers are missing. Columns are a number, a
    fraction and a category.
    """
    made = graph(nodes, classes)
    raw = folder / "graphlanddataset" / name / "raw" / name
    raw.mkdir(parents=True)
    rng = np.random.RandomState(0)
    number = np.arange(nodes)
    noise = rng.normal(size=nodes)
    columns = {
        "size": np.where(rng.rand(nodes) < 0.05, np.nan, made.y + noise).round(4),
        "share": rng.rand(nodes).round(4),
        "kind": (made.y.numpy() + (rng.rand(nodes) < 0.2)) % classes,
    }
    rows = zip(number, *columns.values())
    text = "".join(f"{i},{'' if np.isnan(a) else a},{b},{c}\n" for i, a, b, c in rows)
    (raw / "features.csv").write_text(f"node_id,{','.join(columns)}\n{text}")
    labels = [f"{i},{'' if i % 10 == 9 else float(made.y[i])}\n" for i in number]
    (raw / "targets.csv").write_text(f"node_id,group\n{''.join(labels)}")
    ends = nodes // 2, 3 * nodes // 4
    parts = [(i < ends[0], ends[0] <= i < ends[1], i >= ends[1]) for i in number]
    for split in ("TH", "RL"):
        masks = "".join(f"{i},{a},{b},{c}\n" for i, (a, b, c) in zip(number, parts))
        (raw / f"split_masks_{split}.csv").write_text(f"node_id,train,val,test\n{masks}")
    links = "".join(f"{a},{b}\n" for a, b in made.edge_index.T.tolist() if a < b)
    (raw / "edgelist.csv").write_text(f"source,target\n{links}")
    (raw / "info.yaml").write_text(
        "task: binary_classification\ntarget_name: group\n"
        "numerical_features_names: [size, share]\nfraction_features_names: [share]\n"
        "categorical_features_names: [kind]\n"
    )
    return made


class Trap:
    """Pickled, it makes an empty file when it is read."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple:
        return Path.touch, (self.mark,)
