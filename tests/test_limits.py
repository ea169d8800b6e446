"""Content that does not fit into memory is refused, and fields of a graph are read or named."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from conftest import make_graph
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch_geometric.data import HeteroData

from graphgym_srnc import shifts
from graphgym_srnc.data import files, limits, read
from graphgym_srnc.data.describe import describe
from graphgym_srnc.errors import InputError

GRAPH = make_graph()
FIELDS = {"x": GRAPH.x, "edge_index": GRAPH.edge_index, "y": GRAPH.y}
NUM_NODES = len(GRAPH.x)
SIZES = {"labels_per_class": 3, "num_val": 6, "num_test": 9}
ZEROS = torch.zeros(2**16, 128)  # 32 MiB


def deflated(path: Path) -> None:
    """Save as torch does, with compressed members."""
    out = io.BytesIO()
    torch.save(FIELDS | {"x": ZEROS}, out)
    with (
        zipfile.ZipFile(out) as archive,
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as packed,
    ):
        for name in archive.namelist():
            packed.writestr(name, archive.read(name))


def sparse(path: Path) -> None:
    shape = NUM_NODES, 2**28
    x = torch.sparse_coo_tensor(torch.zeros(2, 1, dtype=torch.long), torch.ones(1), shape)
    torch.save(FIELDS | {"x": x}, path)


def excel(path: Path) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("more", bytes(2**25))


HOSTILE: dict[str, Any] = {
    "deflated.pt": deflated,
    "expanded.pt": lambda path: torch.save(FIELDS | {"x": torch.zeros(1).expand(9**9, 9)}, path),
    "coo.pt": sparse,
    "deflated.npz": lambda path: np.savez_compressed(path, **FIELDS | {"x": ZEROS}),
    "zeros.xlsx": excel,
}
"""What takes at least 32 MiB once it is read, in less than 0.5 MB."""


@pytest.mark.parametrize("name", HOSTILE)
def test_a_small_file_is_refused(name, tmp_path, monkeypatch):
    """It is refused before its content takes memory."""
    HOSTILE[name](tmp_path / name)
    assert (tmp_path / name).stat().st_size < 500_000
    monkeypatch.setattr(limits, "_memory", lambda: 2**24)
    read_it = read.table if name.endswith(".xlsx") else files.load
    with pytest.raises(InputError, match=f"^{name}: .*GiB of memory.*this machine has"):
        read_it(tmp_path / name)


OTHERS = {
    "edge_weight": torch.ones(GRAPH.num_edges),
    "edge_attr": torch.rand(GRAPH.num_edges, 2),
    "label_names": ["a", "b"],
    "meta": {"x": torch.zeros(1)},
    "val_mask": torch.arange(NUM_NODES) < 20,
    "train_idx": torch.arange(20),
    "num_nodes": NUM_NODES,
    7: "seven",
}


@settings(
    max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.sets(st.sampled_from([*OTHERS])), st.booleans())
def test_a_field_is_read_or_named(tmp_path, names, masks):
    """Without a train_mask, a val_mask is not read."""
    train = {"train_mask": torch.arange(NUM_NODES) >= NUM_NODES // 2} if masks else {}
    torch.save(FIELDS | train | {name: OTHERS[name] for name in names}, tmp_path / "a.pt")
    read = {"num_nodes", "edge_weight"} | ({"val_mask"} if masks else set())
    warnings = describe(shifts.find("file")(path=str(tmp_path / "a.pt"), **SIZES))["notes"]
    named = "".join(text for text in warnings if text.startswith("not read: "))
    assert {name for name in names if str(name) in named.split(";")[0]} == names - read
    assert ("read from edge_weight alone" in named) == ("edge_attr" in names)


def test_other_objects_are_refused_with_a_way_out(tmp_path):
    nested = {"graph": {"edge_index": GRAPH.edge_index, "node_feat": GRAPH.x}, "label": GRAPH.y}
    hetero = HeteroData()
    hetero["paper"].x = GRAPH.x
    for content, words in (
        (nested, "no x and no edge_index and no y; it has graph and label"),
        (hetero, "it contains torch_geometric.*Of a HeteroData.*AddMetaPaths"),
        ((1, 2), "contains a int"),
    ):
        torch.save(content, tmp_path / "a.pt")
        with pytest.raises(InputError, match=words):
            shifts.find("file")(path=str(tmp_path / "a.pt"))
