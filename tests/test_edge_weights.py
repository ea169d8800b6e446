"""Weights of links from tables, frames, matrices and networkx graphs, and rows of sums."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import networkx
import numpy as np
import pandas
import pytest
import scipy.io
import scipy.sparse as sp
from conftest import refusal, refused
from hypothesis import given, settings
from hypothesis import strategies as st
from tasks import tiny_estimator

from graphgym_srnc import ShiftWarning, from_frames, from_networkx, load
from graphgym_srnc.cli.main import main
from graphgym_srnc.cli.make import make_graph
from graphgym_srnc.data import files

IDS = [f"p{number}" for number in range(8)]
NODES = pandas.DataFrame({"id": IDS, "size": [1.5 * k for k in range(8)], "label": [*"ab"] * 4})
Links = list[tuple[int, int, float]]
RING: Links = [(k, (k + 1) % 8, k / 2 + 0.5) for k in range(8)]


def matrix(links: Links) -> np.ndarray:
    """The sum of the weights of each pair of nodes in both directions."""
    found = np.zeros((8, 8))
    for a, b, weight in links:
        if a != b:
            found[a, b] += weight
            found[b, a] += weight
    return found


def dense(graph: Any) -> np.ndarray:
    """The weights of a ``Data`` or of the fields of a folder."""
    fields = graph if isinstance(graph, dict) else graph.to_dict()
    found = np.zeros((8, 8))
    for (a, b), weight in zip(np.asarray(fields["edge_index"]).T, fields["edge_weight"]):
        found[a, b] += float(weight)
    return found


def frame(links: Links) -> pandas.DataFrame:
    rows = [(IDS[a], IDS[b], weight) for a, b, weight in links]
    return pandas.DataFrame(rows, columns=["from", "to", "strength"])


def tables(path: Path, links: Any) -> list[Path]:
    NODES.to_csv(path / "n.csv", index=False)
    text = links if isinstance(links, str) else links.to_csv(index=False)
    (path / "l.csv").write_text(text)
    return [path / "n.csv", path / "l.csv"]


def status_of(path: Path, links: Any, *words: str) -> int:
    """The exit status of a command that makes a graph folder of some links."""
    paths = map(str, tables(path, links))
    return main(["data", "make", *paths, *words])


def made_folder(path: Path, links: Any, *words: str, name: str = "g") -> Path:
    """A graph folder of some links, made by the command with numbers of nodes."""
    out = path / name
    assert status_of(path, links, "--numbers", "size", *words, "--out", str(out)) == 0
    return out


def both_ways(folder: Path) -> np.ndarray:
    """The weights of a graph folder in both directions."""
    found = dense(files.load(folder)[0])
    return found + found.T


@settings(max_examples=15, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, 7), st.integers(0, 7), st.sampled_from([0.0, 0.25, 1.0, 3.0])),
        max_size=12,
    )
)
def test_weights_of_repeated_links_are_added_in_both_directions(more):
    links = [*RING, *more]
    made = from_frames(NODES, frame(links), weight="strength")
    np.testing.assert_array_equal(dense(made), matrix(links))
    assert made.edge_weight.dtype.is_floating_point and (made.edge_weight > 0).all()
    pairs = {*map(tuple, made.edge_index.T.tolist())}
    assert len(pairs) == made.num_edges and {(b, a) for a, b in pairs} == pairs


def test_weights_are_stored_in_the_folder_and_read_back(tmp_path, capsys):
    links = [*RING, (1, 0, 2.0), (3, 3, 9.0), (0, 4, 0.0)]
    out = made_folder(tmp_path, frame(links), "--weight", "strength")
    told = capsys.readouterr().out
    assert "links join the columns from and to, with weights from strength" in told
    assert "1 link of weight 0 left out" in told and "8 nodes, 8 links" in told
    assert (out / "edges.csv").read_text().startswith("from,to,weight\n")
    assert files.load(out)[0]["edge_weight"].dtype == np.float32
    np.testing.assert_array_equal(both_ways(out), matrix(links))
    plain = made_folder(tmp_path, frame(links), name="plain")
    assert "not read: strength (--weight strength reads weights)" in capsys.readouterr().out
    assert "edge_weight" not in files.load(plain)[0]


def test_weights_with_a_decimal_comma_are_read_and_told():
    links = frame(RING)
    commas = links.assign(strength=links["strength"].map("{:.1f}".format).str.replace(".", ","))
    made = from_frames(NODES, commas, weight="strength")
    np.testing.assert_array_equal(dense(made), matrix(RING))
    told = "strength: 8 cells read as numbers with a decimal comma: '0,5' as 0.5, and similar"
    assert told in made.notes


@pytest.mark.parametrize(
    ("days", "told"),
    [
        (range(2, 10), "days (--weight days reads weights)"),
        ([0.5] * 8, "days (--weight days reads weights)"),
        ([*range(2, 9), -1], "days"),
        ([*range(2, 9), ""], "days"),
        ([*range(2, 9), "long"], "days"),
        (range(1, 9), "days"),  # it counts the rows
    ],
)
def test_a_column_of_positive_numbers_may_be_weights(days, told, tmp_path, capsys):
    made_folder(tmp_path, frame(RING).drop(columns="strength").assign(days=[*days]))
    line = f"links join the columns from and to; not read: {told}\n"
    assert line in capsys.readouterr().out


def test_several_columns_of_positive_numbers_are_told(tmp_path, capsys):
    made_folder(tmp_path, frame(RING).rename(columns={"strength": "days"}).assign(year=2013))
    told = "not read: days and year (--weight days or --weight year reads weights)\n"
    assert told in capsys.readouterr().out


def test_kinds_of_links_that_differ_are_told():
    """Links of one kind join one class, those of another do not."""
    nodes = pandas.DataFrame({"id": [f"n{k}" for k in range(40)], "size": range(40)})
    nodes["topic"] = ["a", "b"] * 20
    ends = [(k, k + 2, "cites") for k in range(30)] + [(k, k + 1, "follows") for k in range(30)]
    rows = [(f"n{a}", f"n{b}", kind) for a, b, kind in ends]
    links = pandas.DataFrame(rows, columns=["from", "to", "kind"])
    told = " ".join(from_frames(nodes, links, label="topic", numbers=["size"]).notes)
    assert "kinds of links in the column kind differ" in told
    assert "'cites' 30 of 30, 'follows' 0 of 30" in told
    alike = links.assign(kind=["cites", "follows"] * 30)
    assert "kinds" not in " ".join(from_frames(nodes, alike, label="topic", numbers=["size"]).notes)
    # 20 of 30 links of the other kind join one class: too many to leave them out.
    rows[30:50] = [(f"n{k + 3}", f"n{k + 7}", "follows") for k in range(20)]
    useful = pandas.DataFrame(rows, columns=["from", "to", "kind"])
    told = " ".join(from_frames(nodes, useful, label="topic", numbers=["size"]).notes)
    assert "kinds of links" not in told


def test_a_later_graph_has_weights_of_the_same_column(tmp_path, capsys):
    days = frame(RING).rename(columns={"strength": "days"})
    first = made_folder(tmp_path, days, "--weight", "days", name="first")
    like = ["--like", str(first), "--out"]
    capsys.readouterr()
    assert status_of(tmp_path, days, *like, str(tmp_path / "second")) == 0
    assert "from and to, with weights from days\n" in capsys.readouterr().out
    np.testing.assert_array_equal(both_ways(tmp_path / "second"), matrix(RING))

    hours = days.rename(columns={"days": "hours"})
    third = tmp_path / "third"
    error = refusal(status_of(tmp_path, hours, *like, str(third)), capsys)
    assert error.startswith("error: --like: l.csv lacks days, which holds the weights of links")
    assert "Name that of weights with --weight" in error and not third.exists()
    assert status_of(tmp_path, hours, *like, str(third), "--weight", "hours") == 0
    np.testing.assert_array_equal(both_ways(third), matrix(RING))

    recipe = json.loads((first / "recipe.json").read_text())
    assert recipe.pop("weight") == "days"
    (first / "recipe.json").write_text(json.dumps(recipe))  # as before this entry
    capsys.readouterr()
    assert status_of(tmp_path, hours, *like, str(tmp_path / "fourth")) == 0
    assert "not read: hours (--weight hours reads weights)" in capsys.readouterr().out


@pytest.mark.filterwarnings("ignore::graphgym_srnc.ShiftWarning")
def test_a_later_frame_has_weights_of_the_same_column():
    made = from_frames(NODES, frame(RING), weight="strength")
    later = from_frames(NODES, frame(RING[:5]), like=made)
    np.testing.assert_array_equal(dense(later), matrix(RING[:5]))
    assert later.recipe == made.recipe
    assert "weight" not in from_frames(NODES, frame(RING)).recipe
    bare = frame(RING).drop(columns="strength")
    assert "edges lacks strength" in str(refused("like", from_frames, NODES, bare, like=made))
    other = frame(RING).rename(columns={"strength": "s"})
    assert from_frames(NODES, other, like=made, weight="s").recipe == made.recipe


def test_a_model_of_weights_warns_about_a_graph_without(tmp_path, capsys):
    made = from_frames(NODES, frame(RING), weight="strength")
    plain = made.clone()
    del plain.edge_weight
    told = "the links of this graph have no weights, and those of training have"

    def warned(model: Any, graph: Any) -> bool:
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            model.predict(graph)
        return told in " ".join(str(warning.message) for warning in seen)

    model = tiny_estimator("ERM", open_set=False).fit(made)
    model.save(tmp_path / "m.safetensors")
    again = load(tmp_path / "m.safetensors")
    of_plain = tiny_estimator("ERM", open_set=False).fit(plain)
    reads_none = tiny_estimator("ERM", open_set=False, backbone="gatconv").fit(made)
    cases = (model, made), (again, made), (of_plain, plain), (reads_none, plain)
    assert [warned(*case) for case in cases] == [False] * 4
    assert warned(model, plain) and warned(again, plain)

    for name, words in {"plain": [], "weighted": ["--weight", "strength"]}.items():
        folder = made_folder(tmp_path, frame(RING), *words, name=name)
        capsys.readouterr()
        model._model.read(str(folder))
        assert (f"{folder}: {told}" in capsys.readouterr().err) == (name == "plain")


def test_the_ends_of_a_link_of_weight_0_need_not_be_nodes():
    more = pandas.DataFrame([("p0", "nobody", 0.0)], columns=["from", "to", "strength"])
    made = from_frames(NODES, pandas.concat([frame(RING), more]), id="id", weight="strength")
    np.testing.assert_array_equal(dense(made), matrix(RING))


@pytest.mark.parametrize("weight", ["-1", "nan", "", "much"])
def test_a_weight_that_is_none_is_refused_with_its_row(weight, tmp_path, capsys):
    lines = "from,to,weight\n" + "".join(f"p{a},p{b},1.5\n" for a, b, _ in RING[1:])
    chosen = ["--numbers", "size", "--weight", "weight", "--out", str(tmp_path / "g")]
    told = refusal(status_of(tmp_path, f"{lines}p0,p1,{weight}\n", *chosen), capsys)
    assert f"l.csv: the weight in line 9 is '{weight}'" in told


def test_a_weight_in_a_frame_is_refused_with_its_row():
    links = frame(RING).replace(2.5, -2.5)
    error = refused("edges", from_frames, NODES, links, weight="strength")
    assert "the weight in row 4 is '-2.5'" in str(error)
    error = refused("weight", from_frames, NODES, links, weight="strenght")
    assert "the table has no column 'strenght'. Did you mean strength?" in str(error)


def of_files(*inputs: Path, **options: Any) -> tuple[Any, np.ndarray]:
    """A graph of two files, and its weights in both directions."""
    made, _ = make_graph(*inputs, numbers=["size"], weight="weight", **options)
    found = sp.coo_array((made.weights, made.edges), shape=(8, 8)).toarray()
    return made, found + found.T


@pytest.mark.parametrize("name", ["m.mtx", "m.csv", "named.csv"])
def test_weights_of_matrices(name, tmp_path):
    expected = matrix(RING)
    scipy.io.mmwrite(tmp_path / "m.mtx", sp.coo_array(expected))
    pandas.DataFrame(expected).to_csv(tmp_path / "m.csv", index=False, header=False)
    pandas.DataFrame(expected, range(1, 9), range(1, 9)).to_csv(tmp_path / "named.csv")
    NODES.assign(id=range(1, 9)).to_csv(tmp_path / "n.csv", index=False)
    inputs = tmp_path / "n.csv", tmp_path / name
    np.testing.assert_allclose(of_files(*inputs)[1], expected)
    made, told = make_graph(*inputs, numbers=["size"])
    assert made.weights is None and made.edges.shape[1] == 8
    assert any("`weight='weight'` reads weights" in line for line in told)


def test_the_rows_of_a_matrix_are_the_nodes_whatever_their_ids(tmp_path):
    nodes = NODES.rename(columns={"id": "name"})
    entries = pandas.DataFrame(matrix(RING))
    nodes.to_csv(tmp_path / "n.csv", index=False)
    entries.to_csv(tmp_path / "m.csv", index=False, header=False)
    inputs = tmp_path / "n.csv", tmp_path / "m.csv"
    made = from_frames(nodes.set_index("name"), entries, weight="weight")
    for graph, found in (of_files(*inputs), of_files(*inputs, id="name"), (made, dense(made))):
        assert graph.ids == IDS
        np.testing.assert_allclose(found, matrix(RING))


def test_weights_of_networkx():
    net = networkx.Graph()
    net.add_nodes_from((id, {"x": k, "label": "ab"[k % 2]}) for k, id in enumerate(IDS))
    net.add_weighted_edges_from((IDS[a], IDS[b], weight) for a, b, weight in RING)
    np.testing.assert_array_equal(dense(from_networkx(net, weight="weight")), matrix(RING))
    with pytest.warns(ShiftWarning, match=r"not read: weight \(`weight='weight'` reads weights\)"):
        assert "edge_weight" not in from_networkx(net)
    del net.edges["p0", "p1"]["weight"]
    assert "the weight in row 0 is 'nan'" in str(
        refused("edges", from_networkx, net, weight="weight")
    )


# Rows that are no nodes, and links that count rows.


def test_numbers_of_rows_from_0_or_from_1_are_two_readings(tmp_path):
    ends = pandas.DataFrame({"a": range(1, 7), "b": [*range(2, 7), 1]})
    nodes = NODES.drop(columns="id")
    nodes.to_csv(tmp_path / "n.csv", index=False)
    ends.to_csv(tmp_path / "l.csv", index=False)
    inputs = tmp_path / "n.csv", tmp_path / "l.csv"
    told = "Choose one with `id='rows from 0'` or `id='rows from 1'`"
    assert told in str(refused("l.csv", make_graph, *inputs, numbers=["size"]))
    for first, id in enumerate(("rows from 0", "rows from 1")):
        made, _ = make_graph(*inputs, numbers=["size"], id=id)
        assert made.edges.min() == 1 - first and made.ids[0] == str(first)
        made = from_frames(nodes, ends, id=id)
        assert made.edge_index.min() == 1 - first
    told = "Choose one with `rename_axis('id')` or `id='rows from 1'`"
    assert told in str(refused("edges", from_frames, nodes, ends))
    clear = ends.replace(1, 0)
    assert from_frames(nodes, clear).edge_index.min() == 0
