"""Links between nodes that share a value of a column."""

from __future__ import annotations

import itertools
import re

import numpy as np
import pandas
import pytest

from graphgym_srnc import from_frames
from graphgym_srnc.cli.main import main
from graphgym_srnc.data import shared_values
from graphgym_srnc.errors import InputError

AUTHORS = ["Ana", "Bo", "Ana", "", "Ana", "Bo", "?", "Cy"]
NODES = pandas.DataFrame(
    {
        "id": [*"abcdefgh"],
        "author": AUTHORS,
        "size": [3, 1, 4, 1, 5, 9, 2, 6],
        "label": ["x", "y", "x", "y", "x", "x", "", ""],
    }
)
DISTINCT = NODES.assign(size=range(8))
PAIRS = {(0, 2), (0, 4), (2, 4), (1, 5)}  # of Ana and of Bo


def pairs(edges) -> set[tuple[int, int]]:
    return {(min(a, b), max(a, b)) for a, b in np.asarray(edges).T.tolist()}


def test_nodes_of_one_value_are_linked_without_a_table_of_links():
    made = from_frames(NODES, id="id", link_by="author", numbers="size")
    assert pairs(made.edge_index) == PAIRS
    assert made.recipe["link_by"] == {"columns": ["author"]}
    (note,) = [note for note in made.notes if note.startswith("author: ")]
    assert note.endswith("4 links between nodes that share a value; of 4 between labelled nodes,"
                         " 3 join one class")  # fmt: skip


@pytest.mark.parametrize("size", [1, 2, 3, 10, 11, 12, 30])
def test_each_node_is_linked_to_at_most_ten_others(size):
    """Those are the nearest ones of a ring in the order of the table, here counted by hand."""
    cells = [*itertools.chain(*zip(["a"] * size, [""] * size))]
    found = shared_values._rings(cells)
    near = range(1, shared_values.NEAREST + 1)
    wanted = {
        (2 * min(i, j), 2 * max(i, j))
        for i, j in itertools.combinations(range(size), 2)
        if (j - i) in near or (i - j) % size in near
    }
    assert pairs(found) == wanted
    assert len(wanted) == found.shape[1]  # no link occurs twice


def test_they_join_the_links_of_a_table_at_their_mean_weight():
    links = pandas.DataFrame({"source": [*"ab"], "target": [*"cd"], "days": [2, 4]})
    made = from_frames(NODES, links, id="id", link_by="author", weight="days", numbers="size")
    weights = dict(zip(map(tuple, made.edge_index.T.tolist()), made.edge_weight.tolist()))
    assert pairs(made.edge_index) == PAIRS | {(1, 3)}
    assert weights[0, 2] == 2 + 3 and weights[1, 3] == 4 and weights[1, 5] == 3


def test_a_number_that_links_nodes_is_still_one_of_all_numbers():
    made = from_frames(NODES, id="id", link_by="size", numbers="*")
    assert "size" in made.feature_names


def test_a_later_table_is_linked_by_the_same_columns(tmp_path, capsys):
    NODES.to_csv(tmp_path / "nodes.csv", index=False)
    NODES[:6].to_csv(tmp_path / "later.csv", index=False)
    first, later = (str(tmp_path / name) for name in ("first", "later"))
    words = ["data", "make", str(tmp_path / "nodes.csv"), "--link-by", "author"]
    assert main([*words, "--numbers", "size", "--out", first]) == 0
    table = str(tmp_path / "later.csv")
    assert main(["data", "make", table, "--like", first, "--out", later]) == 0
    capsys.readouterr()
    assert pairs(pandas.read_csv(tmp_path / "later" / "edges.csv").T) == PAIRS
    NODES.drop(columns="author").to_csv(table, index=False)
    assert main(["data", "make", table, "--like", first, "--out", later, "--overwrite"]) == 2
    assert "--link-by: the table has no column 'author'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("column", "problem"),
    [
        ("size", "no two nodes share a value of size. Choose a column whose values repeat"),
        ("id", "id is the column of ids"),
        ("label", "label is the column of labels"),
        ("autor", "Did you mean author?"),
    ],
)
def test_a_column_that_cannot_link_is_refused(column, problem):
    with pytest.raises(InputError, match=re.escape(problem)):
        from_frames(DISTINCT, id="id", label="label", link_by=column, categories="author")


def test_a_table_alone_is_told_of_links_by_values(tmp_path, capsys):
    NODES.to_csv(tmp_path / "nodes.csv", index=False)
    words = ["data", "make", str(tmp_path / "nodes.csv"), "--numbers", "size"]
    assert main([*words, "--out", str(tmp_path / "graph")]) == 2
    assert "--link-by COLUMN alone links rows that share a value" in capsys.readouterr().err
    with pytest.raises(InputError, match="edges: it is a NoneType"):
        from_frames(NODES, id="id", numbers="size")


def test_a_column_whose_values_tell_classes_is_proposed():
    """Teams have one class each, shifts do not, and a third of the links join one class."""
    number = np.arange(64)
    nodes = pandas.DataFrame(
        {
            "id": [f"n{i}" for i in number],
            "team": [f"t{i // 4}" for i in number],
            "shift": [f"s{i % 7}" for i in number],
            "size": number % 5,
            "label": ["red" if i // 4 % 2 else "blue" for i in number],
        }
    )
    ends = nodes["id"].to_numpy()
    links = pandas.DataFrame({"source": ends, "target": np.roll(ends, -3)})
    (note,) = [note for note in _made(nodes, links).notes if "`link_by" in note]
    assert note.startswith("nodes that share a value of team are often of one class (96 of 96")
    good = links.assign(target=np.roll(ends, -8))  # all of one class
    assert not any("`link_by" in note for note in _made(nodes, good).notes)
    few = nodes.assign(label=nodes["label"].where(number < 12, ""))
    assert not any("`link_by" in note for note in _made(few, links).notes)


def _made(nodes, links):
    return from_frames(nodes, links, id="id", label="label", numbers="size")
