"""From a user's own tables and texts to a graph folder and its task."""

from __future__ import annotations

import csv
import functools
import itertools
import os
import re
import shutil
import signal
import sys
from collections import Counter
from pathlib import Path
from typing import Callable, Sequence

import networkx
import numpy as np
import pandas
import pytest
import torch
from conftest import contents, refusal
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from torch_geometric.data import Data, HeteroData

from graphgym_srnc import shifts
from graphgym_srnc.cli.main import main
from graphgym_srnc.cli.make import make_graph
from graphgym_srnc.data import features, folder, read, units
from graphgym_srnc.data import files as data_files
from graphgym_srnc.data import names as _names
from graphgym_srnc.errors import InputError
from graphgym_srnc.io import checksums

TITLES = ['Graph networks, "quoted"', "Graph mining and networks", "<b>Query</b> plans & graphs"]
TITLES += ["Query plans\nin two lines", "Größe der Graphen", "plans", "networks", ""]
IDS = ["007", "7", "é", "a,b", "1.0", "x y", "Z", "zz"]
CLASSES = ["law", "art", "law", "art", "", "-1", "law, new", "law, new"]
EDGES = [*zip(IDS[:6], IDS[1:7]), ("007", "Z")]
SIZES = ["1", "2.5", "", "-4", "1e1", "0", "3", "3"]
LANDS = ["DE", "FR", "DE", "", "<i>", "FR", "DE", "FR"]
YEARS = [str(2000 + i) for i in range(8)]
PARTS = ["train", "train", "Train", "val", "", "", "test", ""]
TABLE = {"id": IDS, "title": TITLES, "size": SIZES, "year": YEARS, "land": LANDS, "label": CLASSES}


def write(path: Path, header: tuple, rows: list, mark: str = ",", encoding: str = "utf-8") -> Path:
    with open(path, "w", encoding=encoding, newline="") as file:
        csv.writer(file, delimiter=mark).writerows([header, *rows])
    return path


def node_table(path: Path, **changes: list[str]) -> Path:
    columns = TABLE | changes
    return write(path, (*columns,), [*zip(*columns.values())], encoding="utf-8-sig")


@pytest.fixture
def files(tmp_path):
    """A table with a split, and links."""
    links = write(tmp_path / "edges.csv", ("source", "target"), EDGES)
    return node_table(tmp_path / "nodes.csv", split=PARTS), links


@pytest.fixture
def split_free(files):
    """The same without a split, which names a class without a training node."""
    return node_table(files[0]), files[1]


def run(*words: object) -> int:
    return main([str(word) for word in ("data", *words)])


def table_of(path: Path) -> dict[str, list[str]]:
    return read.table(path).to_dict("list")


def rows_of(path: Path) -> list[list[str]]:
    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.reader(file))


# Node table and list of links.


def parts_of_words(titles: Sequence[str]) -> tuple[list[str], np.ndarray]:
    """TF-IDF of three letters that follow each other, with a blank around each word."""
    counts = []
    for title in titles:
        words = [f" {word} " for word in title.lower().split()]
        places = [(word, start) for word in words for start in range(len(word) - 2)]
        counts.append(Counter(word[start : start + 3] for word, start in places))
    parts = sorted({part for count in counts for part in count})
    counted = np.array([[count[part] for part in parts] for count in counts])
    tf = np.where(counted > 0, 1 + np.log(np.maximum(counted, 1)), 0)
    idf = np.log((1 + len(titles)) / (1 + (tf > 0).sum(0))) + 1
    rows = tf * idf
    return parts, rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)


def test_long_texts_and_many_nodes_have_no_parts_of_words(monkeypatch):
    table = pandas.DataFrame({"id": ["a", "b"], "text": ["blue two " * 50, "blue four " * 50]})
    made = features.learn(table, ["text"], features.TextOptions())
    assert "parts" not in made.recipe and made.names == ["blue"]
    short = table.assign(text=["blue two", "blue four"])
    assert "parts" in features.learn(short, ["text"], features.TextOptions()).recipe
    monkeypatch.setattr(features, "LARGE", 2)
    assert "parts" not in features.learn(short, ["text"], features.TextOptions()).recipe


def test_words_in_mixed_case_are_read_divided_too():
    table = pandas.DataFrame(
        {"text": ["readHTMLFile x_y, of McLeod", "file of a readhtmlfile", "leod"]}
    )
    made = features.learn(table, ["text"], features.TextOptions(min_nodes=1))
    rows = made.blocks[0].toarray()
    words = made.recipe["text"]["words"]
    assert words == ["file", "html", "leod", "mc", "mcleod", "read", "readhtmlfile"]
    assert (rows > 0).tolist() == [
        [True] * 7,
        [True] + [False] * 5 + [True],
        [False] * 2 + [True] + [False] * 4,
    ]
    again = features.apply(made.recipe, table).blocks
    assert all(np.allclose(a.toarray(), b.toarray()) for a, b in zip(again, made.blocks))


def test_numbers_beside_text_are_half_as_long():
    """Text gives words and parts of words, and each other column is a block of its own."""
    table = pandas.DataFrame(TABLE)
    made = features.learn(table, ["title"], features.TextOptions(), ["year"], ["land"])
    x = features.joined(made.blocks, made.recipe).toarray()
    ends = np.cumsum([block.shape[1] for block in made.blocks])
    length = [np.sqrt((part**2).sum(1).mean()) for part in np.split(x, ends[:-1], axis=1)]
    assert length == pytest.approx([1, 1, 0.5, 0.5])
    alone = features.learn(table, [], features.TextOptions(), ["year"], ["land"])
    x = features.joined(alone.blocks, alone.recipe).toarray()
    assert np.sqrt((x[:, 0] ** 2).mean()) == pytest.approx(1)


def test_a_text_of_numbers_alone_is_told(split_free, tmp_path, capsys):
    assert run("make", *split_free, "--text", "title,year", "--out", tmp_path / "g") == 0
    told = capsys.readouterr().out
    assert "year: every cell is a number, and each number is a word. --numbers year reads" in told
    assert "title: every" not in told


@pytest.mark.parametrize(
    "size, is_told",
    [
        (["2.1", "2.10", "3.5", "", "3.50", "1", "4", "10"], True),
        (["1.50", "2.00", "2.50", "2.10", "", "3.00", "3.10", "100"], False),
    ],
)
def test_versions_among_numbers_are_told(size, is_told, split_free):
    nodes = node_table(split_free[0], size=size)
    _, told = make_graph(nodes, split_free[1], numbers=["size", "year"])
    found = [line for line in told if "are one number" in line]
    assert len(found) == is_told
    start = "size: '2.1' and '2.10' are one number. If these are versions"
    assert all(line.startswith(start) for line in found)


MILLIMETRES = [f"{size} mm" if size else "" for size in SIZES]


def test_a_table_becomes_the_task_that_file_reads(files, tmp_path, capsys):
    out = tmp_path / "graph"
    options = ("--text", "title", "--min-nodes", 1)
    assert run("make", *files, *options, "--out", out) == 0
    text = capsys.readouterr().out
    assert "8 nodes, 7 links" in text and "6 labelled nodes of 3 classes" in text
    assert "\n1 node without a feature" in text and "\n1 node without a link" in text
    assert f"dataset.name {out}" in text
    task = shifts.find("file")(path=str(out))
    assert task.oracle is None and task.target.y_true.tolist() == [1, 0, 1, 0, -1, -1, 2, 2]
    assert (task.train.tolist(), task.val.tolist(), task.test.tolist()) == ([0, 1, 2], [3], [6])
    assert task.class_names == ("art", "law") and task.target.y[6] == task.unknown
    names = _names.of_folder(out, 8, task.num_features)
    learnt = TfidfVectorizer(stop_words="english", sublinear_tf=True)
    assert names.ids == IDS and names.texts == TITLES
    expected = learnt.fit_transform(TITLES).toarray()
    words = learnt.get_feature_names_out().tolist()
    parts, of_parts = parts_of_words(TITLES)
    assert names.words == [*words, *(f"letters {part.replace(' ', '·')}" for part in parts)]
    blocks = [block / np.sqrt((block**2).sum() / 8) for block in (expected, of_parts)]
    np.testing.assert_allclose(task.target.x.numpy(), np.concatenate(blocks, 1), atol=1e-6)
    wanted = networkx.Graph([(IDS.index(a), IDS.index(b)) for a, b in EDGES])
    edges = task.target.edge_index.T.tolist()
    assert {tuple(sorted(edge)) for edge in edges} == {tuple(sorted(edge)) for edge in wanted.edges}


def test_ranges_of_numbers_are_features():
    """Their names say which number they are of, and numbers beyond the ranges are at their ends."""
    size = pandas.Series(np.random.default_rng(0).normal(size=400).round(4))
    size = size.where(size < 2)
    table = pandas.DataFrame({"size": size.map("{:.4f}".format).replace("nan", ""), "half": "1"})
    made = features.learn(table, [], features.TextOptions(), ["size", "half"])
    x = made.blocks[0].toarray()
    assert made.names[:3] == ["size", "half", "size is missing"] and x.shape == (400, 13)
    assert _names.together(made.names) == [0, 1, 2, *[0] * 10]
    ends = np.quantile(size.dropna(), np.linspace(0, 1, 11))
    way = np.stack([np.interp(size, ends[[t, t + 1]], [0, 1]) for t in range(10)], 1)
    mean = np.nanmean(way, 0)
    np.testing.assert_allclose(x[:, 3:], np.nan_to_num(way - mean), atol=1e-9)
    far = features.apply(made.recipe, table[:1].assign(size="1e9")).blocks[0].toarray()
    np.testing.assert_allclose(far[0, 3:], 1 - mean, atol=1e-9)


def test_numbers_between_others_are_linear_in_their_ranges():
    size = np.random.default_rng(0).normal(size=400)
    table = pandas.DataFrame({"size": size})
    x = features.learn(table, [], features.TextOptions(), ["size"]).blocks[0].toarray()
    is_middle = np.abs(size) < 0.5

    def right(part: np.ndarray) -> float:
        model = LogisticRegression(C=100, max_iter=1000).fit(part, is_middle)
        return model.score(part, is_middle)

    assert right(x[:, :1]) < 0.7 and right(x) > 0.95


@pytest.mark.parametrize(
    "cells, read",
    [
        (["36 mm", "37", "2.5mm", ""], ["36", "37", "2.5", ""]),
        (["$5", "-7", "$1.25"], ["5", "-7", "1.25"]),
        (["5 %", "true"], ["5", "1"]),
        (["5k", "7k"], ["5", "7"]),
        (["5k", "700"], None),  # 5,000 or 5
        (["36 mm", "2.5 cm"], None),
        (["1st", "2nd"], None),
        (["P01", "~9 g", "12 angry men", "1,000 kg"], None),
    ],
)
def test_one_unit_is_no_part_of_a_number(cells, read):
    assert units.plain(cells) == (read or cells)


@pytest.mark.parametrize(
    "cells, read",
    [
        (["12,6", "1,234", "7", ""], ["12.6", "1.234", "7", ""]),
        (["1,23"], ["1.23"]),
        (["1234,567"], ["1234.567"]),
        (["-0,125"], ["-0.125"]),
        (["1,234e2", ",5"], ["1.234e2", ".5"]),
        (["2,5 mm", "3"], ["2.5 mm", "3"]),
        (["12,6", "13,7?", "n.a."], ["12.6", "13,7?", "n.a."]),  # refused because of the others
        (["1,234", "-999,000", "7"], None),
        (["1,234 kg"], None),
        (["12,6", "7.5"], None),
        (["12,6", ".5"], None),
        (["12,6", "7."], None),
        (["1,234,567"], None),
        (["1.234,5"], None),
        (["12,"], None),
    ],
)
def test_a_decimal_comma_is_read_if_it_cannot_separate_thousands(cells, read):
    assert units.with_point(cells) == (read or cells)


DECIMAL_COMMAS = ["1", "2,5", "", "-4", "1,0e1", "0", "3,000", "3"]  # SIZES


def test_decimal_commas_are_read_and_told(split_free):
    nodes, links = split_free
    plain, _ = make_graph(nodes, links, numbers=["*"])
    made, told = make_graph(node_table(nodes, size=DECIMAL_COMMAS), links, numbers=["*"])
    assert made.words == ["size", "year"] and abs(made.features - plain.features).max() == 0
    note = "size: 3 cells read as numbers with a decimal comma: '2,5' as 2.5, and similar"
    assert [line for line in told if "size: " in line] == [note]
    assert made.texts[1] == "size 2.5, year 2001"
    with_unit = [f"{size} mm" if size else "" for size in ["1", "2,5", *SIZES[2:4], "10", *"033"]]
    made, told = make_graph(node_table(nodes, size=with_unit), links, numbers=["size"])
    assert abs(made.features - plain.features[:, :1]).max() == 0
    assert "size: 1 cell read as numbers with a decimal comma: '2,5 mm' as 2.5 mm" in told
    _, told = make_graph(node_table(nodes, size=["12,60", "13,5"] * 4), links, text=["size"])
    assert any(line.startswith("size: every cell is a number") for line in told)


def test_a_later_table_has_the_decimal_comma_of_the_first(split_free, tmp_path, capsys):
    nodes, links = split_free
    words = ("--numbers", "size", "--out")
    rows = [("id", "size"), (IDS[0], "1,250"), (IDS[1], "3,000")]
    new = write(tmp_path / "new.csv", rows[0], rows[1:])
    ends = write(tmp_path / "links.csv", ("a", "b"), EDGES[:1])
    for name, cells in (("point", SIZES), ("comma", DECIMAL_COMMAS)):
        node_table(nodes, size=cells)
        assert run("make", nodes, links, *words, tmp_path / name) == 0
    capsys.readouterr()
    like = ("make", new, ends, "--like")
    assert run(*like, tmp_path / "comma", "--out", tmp_path / "later") == 0
    note = "size: 2 cells read as numbers with a decimal comma: '1,250' as 1.250, and similar\n"
    assert note in capsys.readouterr().out
    first, later = (np.load(tmp_path / name / "features.npy") for name in ("comma", "later"))
    step = (first[1, 0] - first[0, 0]) / 1.5  # of a number that is larger by 1
    assert later[:, 0] == pytest.approx(first[0, 0] + step * np.array([0.25, 2]))
    error = refusal(run(*like, tmp_path / "point", "--out", tmp_path / "bad"), capsys)
    assert "size: 2 cells may be read in two ways, for example '1,250' as 1.250 or as 1250" in error
    write(new, rows[0], [(IDS[0], "1,25"), (IDS[1], "3")])
    assert run(*like, tmp_path / "point", "--out", tmp_path / "clear") == 0
    assert "size: 1 cell read as numbers with a decimal comma" in capsys.readouterr().out


CELLS = """
1,234  | 7     | size: 7 cells may be read in two ways, for example '1,234' as 1.234 or as 1234
1,234  | 7     | Write 1.234 if the comma is a decimal mark, and 1234 if it separates thousands
12,6   | 7.5   | size: 7 cells cannot be used as a number, for example '12,6'. Write all numbers
12,6   | 13,7? | size: 1 cell cannot be used as a number, for example '13,7?'. Write numbers such as
12.6   | 13.7? | size: 1 cell cannot be used as a number, for example '13.7?'. Write numbers such as
12.6   | ca. 5 | size: 1 cell cannot be used as a number, for example 'ca. 5'. Write numbers such as
1,2 mm | 2 cm  | size: 8 cells cannot be used as a number, for example '1,2 mm'. Write all in one of
"""


@pytest.mark.parametrize("case", CELLS.strip("\n").split("\n"))
def test_cells_that_are_no_numbers_are_named_as_they_are_written(case, split_free):
    seven, one, told = map(str.strip, case.split("|"))
    with pytest.raises(InputError) as caught:
        make_graph(
            node_table(split_free[0], size=[seven] * 7 + [one]), split_free[1], numbers=["size"]
        )
    assert told in str(caught.value)


def test_categories_that_differ_in_capitals_are_told(split_free):
    nodes, links = split_free
    kinds = ["Law", "law", "LAW", "law", "law", "Law", "act", ""]
    _, told = make_graph(node_table(nodes, size=kinds), links, categories=["size"])
    assert [line for line in told if "capital letters" in line] == [
        "size: 'law', 'Law' and 'LAW' are values of their own, which differ in capital letters"
        " alone. If they are the same, write them alike."
    ]


def test_dates_as_numbers_are_refused(split_free):
    nodes, links = split_free
    with pytest.raises(InputError, match="These are dates: name the column in `date`"):
        make_graph(node_table(nodes, size=["1994-01-31"] * 8), links, numbers=["size"])


def test_units_of_a_column_are_told(split_free):
    nodes, links = split_free
    plain, _ = make_graph(nodes, links, numbers=["*"])
    made, told = make_graph(node_table(nodes, size=MILLIMETRES), links, numbers=["*"])
    assert abs(made.features - plain.features).max() == 0
    assert "size: 7 cells read as numbers: '3 mm' as 3, and similar" in told
    node_table(nodes, size=[*MILLIMETRES[:-1], "2 cm"])
    with pytest.raises(InputError, match="Write all in one of the units mm and cm"):
        make_graph(nodes, links, numbers=["size"])


def test_numbers_of_labelled_nodes_that_differ_are_told(tmp_path):
    year = np.arange(200) ** 1.5
    table = {"id": np.arange(200) + 1000, "year": year}
    table["size"] = np.random.default_rng(0).normal(size=200)
    label = [*"ab" * 30, *[""] * 140]
    (tmp_path / "edges.csv").write_text("1000,1001\n1002,1003\n")

    def told(label: Sequence[str]) -> list[str]:
        frame = pandas.DataFrame(table | {"label": label})
        frame.to_csv(tmp_path / "nodes.csv", index=False)
        _, lines = make_graph(tmp_path / "nodes.csv", tmp_path / "edges.csv", numbers=["*"])
        return [line for line in lines if line.startswith("Labelled nodes have another")]

    (line,) = told(label)
    distance = (year[:60].mean() - year[60:].mean()) / year.std(ddof=1)
    assert f"others: year by {distance:+.1f} standard deviations." in line
    assert told(np.random.default_rng(0).permutation(label)) == []


def test_a_question_mark_is_no_category(split_free):
    nodes, links = split_free
    lands = ["?", "DE", "FR", "DE", "FR", "DE", "FR", "DE"]
    made, told = make_graph(node_table(nodes, land=lands), links, categories=["land"])
    assert "land=?" not in made.words and "land: 1 cell read as empty: '?'" in told


def test_numbers_and_categories_are_shown_below_the_text_of_a_node(split_free):
    nodes, links = split_free
    made, _ = make_graph(nodes, links, numbers=["size"], categories=["land"])
    assert made.texts[:2] == ["land DE, size 1", "land FR, size 2.5"]
    made, _ = make_graph(nodes, links, numbers=["size"], text=["title"])
    assert made.texts[:2] == [f"{TITLES[0]}\nsize 1", f"{TITLES[1]}\nsize 2.5"]
    sizes = ["1992.021917808219", "", "-0.000123456789", "1234567.25", "5.0", "1", "2", "3"]
    made, _ = make_graph(node_table(nodes, size=sizes), links, numbers=["size"])
    shown = ["size 1992.02", "", "size -0.000123457", "size 1234567", "size 5"]
    assert made.texts[:5] == shown


def test_numbers_categories_and_embeddings_stand_side_by_side(split_free, tmp_path):
    array = np.random.default_rng(0).normal(size=(8, 3))
    np.save(tmp_path / "own.npy", array)
    chosen = {"numbers": ["size", "year"], "categories": ["land"]}
    made, told = make_graph(*split_free, embeddings=str(tmp_path / "own.npy"), **chosen)
    size = np.array([1, 2.5, np.nan, -4, 10, 0, 3, 3])
    size = np.nan_to_num((size - np.nanmean(size)) / np.nanstd(size))
    year = (np.arange(8) - 3.5) / np.std(np.arange(8))
    land = np.array([[word == value for value in ("<i>", "DE", "FR")] for word in LANDS], float)
    blocks = [np.stack([size, year], 1), land, array]
    expected = np.concatenate([block / np.sqrt((block**2).sum() / 8) for block in blocks], 1)
    np.testing.assert_allclose(made.features.toarray(), expected, atol=1e-12)
    assert made.words[:5] == ["size", "year", "land=<i>", "land=DE", "land=FR"]
    assert made.words[5:] == ["embedding 0", "embedding 1", "embedding 2"]
    assert "label: 1 cell read as no label: '-1'" in told
    everything, told = make_graph(*split_free, numbers=["*"])
    assert everything.words == ["size", "year"] and "is not read as numbers" not in str(told)
    np.testing.assert_allclose(everything.features.toarray(), blocks[0], atol=1e-12)


@pytest.mark.parametrize(
    "size, told",
    [
        ([*SIZES[:5], "3,881", *SIZES[6:]], "1 cell such as '3,881': write 3.881 or 3881"),
        (
            [f"{number},000" for number in range(1, 9)],
            "8 cells such as '1,000': write 1.000 or 1000",
        ),
        ([*MILLIMETRES[:-1], "2 cm"], "7 cells such as '1 mm', with the units mm and cm"),
        (["12,6"] * 6 + ["7.5", "no"], "7 cells such as '12,6'"),
        (["1,234.5"] * 8, "8 cells such as '1,234.5'"),
        (["1.234,5"] * 8, "8 cells such as '1.234,5'"),
        (["12,6"] * 7 + ["13,7?"], "1 cell such as '13,7?'"),
    ],
    ids=["one cell", "all cells", "two units", "two marks", "both marks", "German", "one word"],
)
def test_a_column_of_nearly_numbers_says_why_it_is_not_read(size, told, split_free):
    made, notes = make_graph(node_table(split_free[0], size=size), split_free[1], numbers=["*"])
    assert made.words == ["year"]
    assert f"size is not read as numbers because of {told}" in notes
    assert "land is not read" not in "\n".join(notes)


def test_a_second_table_gets_the_features_of_the_first(files, tmp_path, capsys):
    chosen = ("--text", "title", "--numbers", "size,year", "--categories", "land")
    assert run("make", *files, *chosen, "--out", tmp_path / "first") == 0
    rows = [*zip(IDS[:3], TITLES, SIZES, YEARS, LANDS)]
    new = write(tmp_path / "new.csv", ("id", "title", "size", "year", "land"), rows)
    links = write(tmp_path / "links.csv", ("a", "b"), EDGES[:2])
    like = ("make", new, links, "--like", tmp_path / "first", "--out")
    capsys.readouterr()
    assert run(*like, tmp_path / "second") == 0
    told = capsys.readouterr().out
    assert "text from title; numbers from size and year; categories from land\n" in told
    assert f"next: graphgym-srnc predict RUN --graph {tmp_path / 'second'}" in told
    first, second = (np.load(tmp_path / name / "features.npy") for name in ("first", "second"))
    np.testing.assert_allclose(second, first[:3], atol=1e-6)
    assert (tmp_path / "first/words.txt").read_text() == (tmp_path / "second/words.txt").read_text()
    assert not (tmp_path / "second/labels.csv").exists()
    write(new, ("id", "size", "year", "land"), [(row[0], *row[2:]) for row in rows])
    error = refusal(run(*like, tmp_path / "third"), capsys)
    assert "--like: new.csv lacks title, of which the earlier" in error
    write(links, ("a", "b"), [(IDS[0], "new")])
    error = refusal(run(*like, tmp_path / "third"), capsys)
    assert "1 of 1 links name ids that are not in the node table" in error


def test_spectral_features_are_eigenvectors(split_free):
    made, _ = make_graph(*split_free, spectral=3)
    adjacency = networkx.to_numpy_array(networkx.Graph(EDGES), nodelist=IDS[:7])
    degree = adjacency.sum(1)
    normalised = adjacency / np.sqrt(degree[:, None] * degree)
    x = made.features.toarray() / np.sqrt(8)
    assert (x[7] == 0).all() and x[:7].T @ x[:7] == pytest.approx(np.eye(3), abs=1e-8)
    expected = x[:7] * np.linalg.eigvalsh(normalised)[:-4:-1]
    np.testing.assert_allclose(normalised @ x[:7], expected, atol=1e-8)
    assert (make_graph(*split_free, spectral=3)[0].features != made.features).nnz == 0


BAD = """
--text titel                         | --text: the table has no column 'titel'. Did you mean title?
--text title --id key                | --id: the table has no column 'key'. Its columns are id,
--text title --label class           | --label
--text title --label id --skip-missing | --label: id is the column of ids
--spectral 2 --label title           | --label: the 7 values of title hardly repeat
--numbers title                      | --numbers: title: 7 cells cannot
--numbers Syze                       | Did you mean size?
--embeddings absent.npy              | --embeddings
                                     | no column is chosen
--text title --like nowhere          | --like: nowhere is not a folder with a recipe of data make
--spectral 99                        | --spectral
--text title --max-words 0           | --max-words
--text title --ends a b              | edges.csv
"""


@pytest.mark.parametrize("case", BAD.strip("\n").split("\n"))
def test_a_bad_option_is_one_line_and_leaves_nothing(case, files, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words, told = case.split("|")
    before = sorted(path.name for path in tmp_path.iterdir())
    status = run("make", *files, *words.split(), "--out", "graph")
    assert told.strip() in refusal(status, capsys)
    assert sorted(path.name for path in tmp_path.iterdir()) == before


BAD_FILES = r"""
id,t\n1,a\n1,b\n                | 1,1\n      | '1' in lines 2 and 3
id,t\n1,a\n,b\n                 | 1,1\n      | without an id: line 3
id,t\n                          | 1,2\n      | a header and no rows
id,t\n1,"a\n2,b\n               | 1,2\n      | nodes.csv
id,t\n1,a\n2,b\n                | 1,3\n1,2\n | not in the node table: '3'. Ids are those of id
id,t\n1,a\n2\n                  | 1,2\n      | line 3 has 1 cell,
id,t\n1,a\n\n"2\n",b\n3\n       | 1,2\n      | line 6 has 1 cell,
id,t\n1,a\n2,b\n                | 1,2\n\n1\n   | line 3 is '1'
id,t\n1,a\n2,b\n                | 01,02\n    | Leading zeros differ: the nodes have '1'
id,t\n1,a\n2,b\n                | 01,02\n    | str; or leave out these links with --skip-missing
id,id\n1,a\n                    | 1,1\n      | its own name
                                | 1,2\n      | the file is empty
id,t\n1,a\n2,b\n                | from,to\n  | no rows
id,t\n1,a\n2,b\n                | 1\n        | two nodes on each line
id,t,split\n1,a,dev\n2,b,\n     | 1,2\n      | 1 has the part 'dev'
id,t\n1,a\n2,b\n                |            | the file is empty
u,v\n1,2\n2,3\n3,1\n            | k,s,t\n1,5,x\n2,6,y\n3,7,z\n | Are the two tables swapped?
u,v\n1,2\n2,1\n3,9\n            | k,s,t\n1,5,x\n2,6,y\n3,7,z\n | Are the two tables swapped?
a,b\n1,2\n2,3\n3,1\n            | k,s,t\n7,5,x\n8,6,y\n9,7,z\n | Its columns are k, s and t
id,t\n1,\xe9\n                  | 1,1\n      | UTF-8
"""


@pytest.mark.parametrize("case", BAD_FILES.strip("\n").split("\n"))
def test_a_bad_file_is_one_line_and_leaves_nothing(case, tmp_path, capsys):
    *content, told = (part.strip() for part in case.split("|"))
    inputs = (tmp_path / "nodes.csv", tmp_path / "edges.csv")
    for file, text in zip(inputs, content):
        file.write_bytes(text.encode().decode("unicode_escape").encode("latin-1"))
    status = run("make", *inputs, "--categories", "t", "--out", tmp_path / "graph")
    assert told in refusal(status, capsys)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["edges.csv", "nodes.csv"]


def test_inputs_that_are_no_tables(tmp_path, capsys):
    torch.save(HeteroData({"paper": {"x": torch.ones(2, 1)}}), tmp_path / "hetero.pt")
    torch.save(Data(edge_index=torch.ones(2, 1)), tmp_path / "data.pt")
    (tmp_path / "nodes.json").write_text('[{"id": 1}]')
    (tmp_path / "links.csv").write_text("1,1\n")
    cases = {"": "is not a graph", "hetero.pt": "AddMetaPaths", "data.pt": "--cfg own dataset.name"}
    for name, told in (cases | {"nodes.json links.csv": "a .json file of a graph"}).items():
        inputs = [tmp_path / part for part in name.split(" ")]
        assert told in refusal(run("make", *inputs, "--out", tmp_path / "made"), capsys)
        assert not (tmp_path / "made").exists()


# What a folder may replace.


def test_a_misspelt_file_is_compared_with_those_beside_it(files, capsys):
    nodes, links = files
    told = refusal(run("make", nodes, links.with_name("egdes.csv"), "--out", "graph"), capsys)
    assert "egdes.csv: the file cannot be read (No such file or directory)" in told
    assert "Did you mean edges.csv?" in told


def test_what_is_there_is_replaced_only_on_demand(files, tmp_path, capsys):
    out = tmp_path / "graph"
    assert run("make", *files, "--text", "title", "--out", out) == 0
    before = contents(out)
    digests = checksums.read(out)
    assert {checksums.FILE, *digests} == {*before}
    assert all(digests[name] == checksums.of(before[name]) for name in digests)
    words = ("make", *files, "--numbers", "size", "--out", out)
    assert run(*words) == 2 and "--overwrite" in capsys.readouterr().err
    with pytest.raises(TypeError):  # a write that fails
        made, _ = make_graph(*files, numbers=["size"])
        folder.write(made._replace(recipe={"no": object()}), out, True)
    assert contents(out) == before and not list(tmp_path.glob(".*"))
    assert run(*words, "--overwrite") == 0
    assert (out / "words.txt").read_text() == "size\n" and not list(tmp_path.glob(".*"))


def test_what_somebody_else_wrote_is_never_replaced(files, tmp_path, capsys):
    mine, made = tmp_path / "mine", tmp_path / "made"
    mine.mkdir()
    nodes, edges = (shutil.copy(file, mine / file.name) for file in files)
    assert run("make", *files, "--text", "title", "--out", made) == 0
    np.save(tmp_path / "more.npy", np.ones((8, 2)))

    def refused(out: Path, *words: object) -> str:
        before = contents(tmp_path)
        capsys.readouterr()
        error = refusal(run(*words, "--overwrite"), capsys)
        assert str(out) in error and contents(tmp_path) == before
        return error

    text = ("--text", "title", "--out")
    assert "mine/nodes.csv" in refused(mine, "make", nodes, edges, *text, mine)
    assert "edges.csv" in refused(mine, "make", *files, *text, mine)
    assert "edges.csv" in refused(mine, "example", mine, "--nodes", "200")
    assert "made/nodes.csv" in refused(made, "make", made / "nodes.csv", edges, *text, made)
    assert "reads" in refused(made, "make", *files, "--like", made, "--out", made)
    array = ("--embeddings", made / "features.npy")
    assert "reads" in refused(made, "make", *files, *array, "--out", made)
    for foreign in ("thesis.tex", "features.npz", "answers.csv"):
        (made / foreign).write_text("x")
        assert foreign in refused(made, "make", *files, *text, made)
        (made / foreign).unlink()
    (made / "below").mkdir()
    assert "below" in refused(made, "make", *files, *text, made)
    (made / "below").rmdir()
    (made / "split.csv").unlink()
    (made / "split.csv").symlink_to(files[0])
    assert "split.csv" in refused(made, "make", *files, *text, made)


def test_what_was_edited_by_hand_stays_and_is_told(files, tmp_path, capsys):
    out, words = tmp_path / "graph", ("--text", "title")
    assert run("make", *files, *words, "--out", out) == 0
    data_files.load(out)
    assert "no longer" not in capsys.readouterr().err
    labels = out / "labels.csv"
    labels.write_text(labels.read_text().replace("0,", "0,new ", 1))
    before = contents(out)
    assert run("make", *files, *words, "--out", out, "--overwrite") == 2
    assert "an edited labels.csv" in capsys.readouterr().err and contents(out) == before
    for _ in range(2):
        data_files.load(out)
    assert capsys.readouterr().err == f"note: {labels} is no longer as graphgym-srnc wrote it\n"
    assert run("make", *files, "--like", out, "--out", tmp_path / "other") == 0
    labels.unlink()  # as the error says, and nothing is left to lose
    assert folder.changed(out) == ["labels.csv"]
    assert run("make", *files, *words, "--out", out, "--overwrite") == 0
    assert folder.changed(out) == []
    (out / checksums.FILE).write_text("nothing")
    assert folder.changed(out) == [checksums.FILE]


def killed(number: int, replace: Callable) -> bool:
    """Replace in a process that is killed at a system call; whether it died."""
    child = os.fork()
    if child == 0:
        calls = itertools.count()

        def counted(call: Callable, *words, **named):
            if next(calls) == number:
                os.kill(os.getpid(), signal.SIGKILL)
            return call(*words, **named)

        for name in ("replace", "mkdir", "fsync", "rmdir", "unlink"):
            setattr(os, name, functools.partial(counted, getattr(os, name)))
        replace()
        os._exit(0)
    return os.waitpid(child, 0)[1] == signal.SIGKILL


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_killed_replacement_leaves_the_old_folder_or_the_new_one(files, tmp_path):
    out, start = tmp_path / "graph", tmp_path / "start"
    old, _ = make_graph(*files, numbers=["size"])
    new, _ = make_graph(*files, text=["title"])
    folder.write(new, out, False)
    after = contents(out)
    folder.write(old, out, True)
    before = contents(out)
    shutil.copytree(out, start)
    number = 0
    while killed(number, lambda: folder.write(new, out, True)):
        # Whoever reads finds it too.
        assert contents(data_files.locate(str(out), "", "path")) in (before, after)
        folder.write(new, out, True)
        assert contents(out) == after and not list(tmp_path.glob(".*old"))
        shutil.rmtree(out)
        shutil.copytree(start, out)
        number += 1
    assert number > 10 and contents(out) == after


# Names beside a graph.


@pytest.mark.parametrize("text", ["id\n1\n", "key\n1\n2\n", "id\n1\n1\n", "", 'id\n"1\n'])
def test_names_that_do_not_fit_are_refused(text, tmp_path):
    for name in ("nodes.csv", "words.txt"):
        (tmp_path / name).write_text(text if name == "nodes.csv" else "a\n")
        with pytest.raises(InputError, match=name):
            _names.of_folder(tmp_path, 2, 2)
        (tmp_path / name).unlink()


# The command, as a user types it.


def test_papers_with_common_authors_are_linked(tmp_path, monkeypatch):
    """By the code on the page, whose commands test_tutorials.py runs."""
    page = (Path(__file__).parents[1] / "docs/tutorials/own-graph.md").read_text(encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    data = HeteroData()
    data["paper"].x, data["paper"].y = torch.rand(6, 4), torch.tensor([0, 1, -1, 0, 1, -1])
    data["author"].num_nodes = 3
    ends = torch.tensor([[0, 0, 1, 1, 2, 2], [0, 1, 1, 2, 3, 4]])
    data["author", "writes", "paper"].edge_index = ends
    (metapaths,) = re.findall(r"^```python\n([^`]*AddMetaPaths.*?)^```$", page, re.M | re.S)
    exec(metapaths, {"torch": torch, "hetero": data})
    made = data_files.as_data(data_files.load(tmp_path / "papers.pt")[0], "papers.pt")
    assert made.edge_index.T.tolist() == [[0, 1], [1, 0], [1, 2], [2, 1], [3, 4], [4, 3]]
    assert made.y.tolist() == [0, 1, -1, 0, 1, -1]


# Tables as people have them.


@pytest.fixture
def messy_tables(tmp_path) -> tuple[Path, Path]:
    """Twenty nodes with whatever goes wrong in tables, none of which needs a person."""
    prices, kinds = ("19.99", "n/a", "7", "1234.5"), ("art", "law", "NaN", "")
    rows = [[f"{i:02d}", f"word{i % 2} and more", prices[i % 4], kinds[i % 4]] for i in range(20)]
    rows += [rows[3], [""] * 4]
    links = [(1.5, f"{i:02d}", f"{(i + 2) % 20:02d}") for i in range(20)]
    links += [links[0], (1, "02", "00"), (1, "05", "05")]
    nodes = write(tmp_path / "shop.csv", ("sku", "title", "price", "class"), rows)
    return nodes, write(tmp_path / "links.csv", ("weight", "source", "target"), links)


def test_what_a_person_would_correct_is_corrected_and_told(messy_tables, tmp_path, capsys):
    chosen = ("--text", "title", "--numbers", "price", "--out", tmp_path / "graph")
    assert run("make", *messy_tables, *chosen) == 0
    told = capsys.readouterr().out
    for text in (
        "1 row merged: equal",
        "5 cells read as no label: 'NaN'",
        "columns: ids from sku; classes from class; text from title; numbers from price\n",
        "5 cells read as empty: 'n/a'",
        "links join the columns source and target; not read: weight",
        "20 nodes, 20 links",
        "2 links merged: equal to another one or its reverse\n",
        "1 link from a node to itself left out\n",
    ):
        assert text in told, text
    sizes = {"labels_per_class": 1, "num_val": 2, "num_test": 2}
    task = shifts.find("file")(path=str(tmp_path / "graph"), **sizes)
    assert task.class_names == ("art", "law") and task.target.num_nodes == 20
    assert task.info["cleaned"] == {"self_loops": 0, "duplicates": 0, "one_way": 20}
    made, _ = make_graph(*messy_tables, numbers=["price"])
    values = np.array([19.99, np.nan, 7, 1234.5] * 5)
    expected = np.nan_to_num((values - np.nanmean(values)) / np.nanstd(values))
    np.testing.assert_allclose(made.features.toarray()[:, 0], expected)


def test_similar_classes_are_told(messy_tables):
    header, *rows = rows_of(messy_tables[0])
    rows[0][3] = "Art"
    write(messy_tables[0], header, rows)
    _, told = make_graph(*messy_tables, text=["title"])
    assert any("'Art' and 'art'" in note for note in told)
    write(messy_tables[0], header, [[*row[:3], ""] for row in rows])
    made, _ = make_graph(*messy_tables, text=["title"], label="class")
    assert folder.summary(made)[-1].startswith("0 classes have labels")


def test_limited_words_cut_texts_and_leading_zeros_are_told(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    nodes = [f"{n:03},{'ab'[n % 2]},{'red green' if n % 3 else 'blue red green'}" for n in range(9)]
    nodes[4] += " red" * 600
    Path("n.csv").write_text("\n".join(["id,label,title", *nodes]) + "\n")
    links = [f"{n:03},{n + 1:03}" for n in range(8)]
    Path("e.csv").write_text("\n".join(["from,to", *links]) + "\n")
    words = "data make n.csv e.csv --text title --min-nodes 1".split()
    assert main([*words, "--out", "all"]) == 0
    told = capsys.readouterr().out
    assert "words: only" not in told
    assert "1 text longer than 2,000 characters" in told
    assert "leading zeros, such as '000'" in told and "dtype=str" in told
    assert main([*words, "--out", "two", "--max-words", "2"]) == 0
    assert "words: only the 2 most frequent ones are features (--max" in capsys.readouterr().out

    Path("e.csv").write_text("from,to\n" + "".join(f"{n},{n + 1}\n" for n in range(1, 8)))
    line = refusal(main([*words, "--id", "id", "--out", "bad"]), capsys)
    assert "Leading zeros differ: the nodes have '001', the links '1'" in line
    plain = [line.removeprefix("00").split(",")[0] + ",a,red" for line in nodes]
    Path("n.csv").write_text("\n".join(["id,label,title", *plain]) + "\n")
    assert main([*words, "--out", "plain"]) == 0
    told = capsys.readouterr().out
    assert "leading zeros" not in told and "longer than" not in told


# Files of other programs.


def test_tables_in_parquet_and_excel(tmp_path, monkeypatch, capsys):
    frame = pandas.DataFrame({"id": [1, 2, None], "x": ["a", None, "b"]}).astype({"id": "Int64"})
    frame.to_parquet(tmp_path / "nodes.parquet")
    assert table_of(tmp_path / "nodes.parquet") == {"id": ["1", "2", ""], "x": ["a", "", "b"]}
    frame = pandas.DataFrame({"id": ["007", 8, 9.5], "title": ["a", None, "NA"]})
    frame.to_excel(tmp_path / "nodes.xlsx", index=False)
    expected = {"id": ["007", "8", "9.5"], "title": ["a", "", "NA"]}
    assert table_of(tmp_path / "nodes.xlsx") == expected

    monkeypatch.setitem(sys.modules, "openpyxl", None)
    assert run("make", tmp_path / "nodes.xlsx", "links.csv", "--out", tmp_path / "graph") == 2
    assert "pip install 'graphgym-srnc[parquet,excel]'" in capsys.readouterr().err
