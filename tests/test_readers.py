"""Tables as programs write them: which column is what, what a label means, and the notes."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphgym_srnc import from_frames
from graphgym_srnc.cli.main import main
from graphgym_srnc.data import files, labels, read
from graphgym_srnc.errors import InputError

V = 24
LINKS = sorted(
    {tuple(sorted((i, 8 * (i // 8) + (i % 8 + step) % 8))) for i in range(V) for step in (1, 3)}
    | {(0, 8), (8, 16)}
)
TEAMS = [f"t{i // 8}" for i in range(V)]


def status_of(tmp_path: Path, *words: object) -> int:
    out = str(tmp_path / "made")
    return main(["data", "make", *map(str, words), "--out", out, "--overwrite"])


def make(tmp_path: Path, *words: object) -> Path:
    """The folder that a command makes."""
    assert status_of(tmp_path, *words) == 0
    return tmp_path / "made"


def of_links(tmp_path: Path, text: str, *words: object, **columns: Any) -> list[object]:
    """Words for a graph of the usual nodes, or with other columns, and of a text of links."""
    (tmp_path / "links.csv").write_text(text)
    nodes = node_table(tmp_path / "n.csv", **columns)
    return [nodes, tmp_path / "links.csv", "--numbers", "a", *words]


def make_links(tmp_path: Path, text: str, *words: object, **columns: Any) -> Path:
    """The folder of such a graph."""
    return make(tmp_path, *of_links(tmp_path, text, *words, **columns))


def links_of(out: Path) -> set[tuple[int, int]]:
    pairs = pandas.read_csv(out / "edges.csv").to_numpy()
    return {tuple(sorted(pair)) for pair in pairs.tolist()}


def labels_of(out: Path) -> dict[int, str]:
    table = pandas.read_csv(out / "labels.csv", dtype=str)
    return dict(zip(table["node"].astype(int), table["label"]))


def node_table(path: Path, **columns: Any) -> Path:
    numbers = [i % 7 + i / 10 for i in range(V)]
    table = pandas.DataFrame({"id": range(V), "label": TEAMS, "a": numbers} | columns)
    table.to_csv(path, index=False)
    return path


def lines(pattern: str, head: str = "") -> str:
    """A line for each link: its ends a and b, its row k and a weight w."""
    rows = (pattern.format(a=a, b=b, k=k, w=1 + k % 5) for k, (a, b) in enumerate(LINKS))
    return "".join(f"{row}\n" for row in ([head] if head else []) + [*rows])


LINES = lines("{a},{b}", "source,target")

# Ends of links.

CONVENTIONS = (
    "Source,Target from,to citing,cited node_1,node_2 txId1,txId2 :START_ID(P),:END_ID(P)"
).split()
PLACES = ["{},{}|{a},{b}", "weight,{},{}|{w},{a},{b}", ",{},{}|{k},{a},{b}"]
PLACES += ["{},{},year|{a},{b},{w}", "k,{},w,{}|{k},{a},{w},{b}"]


@pytest.mark.parametrize("number, names", enumerate(CONVENTIONS))
def test_usual_names_of_ends_are_found_wherever_they_stand(number, names, tmp_path, capsys):
    head, line = PLACES[number % len(PLACES)].split("|")
    out = make_links(tmp_path, lines(line, head.format(*names.split(","))))
    assert links_of(out) == {*LINKS}
    assert "links join the columns " + " and ".join(names.split(",")) in capsys.readouterr().out


# Labels.


@pytest.mark.parametrize("word", ["Unknown", "?", "NaN", "-1.0"])
def test_a_word_for_a_missing_label_is_no_class_and_is_told(word, tmp_path, capsys):
    given = [team.removeprefix("t") if i % 2 else word for i, team in enumerate(TEAMS)]
    out = make_links(tmp_path, LINES, label=given)
    told = capsys.readouterr().out
    assert labels_of(out) == {i: str(i // 8) for i in range(V) if i % 2}
    assert "label: " in told and "12 labelled nodes of 3 classes" in told


WORDS = ["", "nan", "NaN", "?", "art", "Art", "01", "1.0", "1", "unknown", " law "]


@settings(max_examples=50, deadline=None)
@given(st.lists(st.one_of(st.integers(-1, 5), st.floats(-1, 5), st.sampled_from(WORDS))))
def test_labels_are_equal_only_if_they_are_written_so_or_are_one_whole_number(cells):
    written = [str(cell).strip() for cell in cells]
    cleaned, told, _ = labels.cleaned([str(cell) for cell in cells])
    assert len(cleaned) == len(cells) and "nan" not in map(str.lower, cleaned)
    for a, label in zip(written, cleaned):
        assert label in ("", a) or float(label) == float(a)
        assert label or a.lower() in labels.MISSING | {""} or float(a) == -1
        for b, other in zip(written, cleaned):
            if label and label == other and a != b:
                assert float(a) == float(b) and any("whole numbers" in note for note in told)
    assert labels.cleaned(cleaned)[0] == cleaned
    held = labels.cleaned([str(cell) for cell in cells], held=[True] * len(cells))[0]
    for cell, label, other in zip(written, cleaned, held):
        assert other == ("unknown" if cell.lower() in labels.NOT_LABELLED else label)


def test_long_names_that_differ_in_a_letter_may_be_one_class():
    names = ["Defence Evasion", "defense evasion", "Lateral move", "Level one 12", "Level one 13"]
    assert labels.similar(names) == [["Defence Evasion", "defense evasion"]]


def test_a_label_of_one_node_may_be_misspelt():
    many = ["topology"] * 5 + ["class 1"] * 5 + ["logic"] * 4
    *_, alike = labels.cleaned([*many, "toplogy", "class 2", "logics", "order theory"])
    (line,) = alike
    assert "'toplogy' and 'topology'" in line
    assert "class 2" not in line and "logics" not in line and "order" not in line
    assert labels.cleaned([*many, "toplogy", "toplogy"])[-1] == []


def test_a_column_whose_values_hardly_repeat_is_no_class(tmp_path, capsys):
    text = lines("{a},{b},Undirected,{k},,1.0", "Source,Target,Type,Id,Label,Weight")
    persons = [f"Person {i}" for i in range(V)]
    assert status_of(tmp_path, *of_links(tmp_path, text, label=persons, team=TEAMS)) == 2
    assert "perhaps team (3 values)" in capsys.readouterr().err
    out = make_links(tmp_path, text, label=persons, **{"class": TEAMS})
    assert [*labels_of(out).values()] == TEAMS
    pairs = [f"Pair {i // 2}" for i in range(V)]
    out = make_links(tmp_path, text, label=pairs)
    assert [*labels_of(out).values()] == pairs


# Files as they are found.

FOUND = {
    "byte order mark": (".csv", lambda text: b"\xef\xbb\xbf" + text.encode()),
    "UTF-16": (".csv", lambda text: text.encode("utf-16")),
    "Windows": (".csv", lambda text: text.replace("\n", "\r\n").encode()),
    "old Mac": (".csv", lambda text: text.replace("\n", "\r").encode()),
    "semicolons": (".csv", lambda text: text.replace(",", ";").encode()),
    "bars": (".txt", lambda text: text.replace(",", "|").encode()),
    "quotes": (".csv", lambda text: re.sub(r"[^,\n]+", r'"\g<0>"', text).encode()),
    "spaces": (".csv", lambda text: text.replace(",", " ,  ").encode()),
    "two more separators": (".csv", lambda text: text.replace("\n", ",,\n").encode()),
    "blank lines": (".csv", lambda text: text.replace("\n", "\n\n  \n").encode()),
    "empty rows": (".csv", lambda text: text.replace("\n", "\n,,\n").encode()),
    "tabs": (".tsv", lambda text: text.replace(",", "\t").encode()),
    "capitals": (".CSV", str.encode),
    "comments": (".txt", lambda text: f"# a\n%\n{text}#\tend\n".replace(",", "\t").encode()),
}


@pytest.mark.parametrize("number, kind", enumerate(FOUND))
def test_marks_of_other_programs(number, kind, tmp_path):
    suffix, write = FOUND[kind]
    id = ("n{}", "#{}", "%{}", "0{}", "é{}", "p {}")[number % 6]
    ids = [id.format(i) for i in range(V)]
    nodes = "id,label,a\n" + "".join(f"{ids[i]},{TEAMS[i]},{i % 5}\n" for i in range(V))
    pairs = "source,target\n" + "".join(f"{ids[a]},{ids[b]}\n" for a, b in LINKS)
    paths = tmp_path / f"nodes{suffix}", tmp_path / f"links{suffix}"
    for path, text in zip(paths, (nodes, pairs)):
        path.write_bytes(write(text))
    out = make(tmp_path, *paths, "--numbers", "a")
    assert links_of(out) == {*LINKS} and [*labels_of(out).values()] == TEAMS
    assert pandas.read_csv(out / "nodes.csv", dtype=str)["id"].tolist() == ids


@pytest.mark.parametrize("id, end", [("{}", "{}.0"), ("{}.0", "{}"), ("p,{}", "p,{}")])
def test_the_first_link_is_no_header(id, end, tmp_path):
    """Ids may be written as numbers with a point in one file, or have commas between tabs."""
    rows = [("id", "label", "a"), *((id.format(i), TEAMS[i], str(i % 5)) for i in range(V))]
    pairs = [[*map(end.format, pair)] for pair in reversed(LINKS)]
    for name, table in (("n.tsv", rows), ("l.tsv", pairs)):
        (tmp_path / name).write_text("".join("\t".join(row) + "\n" for row in table))
    out = make(tmp_path, tmp_path / "n.tsv", tmp_path / "l.tsv", "--numbers", "a")
    assert links_of(out) == {*LINKS}


# Graph folders.


def folder(path: Path, **tables: str) -> Path:
    path.mkdir()
    np.save(path / "features.npy", np.ones((V, 2)))
    usual = {"edges": lines("{a},{b}", "from,to"), "labels": "node,label\n0,a\n1,b\n"}
    for name, text in (usual | tables).items():
        (path / f"{name}.csv").write_text(text)
    return path


def test_a_graph_folder_written_by_hand(tmp_path):
    fields, names = files.load(folder(tmp_path / "f", split="node,part\n0,train\n1,TEST\n"))
    assert names == ("a", "b") and fields["y"].tolist() == [0, 1, *[-1] * (V - 2)]
    assert {*zip(*fields["edge_index"].tolist())} == {*LINKS}
    assert fields["train_mask"].nonzero().tolist() == [[0]] and "val_mask" not in fields


@pytest.mark.parametrize(
    "name, text, told",
    [
        ("labels", "node,label\n0,a\n0,b\n1,b\n", "node 0 has two labels"),
        ("labels", "node,label\n0,a\n1e20,b\n", "node '1e20'. Use node numbers"),
        ("labels", "a\nb\n", "Write a header, and a node number and its label"),
        ("labels", "0,a\n1,b\n", "Write a header"),
        ("split", "node,part\n0,exam\n", "the part 'exam'"),
        ("edges", "0,1\n1,2\n", "Write a header, and two node numbers"),
        ("edges", "from,to\n1.5,2\n", "the node '1.5'"),
        ("edges", "from,to,year\n0,1,2\n", "Write a header, and two node numbers"),
        ("edges", "from,to\n", "no rows"),
    ],
)
def test_contradictory_tables_are_refused(name, text, told, tmp_path):
    with pytest.raises(InputError, match=told):
        files.load(folder(tmp_path / "f", **{name: text}))


# Frames and tables are one graph.


def test_frames_and_tables_are_the_same_graph(tmp_path):
    options = {"text": ["title"], "numbers": ["*"], "categories": ["land"], "spectral": 3}
    words, lands = ["alpha beta", "gamma delta", "epsilon zeta alpha"], ["US", "DE", None]
    rows = [
        (f"n{i}", i / 3, None if i % 3 else float(i // 8), i, words[i % 3], lands[i % 3])
        for i in range(V)
    ]
    frame = pandas.DataFrame(rows, columns=["id", "a", "label", "n", "title", "land"])
    ends = {"target": [f"n{b}" for _, b in LINKS], "source": [f"n{a}" for a, _ in LINKS]}
    edges = pandas.DataFrame({"w": 1.5} | ends)
    frame.to_csv(tmp_path / "n.csv", index=False)
    edges.to_csv(tmp_path / "e.csv")
    pairs = ((f"--{name}", value) for name, value in options.items())
    given = [word if isinstance(word, (str, int)) else ",".join(word) for p in pairs for word in p]
    out = make(tmp_path, tmp_path / "n.csv", tmp_path / "e.csv", *given)
    fields, _ = files.load(out)
    made = from_frames(frame.set_index("id"), edges, **options)
    assert made.x.numpy().dtype == "f4"
    np.testing.assert_array_equal(made.x.numpy(), np.asarray(fields["x"]).astype("f4"))
    np.testing.assert_array_equal(made.edge_index.numpy(), np.asarray(fields["edge_index"]))
    assert made.y.tolist() == fields["y"].tolist() and made.ids == frame["id"].tolist()
    assert made.feature_names == (out / "words.txt").read_text().split("\n")[:-1]


@pytest.mark.parametrize("kind", ["snd", "words of the text", "number", "prefix"])
def test_words_of_ids_that_texts_lack_are_told(tmp_path, capsys, kind):
    areas = ["SND", "USB", "NET", "FS"]
    ids = {
        "snd": [f"{areas[i % 4]}_CARD_{i}" for i in range(V)],
        "words of the text": [f"gamma_{i}" if i % 2 else f"alpha_{i}" for i in range(V)],
        "number": [str(1000 + i) for i in range(V)],
        "prefix": [f"doc-{i}" for i in range(V)],
    }[kind]
    frame = pandas.DataFrame({"id": ids, "title": ["alpha beta", "gamma delta"] * (V // 2)})
    frame["label"] = [str(i % 2) for i in range(V)]
    frame.to_csv(tmp_path / "n.csv", index=False)
    edges = pandas.DataFrame([(ids[a], ids[b]) for a, b in LINKS], columns=["source", "target"])
    edges.to_csv(tmp_path / "e.csv", index=False)
    make(tmp_path, tmp_path / "n.csv", tmp_path / "e.csv", "--text", "title")
    printed = capsys.readouterr().out
    assert ("--text title,id reads them" in printed) == (kind == "snd")


def test_words_with_underscores_are_several_words(tmp_path):
    titles = ["SND_USB_AUDIO", "snd"] * (V // 2)
    out = make_links(tmp_path, LINES, "--text", "title", title=titles)
    words = (out / "words.txt").read_text().split()
    assert {"audio", "snd", "usb"} <= {*words} and "snd_usb_audio" not in words


def test_empty_cells_are_counted_and_told(tmp_path, capsys):
    cells = {"price": ["", "n/a", *range(V - 2)], "land": [""] * 3 + ["US", "DE"] * (V // 2 - 1)}
    cells["land"] = cells["land"][:V]
    chosen = ("--categories", "land", "--numbers", "price")
    make_links(tmp_path, LINES, *chosen, **cells)
    printed = capsys.readouterr().out
    marked = "empty cells, counted as the mean: price 2; a feature marks those of price\n"
    assert marked in printed
    assert "empty cells, of no category: land 3\n" in printed


def test_a_feature_marks_the_empty_cells_of_a_column(tmp_path):
    cells = np.tile(np.arange(1.0, 9.0), (4, 1)).T
    cells[1, 1] = cells[[2, 5], 2] = cells[:, 3] = np.nan  # none, one, two and all are empty
    frame = pandas.DataFrame(cells, columns=[*"abcd"]).assign(id=[*"opqrstuv"], label=[*"xy"] * 4)
    links = pandas.DataFrame({"from": [*"opqrstu"], "to": [*"pqrstuv"]})
    made = from_frames(frame, links, numbers=[*"abcd"])
    assert made.feature_names == [*"abcd", "c is missing"]
    np.testing.assert_array_equal(made.x[:, 4], np.isnan(cells[:, 2]))
    mean, std = np.nanmean(cells[:, 2]), np.nanstd(cells[:, 2])
    np.testing.assert_allclose(made.x[:, 2], np.nan_to_num((cells[:, 2] - mean) / std), atol=1e-6)

    later = frame.assign(a=np.nan, c=[1, 2, 3, 4, 5, 6, 7, None])  # other cells are empty now
    again = from_frames(later, links, like=made)
    assert again.feature_names == made.feature_names and again.recipe == made.recipe
    assert again.x[:, 4].tolist() == [0] * 7 + [1]
    assert from_frames(frame[["id", "label", "a", "b"]], links).feature_names == ["a", "b"]


def test_a_recipe_that_marks_no_empty_cells_gives_the_features_of_then(tmp_path, capsys):
    cells = {"price": ["", "", *range(V - 2)]}
    out = make_links(tmp_path, LINES, "--numbers", "price", **cells)
    assert (out / "words.txt").read_text() == "a\nprice\nprice is missing\n"
    out.rename(tmp_path / "base")
    recipe = json.loads((tmp_path / "base/recipe.json").read_text())
    assert recipe["numbers"].pop("missing") == ["price"]
    recipe["widths"] = [2]
    (tmp_path / "base/recipe.json").write_text(json.dumps(recipe))
    capsys.readouterr()
    tables = tmp_path / "n.csv", tmp_path / "links.csv"
    out = make(tmp_path, *tables, "--like", tmp_path / "base")
    assert (out / "words.txt").read_text() == "a\nprice\n"
    assert "empty cells, counted as the mean: price 2\n" in capsys.readouterr().out


# A later table.


@pytest.mark.parametrize(
    ("factor", "rows", "told"), [(1.6, 24, True), (1.05, 24, False), (1.6, 9, False)]
)
def test_a_column_whose_mean_moved_is_told_with_both_means(factor, rows, told, tmp_path, capsys):
    miles = [1000.0 + 40 * i for i in range(V)]  # mean 1460, standard deviation 277
    out = make_links(tmp_path, LINES, "--numbers", "miles", miles=miles)
    out.rename(tmp_path / "base")
    cells = [factor * mile if row < rows else "" for row, mile in enumerate(miles)]
    nodes = node_table(tmp_path / "new.csv", miles=cells)
    capsys.readouterr()
    make(tmp_path, nodes, tmp_path / "links.csv", "--like", tmp_path / "base")
    line = "\nmiles: the mean is 2336, and 1460 in the earlier graph"
    assert (line in capsys.readouterr().out) == told


def test_a_later_table_that_drifts_is_told_with_counts(tmp_path, capsys):
    words = ["alpha beta", "gamma delta", "epsilon zeta"]
    usual = {
        "title": [words[i % 3] for i in range(V)],
        "land": ["US", "DE"] * (V // 2),
        "price": [10.0 + i for i in range(V)],
    }
    chosen = ("--text", "title", "--categories", "land", "--numbers", "price")
    out = make_links(tmp_path, LINES, *chosen, **usual)
    out.rename(tmp_path / "base")
    for changed, told in (
        ({"land": ["us", "BR"] * (V // 2)}, "\nland: 24 cells (us and BR) without a category"),
        ({"price": [10_000.0 + 1000 * i for i in range(V)]}, "\nprice: 24 numbers more than 10"),
        ({"title": ["ganz andere worte"] * V}, "\ntitle: 24 texts without a word"),
        ({"land": ["US"] * (V - 1) + ["IT"]}, "\nland: 1 cells (IT) without a category"),
        ({}, ""),
    ):
        capsys.readouterr()
        nodes = node_table(tmp_path / "new.csv", **usual | changed)
        make(tmp_path, nodes, tmp_path / "links.csv", "--like", tmp_path / "base")
        output = capsys.readouterr().out
        assert told in output and (told or "of the earlier" not in output), output


CELLS = st.sampled_from(["", "a", " b", "c ", "0", "\xa0", "#d"])


@given(st.lists(st.lists(CELLS, min_size=1, max_size=4), min_size=2, max_size=6))
@settings(max_examples=200, deadline=None)
def test_tables_are_read_by_columns_as_by_rows(rows):
    lines = [",".join(row) for row in [["n", "m"], *rows]]
    lines = ["" if line.isspace() else line for line in lines]
    by_rows = read._rows(lines, ",", strict=True)
    found = read._even(lines, ",")
    if found is None:
        widths = {len(row) for row in by_rows.values()}
        assert len(widths) > 1 or len(by_rows) < sum(map(bool, lines))
    else:
        assert [*found.index] == [*by_rows]
        assert found.to_numpy().tolist() == [*by_rows.values()]


@pytest.mark.parametrize("name", ["id", "title"])
def test_a_wrong_column_of_ids_is_named_where_no_link_holds_them(name, tmp_path, capsys):
    nodes = pandas.DataFrame({"id": [f"n{i}" for i in range(V)], "label": TEAMS, "a": range(V)})
    nodes.assign(title=[f"word {i}" for i in range(V)]).to_csv(tmp_path / "n.csv", index=False)
    links = [(f"n{i}", f"n{j}", "isa") for i, j in LINKS]
    pandas.DataFrame(links, columns=["x", "y", "why"]).to_csv(tmp_path / "l.csv", index=False)
    files = tmp_path / "n.csv", tmp_path / "l.csv"
    is_wrong = name == "title"
    assert status_of(tmp_path, *files, "--numbers", "a", "--id", name) == (2 if is_wrong else 0)
    told = capsys.readouterr().err
    assert ("or another column of ids than --id title" in told) == is_wrong
