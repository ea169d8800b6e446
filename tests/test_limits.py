"""Small files that stand for much memory are refused, and fields of a graph are read or named."""

from __future__ import annotations

import gzip
import io
import zipfile
from pathlib import Path
from typing import Any, Callable

import numpy as np
import pandas
import psutil
import pytest
import torch
from conftest import make_graph
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch_geometric.data import Data, HeteroData

from graphgym_srnc import shifts
from graphgym_srnc.data import files, limits, read
from graphgym_srnc.data.describe import describe
from graphgym_srnc.errors import InputError

GRAPH = make_graph()
FIELDS = {"x": GRAPH.x, "edge_index": GRAPH.edge_index, "y": GRAPH.y}
NUM_NODES = len(GRAPH.x)
SIZES = {"labels_per_class": 3, "num_val": 6, "num_test": 9}
ZEROS = torch.zeros(2**25)  # 128 MiB
MIB = 2**20


def deflated(content: dict[str, Any], path: Path) -> None:
    """Save as torch does, with compressed members."""
    out = io.BytesIO()
    torch.save(content, out)
    with (
        zipfile.ZipFile(out) as archive,
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as packed,
    ):
        for name in archive.namelist():
            packed.writestr(name, archive.read(name))


def excel(path: Path, zeros: int = 0) -> None:
    import openpyxl

    book = openpyxl.Workbook()
    for row in (("id", "words"), ("a", "one"), ("b", "two")):
        book.active.append(row)
    book.active["ZZ1048576"] = "far"
    book.save(path)
    with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("more", bytes(zeros))


def sparse() -> torch.Tensor:
    node, shape = torch.zeros(2, 1, dtype=torch.long), (NUM_NODES, 2**28)
    return torch.sparse_coo_tensor(node, torch.ones(1), shape)


def gzipped(path: Path, line: bytes, count: int) -> None:
    with gzip.open(path, "wb", 1) as file:
        file.write(b"id,words\n" + line * count)


def saved(**changes: Any) -> Callable[[Path], None]:
    return lambda path: torch.save(FIELDS | changes, path)


def parquet(ids: Any, words: Any) -> Callable[[Path], None]:
    return lambda path: pandas.DataFrame({"id": ids, "words": words}).to_parquet(path)


BYTES = np.zeros(10**7, np.int8)
HOSTILE: dict[str, Callable[[Path], Any]] = {
    "deflated.pt": lambda path: deflated(FIELDS | {"x": ZEROS.view(-1, 128)}, path),
    "expanded.pt": saved(x=torch.zeros(1, 1).expand(10**9, 100)),
    "coo.pt": saved(x=sparse()),
    "deflated.npz": lambda path: np.savez_compressed(path, **FIELDS | {"x": ZEROS.view(-1, 128)}),
    "zeros.xlsx": lambda path: excel(path, 2**28),
    "rows.parquet": parquet(BYTES, BYTES),
    "zeros.csv.gz": lambda path: gzipped(path, b"0" * 2**10, 2**18),
    "wide.csv": lambda path: path.write_text("," * 20000 + "\n" + "1\n" * 20000),
}
"""What takes more than 128 MiB once it is read, in less than 2 MB."""


@pytest.mark.parametrize("name", HOSTILE)
def test_a_small_file_is_refused(name, tmp_path, monkeypatch):
    """It is refused before its content takes memory."""
    import pyarrow.parquet  # noqa: F401

    resource = pytest.importorskip("resource")
    monkeypatch.setenv(limits.OPTION, "0.1")
    HOSTILE[name](tmp_path / name)
    assert (tmp_path / name).stat().st_size < 2_000_000
    read_it = files.load if name.endswith((".pt", ".npz")) else read.table
    used = psutil.Process().memory_info().vms
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (used + 400 * MIB, before[1]))
    try:
        with pytest.raises(InputError, match=f"^{name}: .*GiB of memory.*{limits.OPTION}"):
            read_it(tmp_path / name)
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


def test_the_limit_can_be_raised(tmp_path, monkeypatch):
    for value in ("nan", "-1", "many"):
        monkeypatch.setenv(limits.OPTION, value)
        with pytest.raises(InputError, match=limits.OPTION):
            limits.check("a.pt", 1, 1)
    deflated(FIELDS | {"other": torch.zeros(MIB)}, tmp_path / "a.pt")
    monkeypatch.setenv(limits.OPTION, "0.001")
    with pytest.raises(InputError, match="to 1 or more"):
        files.load(tmp_path / "a.pt")
    monkeypatch.setenv(limits.OPTION, "1")
    assert len(files.load(tmp_path / "a.pt")[0]["other"]) == MIB


def test_files_as_large_as_their_content_are_read(tmp_path, monkeypatch):
    monkeypatch.setenv(limits.OPTION, "0")
    rng = np.random.default_rng(0)
    x = rng.random((1000, 50), dtype=np.float32)
    graph = FIELDS | {"x": torch.tensor(x)[:NUM_NODES].T.contiguous().T}
    for name, fields in (("plain", graph), ("sparse", graph | {"x": graph["x"].to_sparse()})):
        torch.save(fields, tmp_path / f"{name}.pt")
        assert shifts.find("file")(path=str(tmp_path / f"{name}.pt"), **SIZES).target.x.shape
    np.savez(tmp_path / "a.npz", **graph)
    files.load(tmp_path / "a.npz")
    np.savez_compressed(tmp_path / "b.npz", **graph)
    files.load(tmp_path / "b.npz")
    table = pandas.DataFrame({"id": range(1000), "words": [f"word {cell}" for cell in x[:, 0]]})
    table.to_parquet(tmp_path / "a.parquet")
    table.to_csv(tmp_path / "a.csv", index=False)
    table.to_csv(tmp_path / "a.csv.gz", index=False)
    table.to_excel(tmp_path / "a.xlsx", index=False)
    for name in ("a.parquet", "a.csv", "a.csv.gz", "a.xlsx"):
        read.table(tmp_path / name)


def test_features_on_disk_have_no_limit(tmp_path, monkeypatch):
    x = np.zeros((NUM_NODES, 100), np.float32)
    np.save(tmp_path / "features.npy", x)
    np.save(tmp_path / "edges.npy", GRAPH.edge_index.numpy())
    (tmp_path / "labels.csv").write_text("\n".join(map(str, GRAPH.y.tolist())))
    monkeypatch.setattr(psutil, "virtual_memory", lambda: type("", (), {"total": x.nbytes - 1}))
    with pytest.raises(InputError, match="this machine has"):
        files.load(tmp_path)
    assert files.load(tmp_path, mapped=True)[0]["x"].shape == x.shape


def told(path: Path) -> list[str]:
    task = shifts.find("file")(path=str(path), **SIZES)
    return [text for text in describe(task)["notes"] if text.startswith("not read: ")]


IDS = {"train": torch.arange(20), "valid": torch.arange(20, 30), "test": torch.arange(30, 50)}


@pytest.mark.parametrize("kind", ["split_idx", "valid_idx"])
def test_node_ids_are_the_split(kind, tmp_path):
    ids = IDS["train"], IDS["valid"], IDS["test"]
    split = {"split_idx": IDS} if kind == "split_idx" else dict(zip(("train_idx", kind), ids))
    split |= {"test_idx": IDS["test"]} if kind != "split_idx" else {}
    torch.save(FIELDS | split, tmp_path / "a.pt")
    if kind != "split_idx":
        np.savez(tmp_path / "a.npz", **FIELDS | split)
    for path in tmp_path.iterdir():
        task = shifts.find("file")(path=str(path))
        assert task.info["split"] == "given" and not told(path)
        for nodes, expected in zip((task.train, task.val, task.test), ids):
            assert torch.equal(nodes.sort().values, expected)


def test_node_ids_that_are_none_are_refused(tmp_path):
    nodes = torch.arange(NUM_NODES)
    for ids in (nodes + NUM_NODES, nodes - 1, torch.ones(3), nodes < 9, torch.zeros(2, 2).long()):
        torch.save(FIELDS | {"train_idx": ids}, tmp_path / "a.pt")
        with pytest.raises(InputError, match=f"train_idx.*Give node ids from 0 to {NUM_NODES - 1}"):
            shifts.find("file")(path=str(tmp_path / "a.pt"))


OTHERS = {
    "edge_weight": torch.rand(GRAPH.num_edges),
    "edge_attr": torch.rand(GRAPH.num_edges, 2),
    "node_weight": torch.rand(NUM_NODES),
    "label_names": ["a", "b"],
    "y2": GRAPH.y,
    "meta": {"x": torch.zeros(1)},
    "val_mask": torch.arange(NUM_NODES) < 20,
    "train_idx": IDS["train"],
    "num_nodes": NUM_NODES,
    7: "seven",
}


@settings(
    max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.sets(st.sampled_from([*OTHERS])), st.booleans())
def test_a_field_is_read_or_named(tmp_path, names, masks):
    """Without a train_mask, a val_mask is not read; with any mask, ids are not read."""
    train = {"train_mask": torch.arange(NUM_NODES) >= NUM_NODES // 2} if masks else {}
    torch.save(FIELDS | train | {name: OTHERS[name] for name in names}, tmp_path / "a.pt")
    read = {"num_nodes", "val_mask"} if masks else {"num_nodes"}
    if not masks and "val_mask" not in names:
        read.add("train_idx")
    named = "".join(told(tmp_path / "a.pt"))
    assert {name for name in names if str(name) in named} == names - read
    assert ("edge weights are not used" in named) == bool({"edge_weight", "edge_attr"} & names)


def test_other_objects_are_refused_with_a_way_out(tmp_path):
    nested = {"graph": {"edge_index": GRAPH.edge_index, "node_feat": GRAPH.x}, "label": GRAPH.y}
    hetero = HeteroData()
    hetero["paper"].x = GRAPH.x
    for content, words in (
        (nested, "no x and no edge_index and no y; it has graph .edge_index and node_feat"),
        (hetero, "a HeteroData. Join nodes of one type by torch_geometric.*AddMetaPaths"),
        ((Data(**FIELDS), None), "contains a tuple"),
    ):
        torch.save(content, tmp_path / "a.pt")
        with pytest.raises(InputError, match=words):
            shifts.find("file")(path=str(tmp_path / "a.pt"))
