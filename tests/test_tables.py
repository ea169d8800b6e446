"""From a user's own tables and texts to a graph folder and its task."""

from __future__ import annotations

import contextlib
import csv
import gzip
import hashlib
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Callable

import networkx
import numpy as np
import pandas
import pytest
from sklearn.feature_extraction.text import (
    ENGLISH_STOP_WORDS,
    CountVectorizer,
    TfidfVectorizer,
)

from graphgym_srnc import shifts
from graphgym_srnc.cli.main import build_parser, main
from graphgym_srnc.core.errors import InputError
from graphgym_srnc.data import features, folder, frames, labels, tables
from graphgym_srnc.data import files as data_files
from graphgym_srnc.data import names as _names
from graphgym_srnc.own import example
from graphgym_srnc.own.tables import formats, homogeneous, profile

TITLES = [
    'Graph networks, "quoted"',
    "Graph mining and networks",
    "<b>Query</b> plans & graphs",
    "Query plans\nin two lines",
    "Größe der Graphen",
    "plans",
    "networks",
    "",
]
IDS = ["007", "7", "é", "a,b", "1.0", "x y", "Z", "zz"]
CLASSES = ["law", "art", "law", "art", "", "-1", "law, new", "law, new"]
EDGES = [
    ("007", "7"),
    ("7", "é"),
    ("é", "a,b"),
    ("a,b", "1.0"),
    ("1.0", "x y"),
    ("x y", "Z"),
    ("007", "Z"),
]


def write(
    path: Path, header: tuple[str, ...], rows: list, mark: str = ",", bom: bool = False
) -> Path:
    with open(path, "w", encoding="utf-8-sig" if bom else "utf-8", newline="") as file:
        csv.writer(file, delimiter=mark).writerows([header, *rows])
    return path


@pytest.fixture
def files(tmp_path):
    sizes, years = ["1", "2.5", "", "-4", "1e2", "0", "3", "3"], [str(2000 + i) for i in range(8)]
    lands = ["DE", "FR", "DE", "", "<i>", "FR", "DE", "FR"]
    parts = ["train", "train", "Train", "val", "", "", "test", ""]
    nodes = write(
        tmp_path / "nodes.csv",
        ("id", "title", "size", "year", "land", "label", "split"),
        list(zip(IDS, TITLES, sizes, years, lands, CLASSES, parts)),
        bom=True,
    )
    return nodes, write(tmp_path / "edges.csv", ("source", "target"), EDGES)


def run(*words: object) -> int:
    return main([str(word) for word in ("data", *words)])


def table_of(path: Path) -> dict[str, list[str]]:
    return formats.table(path, []).to_dict("list")


def rows_of(path: Path) -> list[list[str]]:
    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.reader(file))


# Node table and list of links.


def test_a_table_becomes_the_task_that_file_reads(files, tmp_path, capsys):
    out = tmp_path / "graph"
    options = ("--text", "title", "--min-nodes", 1, "--stop-words", "none")
    assert run("make", *files, *options, "--out", out) == 0
    text = capsys.readouterr().out
    assert "8 nodes, 7 links" in text and "6 labelled nodes of 3 classes" in text
    assert "! 1 nodes have no feature" in text
    assert f"dataset.name {out}" in text and "! 1 nodes have no link" in text
    task = shifts.find("file")(path=str(out))
    assert task.oracle is None and task.target.y_true.tolist() == [1, 0, 1, 0, -1, -1, 2, 2]
    names = _names.of_folder(out, 8, task.num_features)
    assert names.ids == IDS and names.texts == TITLES
    learnt = TfidfVectorizer()
    expected = learnt.fit_transform(TITLES).toarray()
    assert names.words == learnt.get_feature_names_out().tolist()
    np.testing.assert_allclose(task.target.x.numpy(), expected, atol=1e-6)
    wanted = networkx.Graph([(IDS.index(a), IDS.index(b)) for a, b in EDGES])
    edges = task.target.edge_index.T.tolist()
    assert {tuple(sorted(edge)) for edge in edges} == {tuple(sorted(edge)) for edge in wanted.edges}


@pytest.fixture
def split_free(files):
    """The same without a split, which names a class without a training node."""
    header, *rows = rows_of(files[0])
    names = (header[0].lstrip("\ufeff"), *header[1:-1])
    return write(files[0], names, [row[:-1] for row in rows]), files[1]


def test_a_split_column_is_the_tasks_split(files, tmp_path):
    assert run("make", *files, "--text", "title", "--out", tmp_path / "graph") == 0
    task = shifts.find("file")(path=str(tmp_path / "graph"))
    assert (task.train.tolist(), task.val.tolist(), task.test.tolist()) == ([0, 1, 2], [3], [6])
    assert task.class_names == ("art", "law") and task.target.y[6] == task.unknown


def test_numbers_categories_and_embeddings_stand_side_by_side(split_free, tmp_path):
    array = np.random.default_rng(0).normal(size=(8, 3))
    np.save(tmp_path / "own.npy", array)
    made, told = homogeneous.make_graph(
        *split_free, numbers=["size", "year"], categories=["land"], embeddings=tmp_path / "own.npy"
    )
    size = np.array([1, 2.5, np.nan, -4, 100, 0, 3, 3])
    size = np.nan_to_num((size - np.nanmean(size)) / np.nanstd(size))
    year = (np.arange(8) - 3.5) / np.std(np.arange(8))
    land = np.array(
        [
            [word == value for value in ("<i>", "DE", "FR")]
            for word in rows_of_column(split_free[0], "land")
        ],
        float,
    )
    blocks = [np.stack([size, year], 1), land, array]
    expected = np.concatenate([block / np.sqrt((block**2).sum() / 8) for block in blocks], 1)
    np.testing.assert_allclose(made.features.toarray(), expected, atol=1e-12)
    assert made.words == [
        "size",
        "year",
        "land=<i>",
        "land=DE",
        "land=FR",
        "embedding 0",
        "embedding 1",
        "embedding 2",
    ]
    assert told == [
        "edges.csv: links join the columns source and target",
        "label: 1 cell read as no label: '-1'",
        "columns: id id; label label; number size and year; category land; not read: "
        "title (--text, --numbers and --categories read columns)",
    ]
    everything, _ = homogeneous.make_graph(*split_free, numbers=["*"])
    assert everything.words == ["size", "year"]
    np.testing.assert_allclose(everything.features.toarray(), blocks[0], atol=1e-12)


def rows_of_column(path: Path, name: str) -> list[str]:
    header, *rows = rows_of(path)
    return [row[[cell.lstrip("\ufeff") for cell in header].index(name)] for row in rows]


def test_counts_and_stop_words_are_scikit_learns(split_free):
    texts = [
        "\n".join(filter(None, pair)) for pair in zip(TITLES, rows_of_column(split_free[0], "land"))
    ]
    options = features.TextOptions(counts=True, max_words=4, min_nodes=2, stop_words="english")
    made, _ = homogeneous.make_graph(*split_free, text=["title", "land"], words=options)
    oracle = CountVectorizer(max_features=4, min_df=2, stop_words="english")
    assert (made.features.toarray() == oracle.fit_transform(texts).toarray()).all()
    assert made.words == oracle.get_feature_names_out().tolist() and made.texts == texts


def test_a_second_table_gets_the_features_of_the_first(files, tmp_path, capsys):
    chosen = ("--text", "title", "--numbers", "size,year", "--categories", "land")
    assert run("make", *files, *chosen, "--out", tmp_path / "first") == 0
    header, *rows = rows_of(files[0])
    new = write(
        tmp_path / "new.csv", ("id", "title", "size", "year", "land"), [row[:5] for row in rows[:3]]
    )
    links = write(tmp_path / "links.csv", ("a", "b"), EDGES[:2])
    capsys.readouterr()
    assert run("make", new, links, "--like", tmp_path / "first", "--out", tmp_path / "second") == 0
    told = capsys.readouterr().out
    assert "columns: id id; text title; number size and year; category land\n" in told
    assert f"next: graphgym-srnc predict RUN --graph {tmp_path / 'second'}" in told
    first, second = (np.load(tmp_path / name / "features.npy") for name in ("first", "second"))
    np.testing.assert_allclose(second, first[:3], atol=1e-6)
    assert (tmp_path / "first/words.txt").read_text() == (tmp_path / "second/words.txt").read_text()
    assert not (tmp_path / "second/labels.csv").exists()
    less = write(
        tmp_path / "less.csv",
        ("id", "size", "year", "land"),
        [[row[0], *row[2:5]] for row in rows[:3]],
    )
    more = ("--like", tmp_path / "first", "--out", tmp_path / "third")
    assert run("make", less, links, *more) == 2
    assert "first: got 'title'" in capsys.readouterr().err


def test_a_file_that_is_not_there(tmp_path, split_free, capsys):
    nodes, links = split_free
    assert run("make", nodes.with_name("node.csv"), links, "--out", tmp_path / "out") == 2
    error = capsys.readouterr().err
    assert "node.csv: the file cannot be read (No such" in error and f"mean {nodes.name}?" in error


def test_spectral_features_are_eigenvectors(split_free):
    made, _ = homogeneous.make_graph(*split_free, spectral=3)
    adjacency = networkx.to_numpy_array(networkx.Graph(EDGES), nodelist=IDS[:7])
    degree = adjacency.sum(1)
    normalised = adjacency / np.sqrt(degree[:, None] * degree)
    x = made.features.toarray() / np.sqrt(8)
    assert (x[7] == 0).all() and x[:7].T @ x[:7] == pytest.approx(np.eye(3), abs=1e-8)
    np.testing.assert_allclose(
        normalised @ x[:7], x[:7] * np.linalg.eigvalsh(normalised)[:-4:-1], atol=1e-8
    )
    assert (homogeneous.make_graph(*split_free, spectral=3)[0].features != made.features).nnz == 0


@pytest.mark.parametrize("mark, suffix", [(";", ".csv"), ("\t", ".tsv"), ("\t", ".txt")])
def test_other_separators(mark, suffix, tmp_path):
    path = write(tmp_path / f"nodes{suffix}", ("id", "a, b"), [("1", "x, y"), ("2", "")], mark)
    assert table_of(path) == {"id": ["1", "2"], "a, b": ["x, y", ""]}


def connected(path: Path, ids: list[str], ends: tuple[str, ...] = ()) -> tuple:
    links, place = formats.table(path, [], {*ids}), pandas.Index(ids)
    edges, unknown = frames.connected(links, frames.ends(links, ends, place, path.name), place)
    return edges.tolist(), unknown


def test_links_with_and_without_a_header(tmp_path):
    ids, path = ["1", "2", "03"], tmp_path / "edges.txt"
    path.write_text("# a comment\n1 2\n2 03 9.5\n\n")
    assert connected(path, ids)[0] == [[0, 1], [1, 2]]
    links = write(
        tmp_path / "edges.csv", ("weight", "to", "from"), [("3", "1", "2"), ("3", "1", "4")]
    )
    for ends in (("from", "to"), ()):  # usual names are found wherever they stand
        assert connected(links, ids, ends) == ([[1], [0]], {"4": 1})
    path.write_text("x 1\n1 2\n")
    assert connected(path, ids)[1] == {"x": 1}


def test_parquet_keeps_whole_numbers(tmp_path):
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow", reason="pandas reads .parquet with pyarrow alone")
    frame = pandas.DataFrame({"id": [1, 2, None], "x": ["a", None, "b"]}).astype({"id": "Int64"})
    frame.to_parquet(tmp_path / "nodes.parquet")
    assert table_of(tmp_path / "nodes.parquet") == {"id": ["1", "2", ""], "x": ["a", "", "b"]}


def test_numbers_with_gaps_and_leading_zeros_are_names(split_free, tmp_path):
    cases = (
        (["10", "30", "10", "30", "", "-1", "9", "9"], ("9", "10", "30")),
        (["01", "02", "01", "02", "", "", "01", "02"], ("01", "02")),
    )
    for number, (cells, names) in enumerate(cases):
        header, *rows = rows_of(split_free[0])
        write(split_free[0], header, [row[:-1] + [label] for row, label in zip(rows, cells)])
        assert run("make", *split_free, "--text", "title", "--out", tmp_path / str(number)) == 0
        task = shifts.find("file")(
            path=str(tmp_path / str(number)), labels_per_class=1, num_val=1, num_test=1
        )
        assert task.class_names == names and task.target.y_true[0] == names.index(cells[0])


BAD = [
    (("--text", "titel"), "titel", None),
    (("--text", "title", "--id", "key"), "--id", None),
    (("--text", "title", "--label", "class"), "--label", None),
    (("--numbers", "title"), "--numbers title", None),
    (("--embeddings", "absent.npy"), "--embeddings", None),
    ((), "no column is chosen", "--spectral"),
    (("--text", "title", "--like", "nowhere"), "--like", None),
    (("--spectral", "99"), "--spectral", None),
    (("--text", "title", "--max-words", "0"), "--max-words", None),
    (("--text", "title", "--node", "paper"), "--node", None),
    (("--text", "title", "--ends", "a", "b"), "edges.csv", None),
]


@pytest.mark.parametrize("words, key, more", BAD, ids=[" ".join(case[0]) for case in BAD])
def test_a_bad_option_is_one_line_and_leaves_nothing(
    words, key, more, files, tmp_path, capsys, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    before = sorted(path.name for path in tmp_path.iterdir())
    assert run("make", *files, *words, "--out", "graph") == 2
    told = capsys.readouterr().err
    assert told.count("\n") == 1 and key in told and (more or "") in told
    assert sorted(path.name for path in tmp_path.iterdir()) == before


@pytest.mark.parametrize(
    "nodes, edges, told",
    [
        ("id,t\n1,a\n1,b\n", "1,1\n", "id '1' occurs"),
        ("id,t\n1,a\n,b\n", "1,1\n", "row 2 has no id"),
        ("id,t\n", "1,2\n", "a header and no rows"),
        ('id,t\n1,"a\n2,b\n', "1,2\n", "nodes.csv"),
        ("id,t\n1,a\n2,b\n", "1,3\n1,2\n", "not in the node table: '3'"),
        ("id,t\n1,a\n2\n", "1,2\n", "row 2 has 1 cell(s)"),
        ("id,id\n1,a\n", "1,1\n", "its own name"),
        ("", "1,2\n", "the file is empty"),
        ("id,t\n1,a\n2,b\n", "from,to\n", "no link"),
        ("id,t\n1,a\n2,b\n", "1\n", "two nodes on each line"),
        ("id,t,split\n1,a,dev\n2,b,\n", "1,2\n", "1 has the part 'dev'"),
        ("id,t,split\n1,a,val\n2,b,\n", "1,2\n", "node 1 has no label"),
        ("id,t\n1,a\n2,b\n", "", "the file is empty"),
    ],
    ids=lambda value: value[:20] if isinstance(value, str) else None,
)
def test_a_bad_file_is_one_line_and_leaves_nothing(nodes, edges, told, tmp_path, capsys):
    (tmp_path / "nodes.csv").write_text(nodes)
    (tmp_path / "edges.csv").write_text(edges)
    inputs = (tmp_path / "nodes.csv", tmp_path / "edges.csv")
    assert run("make", *inputs, "--categories", "t", "--out", tmp_path / "graph") == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and told in error
    assert sorted(path.name for path in tmp_path.iterdir()) == ["edges.csv", "nodes.csv"]


def test_other_encodings_and_wrong_inputs(files, tmp_path, capsys):
    (tmp_path / "latin.csv").write_bytes("id,t\n1,é\n".encode("latin-1"))
    for words, told in (
        ((tmp_path / "latin.csv", files[1]), "UTF-8"),
        ((files[0],), "no links"),
        ((tmp_path / "absent.csv", files[1]), "absent"),
        ((tmp_path / "absent.pt",), "absent.pt"),
    ):
        assert run("make", *words, "--out", tmp_path / "graph") == 2
        assert told in capsys.readouterr().err


def test_what_is_there_is_replaced_only_on_demand(files, tmp_path, capsys):
    out = tmp_path / "graph"
    assert run("make", *files, "--text", "title", "--out", out) == 0
    before = next(out.glob("features.*")).read_bytes()
    assert run("make", *files, "--numbers", "size", "--out", out) == 2
    assert "--overwrite" in capsys.readouterr().err
    assert before in [path.read_bytes() for path in out.iterdir()]
    assert run("make", *files, "--numbers", "size", "--out", out, "--overwrite") == 0
    assert (out / "words.txt").read_text() == "size\n"
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("x")
    assert run("make", *files, "--numbers", "size", "--out", tmp_path / "mine", "--overwrite") == 2
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["thesis.tex"]
    assert not list(tmp_path.glob(".*"))


def test_a_failed_write_keeps_the_old_folder(files, tmp_path):
    made, _ = homogeneous.make_graph(*files, numbers=["size"])
    folder.write(made, tmp_path / "graph", False)
    with pytest.raises(TypeError):
        folder.write(made._replace(recipe={"no": object()}), tmp_path / "graph", True)
    assert (tmp_path / "graph" / "edges.csv").is_file() and not list(tmp_path.glob(".*"))


def contents(path: Path) -> dict[str, bytes]:
    return {
        str(file.relative_to(path)): file.read_bytes()
        for file in sorted(path.rglob("*"))
        if file.is_file()
    }


def test_a_folder_of_the_user_is_never_replaced(files, tmp_path, capsys):
    mine = tmp_path / "mine"
    mine.mkdir()
    nodes, edges = (shutil.copy(file, mine / file.name) for file in files)
    (mine / "notes.md").write_text("years of work")
    before = contents(tmp_path)
    for words in (
        ("make", nodes, edges, "--text", "title", "--out", mine, "--overwrite"),
        ("make", *files, "--text", "title", "--out", mine, "--overwrite"),
        ("example", mine, "--nodes", "200", "--overwrite"),
    ):
        assert run(*words) == 2
        error = capsys.readouterr().err
        assert error.count("\n") == 1 and ("notes.md" in error or "nodes.csv" in error)
    (mine / "notes.md").unlink()
    del before["mine/notes.md"]
    # Two tables alone are of nobody but the user, whatever their names.
    assert run("make", *files, "--text", "title", "--out", mine, "--overwrite") == 2
    assert "edges.csv" in capsys.readouterr().err and contents(tmp_path) == before


def test_what_was_put_beside_our_files_stays(files, tmp_path, capsys):
    out = tmp_path / "graph"
    assert run("make", *files, "--text", "title", "--out", out) == 0
    assert json.loads((out / folder.MARKER).read_text())["files"] == {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(out.iterdir())
        if path.name != folder.MARKER
    }
    for foreign in ("thesis.tex", "features.npz", "answers.csv"):
        (out / foreign).write_text("x")
        before = contents(out)
        assert run("make", *files, "--text", "title", "--out", out, "--overwrite") == 2
        assert foreign in capsys.readouterr().err and contents(out) == before
        (out / foreign).unlink()
    (out / "below").mkdir()
    assert run("make", *files, "--text", "title", "--out", out, "--overwrite") == 2
    assert "below" in capsys.readouterr().err
    (out / "below").rmdir()
    (out / "split.csv").unlink()
    (out / "split.csv").symlink_to(tmp_path / "nodes.csv")
    assert run("make", *files, "--text", "title", "--out", out, "--overwrite") == 2
    assert "split.csv" in capsys.readouterr().err and (out / "split.csv").is_symlink()


def test_what_was_edited_by_hand_stays_and_is_told(files, tmp_path, capsys):
    out, words = tmp_path / "graph", ("--text", "title")
    assert run("make", *files, *words, "--out", out) == 0
    data_files.load(out)
    assert "no longer" not in capsys.readouterr().err
    labels = out / "labels.csv"
    labels.write_text(labels.read_text().replace("0,", "0,new ", 1))
    before = contents(out)
    assert run("make", *files, *words, "--out", out, "--overwrite") == 2
    error = capsys.readouterr().err
    assert "an edited labels.csv" in error and contents(out) == before
    for _ in range(2):
        data_files.load(out)
    assert capsys.readouterr().err == f"note: {labels} is no longer as graphgym-srnc wrote it\n"
    assert run("make", *files, "--like", out, "--out", tmp_path / "other") == 0
    labels.unlink()  # as the error says, and nothing is left to lose
    assert folder.changed(out) == ["labels.csv"]
    assert run("make", *files, *words, "--out", out, "--overwrite") == 0
    assert folder.changed(out) == []
    (out / folder.MARKER).write_text('{"files": {')
    assert folder.changed(out) == [folder.MARKER]


def test_a_folder_that_is_replaced_while_it_is_read(files, tmp_path, monkeypatch):
    out, read = tmp_path / "graph", tables.read
    assert run("make", *files, "--text", "title", "--out", out) == 0

    def slow(*args):
        monkeypatch.undo()
        found = read(*args)
        assert run("make", *files, "--numbers", "size", "--out", out, "--overwrite") == 0
        return found

    monkeypatch.setattr(tables, "read", slow)
    with pytest.raises(InputError, match="another process has replaced the folder"):
        data_files.load(out)


def test_inputs_within_the_output_are_refused(files, tmp_path, capsys):
    out, text = tmp_path / "graph", ("--text", "title")
    assert run("make", *files, *text, "--out", out) == 0
    np.save(tmp_path / "more.npy", np.ones((8, 2)))
    before = contents(out)
    for words in (
        (out / "nodes.csv", out / "edges.csv", *text),
        (*files, "--like", out),
        (*files, "--embeddings", out / "features.npy"),
    ):
        assert run("make", *words, "--out", out, "--overwrite") == 2
        assert str(out) in capsys.readouterr().err and contents(out) == before


STEPS = ("replace", "mkdir", "fsync", "rmdir", "unlink")


def stopped(monkeypatch, after: int, stop) -> list[str]:
    """Have ``stop(name)`` called instead of the system call of this number."""
    done: list[str] = []

    def at(name: str, call):
        def counted(*words, **named):
            done.append(name)
            if len(done) - 1 == after:
                stop()
            return call(*words, **named)

        return counted

    for name in STEPS:
        monkeypatch.setattr(os, name, at(name, getattr(os, name)))
    return done


def states(files, tmp_path) -> tuple[Path, Callable, dict, dict]:
    """A graph folder, what writes it anew, and its content before and after."""
    out = tmp_path / "graph"
    old, _ = homogeneous.make_graph(*files, numbers=["size"])
    new, _ = homogeneous.make_graph(*files, text=["title"])
    folder.write(new, out, False)
    after = contents(out)
    folder.write(old, out, True)
    return out, lambda: folder.write(new, out, True), contents(out), after


@pytest.mark.parametrize("error", [KeyboardInterrupt, PermissionError])
def test_a_stopped_replacement_leaves_the_old_folder_or_the_new_one(files, tmp_path, error):
    out, replace, before, after = states(files, tmp_path)
    start = tmp_path / "start"
    shutil.copytree(out, start)

    def stop() -> None:
        raise error

    for number in range(1000):
        with pytest.MonkeyPatch.context() as patch:
            done = stopped(patch, number, stop)
            with contextlib.suppress(KeyboardInterrupt, InputError):
                replace()
        assert contents(out) in (before, after)
        if len(done) <= number:
            break
        folder.check_place(out, True)
        assert contents(out) in (before, after)
        replace()
        assert contents(out) == after and not list(tmp_path.glob(".*"))
        shutil.rmtree(out)
        shutil.copytree(start, out)
    assert number > 10 and contents(out) == after


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_killed_replacement_is_put_in_order_by_the_next_command(files, tmp_path):
    out, replace, before, after = states(files, tmp_path)
    start = tmp_path / "start"
    shutil.copytree(out, start)
    absent = 0
    for number in range(1000):
        child = os.fork()
        if child == 0:
            stopped(pytest.MonkeyPatch(), number, lambda: os.kill(os.getpid(), signal.SIGKILL))
            replace()
            os._exit(0)
        killed = os.waitpid(child, 0)[1] == signal.SIGKILL
        absent += not out.exists()
        # Whoever reads finds it too.
        assert contents(data_files.locate(str(out), "", "path")) in (before, after)
        assert contents(out) in (before, after)
        if not killed:
            break
        replace()
        assert contents(out) == after and not list(tmp_path.glob(".*"))
        shutil.rmtree(out)
        shutil.copytree(start, out)
    assert number > 10 and absent == 1 and contents(out) == after


def test_two_processes_do_not_replace_one_folder_at_a_time(files, tmp_path):
    out, replace, before, _ = states(files, tmp_path)
    with folder.whole(out, True) as new:
        with pytest.raises(InputError, match="another process"):
            replace()
        assert contents(out) == before and new.is_dir()


# Names beside a graph.


def test_names_are_read_as_they_were_written(tmp_path):
    texts = ['a, "b"\nc', "<script>", "", "a\u2028line", "Größe"]
    write(tmp_path / "nodes.csv", ("id", "text"), list(zip(IDS, texts)), bom=True)
    (tmp_path / "words.txt").write_text("one\ntwo words\n")
    assert _names.of_folder(tmp_path, 5, 2) == (IDS[:5], texts, ["one", "two words"])
    assert _names.of_folder(tmp_path / "absent") == (None, None, None)


@pytest.mark.parametrize(
    "name, content",
    [
        ("nodes.csv", "id\n1\n"),
        ("nodes.csv", "key\n1\n2\n"),
        ("nodes.csv", "id\n1\n1\n"),
        ("nodes.csv", ""),
        ("nodes.csv", "id,text\n1,a\n2\n"),
        ("nodes.csv", 'id\n"1\n'),
        ("words.txt", "a\n"),
        ("words.txt", "a\nb\nc\n"),
    ],
)
def test_names_that_do_not_fit_are_refused(name, content, tmp_path):
    (tmp_path / name).write_text(content)
    with pytest.raises(InputError, match=name):
        _names.of_folder(tmp_path, 2, 2)


# The command, as a user types it.


def test_the_walk_to_predictions_on_the_example(tmp_path):
    def type_in(*words: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "graphgym_srnc", *words],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    example.write(tmp_path / "demo", num_nodes=300)
    make = ("data", "make", "demo/nodes.csv", "demo/edges.csv", "--text", "title")
    assert "run --cfg own dataset.name demo/graph" in type_in(*make, "--out", "demo/graph")
    fast = (
        "gnn.dim_inner",
        "16",
        "srnc_plus.rounds",
        "1",
        "srnc_plus.fit_steps",
        "20",
        "srnc_plus.steps",
        "10",
        "srnc_plus.cluster_steps",
        "5",
    )
    assert "own" in type_in(
        "run",
        "--cfg",
        "own",
        "--no-tensorboard",
        "--no-figures",
        "dataset.name",
        "demo/graph",
        *fast,
    )
    result = json.loads((tmp_path / "results/own-demo-graph/0/result.json").read_text())
    assert result["selection"] == "last" and result["task"] == "file/demo/graph"


def test_the_example_is_what_it_says(tmp_path):
    example.write(tmp_path / "demo", num_nodes=700, seed=3)
    nodes, answers = (
        rows_of(tmp_path / "demo" / name)[1:] for name in ("nodes.csv", "answers.csv")
    )
    labels, topics = [row[3] for row in nodes], [row[1] for row in answers]
    assert len({row[0] for row in nodes}) == 700 and set(topics) == set(example.TOPICS)
    assert all(label in ("", topic) for label, topic in zip(labels, topics))
    assert set(labels) == {"", *example.TOPICS[: -example.UNLABELLED]}
    assert 25 <= sum(map(bool, labels)) <= 80
    assert len({*example.WORDS}) == len(example.WORDS) == 300 + 7 * 40
    assert not {*example.WORDS} & ENGLISH_STOP_WORDS
    words = {
        topic: {
            word
            for row, own in zip(nodes, topics)
            if own == topic
            for word in row[1].lower().split()
        }
        for topic in set(topics)
    }
    assert all(
        len(own - set().union(*(words[other] for other in words if other != topic))) > 20
        for topic, own in words.items()
    )
    same = [topics[a] == topics[b] for a, b in linked(tmp_path / "demo")]
    assert 0.7 < np.mean(same) < 0.9
    first = (tmp_path / "demo" / "nodes.csv").read_bytes()
    example.write(tmp_path / "demo", num_nodes=700, seed=3, overwrite=True)
    assert (tmp_path / "demo" / "nodes.csv").read_bytes() == first


def linked(demo: Path) -> list[tuple[int, int]]:
    place = {row[0]: number for number, row in enumerate(rows_of(demo / "nodes.csv")[1:])}
    return [(place[a], place[b]) for a, b in rows_of(demo / "edges.csv")[1:]]


def test_the_page_of_the_manual_does_what_it_says(tmp_path, monkeypatch):
    page = (Path(__file__).parents[1] / "docs/tutorials/own-graph.md").read_text(encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    example.write(tmp_path / "demo", num_nodes=300)
    for name, copy in (("nodes.csv", "new.csv"), ("edges.csv", "links.csv")):
        (tmp_path / name).write_bytes((tmp_path / "demo" / name).read_bytes())
        (tmp_path / copy).write_bytes((tmp_path / "demo" / name).read_bytes())
    (hetero,) = re.findall(r"^```python\n([^`]*HeteroData.*?)^```$", page, re.M | re.S)
    exec(hetero, {})
    blocks = re.findall(r"^```(?:bash|console)\n(.*?)^```$", page.replace("\\\n", " "), re.M | re.S)
    lines = [line.partition("#")[0] for block in blocks for line in block.splitlines()]
    words = [shlex.split(line)[1:] for line in lines]
    for command in words:
        if command[:2] == ["data", "make"]:
            assert main(command) == 0
        elif command[0] in ("predict", "discover", "run"):
            build_parser().parse_known_args(command)
    made = {path.name for path in tmp_path.iterdir() if (path / "made_by.json").is_file()}
    assert made == {"demo", "mygraph", "new", "papers"}
    assert (tmp_path / "mygraph.html").is_file() and (tmp_path / "demo/graph").is_dir()


# Tables as people have them.


def messy(tmp_path: Path) -> tuple[Path, Path]:
    """Twenty nodes with whatever goes wrong in tables, none of which needs a person."""
    rows = [
        [
            f"{i:02d}",
            f"word{i % 2} and more",
            ("19,99", "n/a", "7", "1.234,5")[i % 4],
            ("art", "law", "NaN", "")[i % 4],
        ]
        for i in range(20)
    ]
    rows += [rows[3], [""] * 4]
    links = [(1.5, f"{i:02d}", f"{(i + 2) % 20:02d}") for i in range(20)]
    return (
        write(tmp_path / "shop.csv", ("sku", "title", "price", "class"), rows),
        write(tmp_path / "links.csv", ("weight", "source", "target"), links),
    )


def test_what_a_person_would_mend_is_mended_and_told(tmp_path, capsys):
    nodes, links = messy(tmp_path)
    chosen = ("--text", "title", "--numbers", "price", "--out", tmp_path / "graph")
    assert run("make", nodes, links, *chosen) == 0
    told = capsys.readouterr().out
    for text in (
        "1 row left out: empty",
        "1 row merged: equal",
        "5 cells read as no label: 'NaN'",
        "10 cells read as numbers: '19,99' as 19.99",
        "label class",
        "id sku",
        "5 cells read as empty: 'n/a'",
        "links join the columns source and target; not read: weight",
    ):
        assert text in told, text
    task = shifts.find("file")(
        path=str(tmp_path / "graph"), labels_per_class=1, num_val=2, num_test=2
    )
    assert task.class_names == ("art", "law") and task.target.num_nodes == 20
    made, _ = homogeneous.make_graph(nodes, links, numbers=["price"])
    values = np.array([19.99, np.nan, 7, 1234.5] * 5)
    expected = np.nan_to_num((values - np.nanmean(values)) / np.nanstd(values))
    np.testing.assert_allclose(made.features.toarray()[:, 0], expected)


def test_all_that_is_wrong_is_told_at_once(tmp_path, capsys):
    nodes, links = messy(tmp_path)
    with open(nodes, "a") as file:
        file.write("07,another text,1,art\n")
    with open(links, "a") as file:
        file.write("1,07,99\n")
    words = ("make", nodes, links, "--out", tmp_path / "graph", "--report", tmp_path / "page.html")
    assert run(*words, "--text", "titel", "--numbers", "title") == 2
    told = capsys.readouterr().err
    for text in (
        "id '07' occurs",
        "--keep first",
        "node table: '99'",
        "'titel'",
        "--numbers title",
    ):
        assert text in told, text
    assert told.count("\n") == told.count("error: ") == 4 and not (tmp_path / "graph").exists()
    page = (tmp_path / "page.html").read_text()
    assert "Errors to fix first" in page and "--skip-missing" in page and "<td>99</td>" in page

    for keep, text in (("first", "word1 and more"), ("last", "another text")):
        words = (*words[:4], tmp_path / keep)
        assert run(*words, "--text", "title", "--keep", keep, "--skip-missing") == 0
        names = _names.of_folder(tmp_path / keep)
        assert len(names.ids) == 20 and names.texts[names.ids.index("07")] == text


def test_classes_are_guessed_or_asked_for(tmp_path, capsys):
    nodes, links = messy(tmp_path)
    header, *rows = rows_of(nodes)
    write(nodes, ("sku", "title", "price", "kind"), rows)
    words = ("make", nodes, links, "--text", "title", "--out", tmp_path / "graph")
    assert run(*words) == 2
    told = capsys.readouterr().err
    assert "--label" in told and "kind (2 values)" in told and "none" in told
    assert run(*words, "--label", "none") == 0 and not (tmp_path / "graph/labels.csv").exists()


def test_the_page_of_the_files(tmp_path, capsys):
    nodes, links = messy(tmp_path)
    header, *rows = rows_of(nodes)
    rows[0][3], rows[4][3], rows[1][1] = "Art", "<b>art</b>", "<script>alert(1)</script>"
    write(nodes, header, rows)
    page = tmp_path / "page.html"
    words = ("make", nodes, links, "--text", "title", "--report", page, "--out", tmp_path / "graph")
    assert run(*words) == 0 and "'Art' and 'art'" in capsys.readouterr().out
    text = page.read_text()
    for part in ("not used", "Nodes by their number of links", "homophily", "price", "25.0%"):
        assert part in text, part
    assert "<script>" not in text and "<b>art" not in text and "http-equiv" in text
    found = homogeneous.look(nodes, links, frames.Options(text=["title"]))
    figures = profile.links(found)
    assert (figures["count"], figures["alone"], figures["mean"]) == (20, 0, 2.0)
    assert figures["degrees"] == [("0", 0), ("1", 0), ("2 to 3", 20)]
    page.write_text("of somebody else")
    assert run(*words[:-1], tmp_path / "new") == 2 and page.read_text() == "of somebody else"


@pytest.mark.parametrize(
    "cells, expected",
    [
        (["19,99", "5"], ["19.99", "5"]),
        (["1.234,5", "-7,25"], ["1234.5", "-7.25"]),
        (["1,234", "12,500,000"], ["1234", "12500000"]),
        (["0,125", "1,234"], ["0.125", "1.234"]),
        (["1,234.5", "x"], ["1234.5", "x"]),
        (["1,2,3", "?", "NULL"], ["1,2,3", "", ""]),
    ],
)
def test_numbers_of_other_countries(cells, expected):
    assert features.numbers(cells) == expected


def test_names_that_look_alike():
    names = ["Graph theory", "graph-theory", "grahp theory", "class 1", "class 2", "art", "arts"]
    assert labels.similar(names) == [
        ("Graph theory", "graph-theory"),
        ("Graph theory", "grahp theory"),
        ("graph-theory", "grahp theory"),
    ]
    assert labels.similar(["Toys & Games", "Toys and Games", "Games"]) == [
        ("Toys & Games", "Toys and Games")
    ]


def test_tables_are_made_without_torch(tmp_path):
    assert run("example", tmp_path / "demo", "--nodes", "2000") == 0
    files = tmp_path / "demo/nodes.csv", tmp_path / "demo/edges.csv"
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            """
import sys
from graphgym_srnc.cli.main import main
status = main(sys.argv[1:])
print("torch" in sys.modules)
sys.exit(status)
""",
            "data",
            "make",
            *map(str, files),
            "--text",
            "title",
            "--out",
            str(tmp_path / "made"),
        ],
        capture_output=True,
        text=True,
        cwd=Path(__file__).parent.parent,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("False\n")


# Files of other programs.


def shapes(path: Path, **given) -> tuple:
    made, _ = homogeneous.make_graph(
        path, text=["title"], words=features.TextOptions(min_nodes=1, stop_words="none"), **given
    )
    return (list(made.ids), list(made.labels or ()), made.edges.T.tolist(), made.texts)


@pytest.mark.parametrize("suffix", [".graphml", ".gexf", ".json"])
def test_a_graph_in_one_file(suffix, tmp_path):
    graph = networkx.Graph([("007", "b"), ("b", "c")])
    for node, kind in zip(graph, ("art", "law", "art")):
        graph.add_node(node, title=f"word {kind}", **{"class": kind})
    path = tmp_path / f"graph{suffix}"
    if suffix == ".json":
        nodes = [{"id": node, **cells} for node, cells in graph.nodes(data=True)]
        links = [{"source": start, "target": end} for start, end in graph.edges]
        path.write_text(json.dumps({"nodes": nodes, "links": links}))
    else:
        (networkx.write_gexf if suffix == ".gexf" else networkx.write_graphml)(graph, path)
    expected = (
        ["007", "b", "c"],
        ["art", "law", "art"],
        [[0, 1], [1, 2]],
        ["word art", "word law", "word art"],
    )
    assert shapes(path, label="class") == expected


def test_exports_of_neo4j(tmp_path):
    whole = write(
        tmp_path / "export.csv",
        ("_id", "_labels", "title", "_start", "_end", "_type"),
        [
            ("0", ":Art", "one", "", "", ""),
            ("1", ":Law", "two", "", "", ""),
            ("", "", "", "1", "0", "LIKES"),
        ],
    )
    assert shapes(whole, label="_labels") == (
        ["0", "1"],
        [":Art", ":Law"],
        [[1, 0]],
        ["one", "two"],
    )
    nodes = write(
        tmp_path / "nodes.csv",
        ("title", "pageId:ID", ":LABEL"),
        [(f"text {i}", f"p{i}", ("Art", "Law")[i % 2]) for i in range(10)],
    )
    links = write(tmp_path / "links.csv", (":TYPE", ":START_ID", ":END_ID"), [("x", "p1", "p0")])
    made, _ = homogeneous.make_graph(nodes, links, text=["title"])
    assert made.ids[0] == "p0" and made.edges.tolist() == [[1], [0]] and made.labels[1] == "Law"


def test_packed_tables_and_links_with_spaces(tmp_path):
    nodes = tmp_path / "nodes.csv.gz"
    nodes.write_bytes(gzip.compress(b"id,title\r\na,word\r\nb,word\r\n"))
    (tmp_path / "links.edgelist").write_text("% a comment\na b 1\n")
    (tmp_path / "links.csv").write_text("a b\nb a\n")
    assert shapes(nodes, links=tmp_path / "links.edgelist")[2] == [[0, 1]]
    assert shapes(nodes, links=tmp_path / "links.csv")[2] == [[0, 1], [1, 0]]
    nodes.write_bytes(nodes.read_bytes()[:-9])
    with pytest.raises(InputError, match=r"nodes\.csv\.gz.*the file cannot be read"):
        shapes(nodes, links=tmp_path / "links.csv")


@pytest.mark.parametrize(
    "text, told",
    [
        ('{"nodes": [], "links": []}', "a list of objects"),
        ("[1, 2]", "an object with nodes"),
        ('{"a": 1}', "nodes and links"),
        ("{", "not a readable .json file"),
        ("[" * 100_000, "not a readable .json file"),
    ],
)
def test_bad_graphs_in_json(text, told, tmp_path, capsys):
    path = tmp_path / "graph.json"
    path.write_text(text)
    assert run("make", path, "--text", "title", "--out", tmp_path / "graph") == 2
    error = capsys.readouterr().err
    assert told in error and "internal" not in error


def test_tables_in_json_and_excel(tmp_path, monkeypatch, capsys):
    rows = [{"id": 7, "title": "word one", "tags": ["a", "b"]}, {"id": 8, "title": None}]
    (tmp_path / "nodes.json").write_text(json.dumps(rows))
    (tmp_path / "nodes.jsonl").write_text("\n".join(map(json.dumps, rows)))
    expected = {"id": ["7", "8"], "title": ["word one", ""], "tags": ["a, b", ""]}
    assert table_of(tmp_path / "nodes.json") == table_of(tmp_path / "nodes.jsonl") == expected

    monkeypatch.setitem(sys.modules, "openpyxl", None)
    (tmp_path / "nodes.xlsx").write_bytes(b"PK")
    assert run("make", tmp_path / "nodes.xlsx", "links.csv", "--out", tmp_path / "graph") == 2
    assert "pip install 'graphgym-srnc[excel]'" in capsys.readouterr().err


def test_excel_keeps_whole_numbers_and_leading_zeros(tmp_path):
    pytest.importorskip("openpyxl", reason="pandas reads .xlsx with openpyxl alone")
    import pandas

    frame = pandas.DataFrame({"id": ["007", 8, 9.5], "title": ["a", None, "NA"]})
    frame.to_excel(tmp_path / "nodes.xlsx", index=False)
    assert table_of(tmp_path / "nodes.xlsx") == {
        "id": ["007", "8", "9.5"],
        "title": ["a", "", "NA"],
    }


@pytest.mark.parametrize(
    "words, chosen",
    [
        ((), 64),
        (("srnc_plus.batch_size", "0"), 0),
        (("srnc_plus.batch_size", "9"), 9),
        (("gnn.layer_type", "sgconv"), 0),
        (("train.mode", "a2gnn"), 0),
        (("dataset.format", "synthetic"), 0),
    ],
)
def test_large_graphs_of_ones_own_are_learnt_from_batches(
    words, chosen, files, tmp_path, gym, monkeypatch
):
    from graphgym_srnc.gym import prepare

    monkeypatch.setattr(prepare, "LARGE", 8)
    monkeypatch.setattr(prepare, "BATCH", 64)
    for name, how in (("sparse", ("--text", "title")), ("dense", ("--numbers", "size,year"))):
        place = tmp_path / name
        assert run("make", *files, *how, "--out", place) == 0
        assert data_files.num_nodes(place) == 8
        overrides = ["dataset.name", str(place), *words]
        cfg = gym.load_config("own", overrides)
        told = prepare.choose_batches(cfg, overrides)
        assert cfg[cfg.train.mode].batch_size == chosen and bool(told) == (chosen == 64)
        monkeypatch.setattr(prepare, "LARGE", 9)
        assert not prepare.choose_batches(gym.load_config("own", overrides), overrides)
        monkeypatch.setattr(prepare, "LARGE", 8)
    assert data_files.num_nodes(tmp_path) is None
