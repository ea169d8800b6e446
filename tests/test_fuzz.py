"""Damaged files, and names, indices and YAML of strangers; ``benchmarks/faults.py`` tries more."""

from __future__ import annotations

import contextlib
import csv
import io
import tempfile
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from conftest import NO_PICTURES, make_graph
from hypothesis import given, settings
from hypothesis import strategies as st
from stored import Page

from graphgym_srnc import shifts
from graphgym_srnc.cli.main import main
from graphgym_srnc.errors import InputError
from graphgym_srnc.io.settings import plain_yaml

pytestmark = pytest.mark.filterwarnings("ignore")


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(["a.pt", "a.npz", "labels.csv", "edges.csv", "features.csv"]),
    st.floats(0, 1),
    st.integers(0, 40),
    st.one_of(st.binary(max_size=8), st.sampled_from([b"\0", b"1_0", b"1e999", b"9" * 30, b'"'])),
)
def test_a_damaged_graph_is_read_or_refused(name, place, cut, new):
    graph = make_graph(30, 3, 4)
    fields = {"x": graph.x, "edge_index": graph.edge_index, "y": graph.y}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, name)
        if name == "a.pt":
            torch.save(fields, file)
        elif name == "a.npz":
            np.savez(file, **fields)
        else:
            tables = {"features": graph.x, "edges": graph.edge_index.T, "labels": graph.y}
            for stem, table in tables.items():
                np.savetxt(file.with_name(f"{stem}.csv"), table, fmt="%g", delimiter=",")
        content = file.read_bytes()
        begin = int(place * len(content))
        file.write_bytes(content[:begin] + new + content[begin + cut :])
        with contextlib.suppress(InputError):
            path = file if name.startswith("a.") else file.parent
            shifts.find("file")(path=str(path), labels_per_class=2, num_val=3, num_test=3)


@pytest.mark.usefixtures("without_figures")
def test_names_of_strangers_steer_nothing(tmp_path, unchanged_globals, monkeypatch, capsys):
    """Classes, words, ids, titles and experiments with markup, formulas and commands, through a run
    and all that is made of it."""
    classes = [
        "<script>alert(1)</script>|x",
        "=cmd()|'/C calc'!A0",
        "$\\nosuch{\\input{/etc/passwd}$",
        "\x1b[31m@SUM(1)\u202e",
    ]
    graph = make_graph(120, 4, 6)
    folder = tmp_path / "graph"
    folder.mkdir()
    np.save(folder / "features.npy", graph.x.numpy())
    for name, rows in {
        "edges.csv": [("from", "to"), *graph.edge_index.T.tolist()],
        "nodes.csv": [("id",), *((f"=1+{node}",) for node in range(120))],
        "labels.csv": [
            ("node", "label"),
            *((node, classes[label]) for node, label in enumerate(graph.y.tolist())),
        ],
    }.items():
        with open(folder / name, "w", encoding="utf-8", newline="") as file:
            csv.writer(file).writerows(rows)
    monkeypatch.chdir(tmp_path)
    sizes = (
        "file.num_val 30 file.num_test 40 file.labels_per_class 5 file.num_unseen 1 "
        "gnn.dim_inner 8 train.mode erm erm.steps 2"
    ).split()
    data = ("dataset.format", "file", "dataset.name", "graph", *sizes)
    assert main(["run", "--name", "=<b>", "--out-dir", "out", *data]) == 2
    out = "out{{7*7}}"
    for words in (
        ["run", *NO_PICTURES, "--name", "=b", "--out-dir", out, *data],
        ["compare", out, "--out", "a.tex"],
        ["compare", out, "--out", "a.csv"],
        ["compare", out, "--out", "a.md"],
        ["report", out, "--out", "a.html"],
        ["predict", f"{out}/=b", "--out", "predicted.csv", "--probabilities"],
        ["data", "show", *data],
    ):
        assert main(words) == 0
    made = {
        path.name: path.read_text(encoding="utf-8")
        for path in tmp_path.rglob("*")
        if path.suffix in (".csv", ".md", ".html", ".tex", ".tsv") and folder not in path.parents
    }
    # predicted.csv has the names as they are.
    shown = [content for name, content in made.items() if name != "predicted.csv"]
    assert "\x1b" not in "".join([*shown, *capsys.readouterr()]) and len(shown) >= 6
    for name in ("summary.csv", "a.csv", "predicted.csv"):
        cells = [cell for row in csv.reader(io.StringIO(made[name])) for cell in row]
        assert cells and not any(map(is_formula, cells)), name
    page = Page(made["a.html"])
    assert not page.all("script")
    assert not [key for _, found in page.tags for key in found if key.startswith("on")]
    assert "<script" not in made["a.md"] + made["summary.md"] and "\\input" not in made["a.tex"]


def is_formula(cell: str) -> bool:
    try:
        return bool(cell) and cell[0] in "=+@\t\r-" and float(cell) is None
    except ValueError:
        return True


def test_indices_outside_their_matrix_are_refused(tmp_path):
    """SciPy and torch would read and write there."""
    graph = make_graph(30, 3, 4)
    fields = {"x": graph.x, "edge_index": graph.edge_index, "y": graph.y}
    lost = sp.csr_matrix(fields["x"].numpy())
    lost.indices[-1] = 10**8
    places = torch.tensor([[0, 10**12]] * 2)
    ones = torch.ones(2)
    wild = torch.sparse_coo_tensor(places, ones, graph.x.shape, check_invariants=False)
    torch.save(fields | {"x": wild}, tmp_path / "a.pt")
    folder = tmp_path / "folder"
    folder.mkdir()
    np.save(folder / "edges.npy", graph.edge_index)
    np.save(folder / "labels.npy", graph.y)
    sp.save_npz(folder / "features.npz", lost)
    for place in (tmp_path / "a.pt", folder):
        with pytest.raises(InputError):
            shifts.find("file")(path=str(place))


@pytest.mark.parametrize(
    "bomb",
    [
        "a: &a [x]\nb: [*a, *a]",
        "a: {<<: &a {b: 1}, c: *a}",
        "[" * 1000,
        "a: \0",
        "a: 1\nb: 2\na: 3",
        *(f"a: {tagged}" for tagged in ("!!int 3", "!x {b: 1}", "[1, !env HOME]", "! 3")),
    ],
)
def test_yaml_bombs_and_tags_are_refused(bomb, tmp_path):
    from graphgym_srnc.gym import load_config

    with pytest.raises(ValueError):
        plain_yaml(bomb)
    (tmp_path / "a.yaml").write_text(bomb)
    with pytest.raises(InputError, match="readable yaml file"):
        load_config(tmp_path / "a.yaml")
