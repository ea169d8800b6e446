"""Dates of nodes, and labels that are older than the rest of a graph."""

from __future__ import annotations

import numpy as np
import pandas
import pytest

from graphgym_srnc import from_frames
from graphgym_srnc.cli.main import main
from graphgym_srnc.core.task import DRAWN_MASK
from graphgym_srnc.data import dates, files, names
from graphgym_srnc.data.dates import drawn, of_column, on_labelled, read
from graphgym_srnc.errors import InputError, ShiftWarning

FORMS = {
    "standard": (["1994-01-31", "2003-05-01"], ["1994-01-31", "2003-05-01"]),
    "with times": (["1994-01-31T10:00:00Z", "2003-05-01"], ["1994-01-31", "2003-05-01"]),
    "months": (["1994-01", "May 2003"], ["1994-01-01", "2003-05-01"]),
    "years": (["1994", "2003"], ["1994-01-01", "2003-01-01"]),
    "other forms": (["05-Mar-2012", "2015/12/20"], ["2012-03-05", "2015-12-20"]),
    "points": (["31.01.1994", "1.5.2003"], ["1994-01-31", "2003-05-01"]),
    "names": (
        ["31 January 1994", "May 1, 2003", "1 May 2003"],
        ["1994-01-31", *["2003-05-01"] * 2],
    ),
    "empty cells": (["1994-01-31", ""], ["1994-01-31", ""]),
    "the day first": (["31/01/1994", "1/5/2003"], ["1994-01-31", "2003-05-01"]),
    "the month first": (["1/31/94", "5/1/03"], ["1994-01-31", "2003-05-01"]),
    "a year of three digits": (["1066-10-14"] * 30 + ["0800-12-25"], ["1066-10-14"] * 30 + [""]),
    "a few others": (["1994-01-31"] * 30 + ["soon"], ["1994-01-31"] * 30 + [""]),
}


@pytest.mark.parametrize("form", FORMS)
def test_dates_are_read_in_many_forms(form):
    cells, wanted = FORMS[form]
    assert of_column(cells, "day") == wanted


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        (["1/2/2003", "3/4/2005"], "day: 1/2/2003 may have the day or the month first"),
        (["1994-01-31", "soon"], "1 of 2 cells of day are no dates, such as 'soon'"),
        (["", ""], "0 of 0 cells of day are no dates"),
        (["12", "300"], "2 of 2 cells of day are no dates, such as '12'"),
        (["now", "today"], "2 of 2 cells of day are no dates, such as 'now'"),
    ],
    ids=["two orders", "half", "empty", "numbers", "words of pandas"],
)
def test_what_is_no_date_is_refused(cells, message):
    with pytest.raises(InputError, match=f"{message}. Write dates such as 1994-01-31"):
        of_column(cells, "day")


def test_an_order_that_makes_no_difference_needs_no_choice():
    assert len(read(["1/1/2003", "2/2/2004"])) == 1


@pytest.mark.parametrize(
    ("numbers", "wanted"), [([1994, 2003, np.nan], True), ([1994.5], False), ([94], False)]
)
def test_whole_numbers_in_a_range_may_be_years(numbers, wanted):
    assert dates.may_be_years(pandas.Series(numbers)) == wanted


def days(first: str, count: int) -> list[str]:
    return [f"{day:%Y-%m-%d}" for day in pandas.date_range(first, periods=count)]


def test_labels_of_another_time_are_told():
    known = [*days("1990-01-01", 100), *days("2000-01-01", 60), ""]
    is_labelled = np.arange(161) < 60
    text = on_labelled(known, is_labelled)
    assert text.startswith("95 % of the given labels are of 1990-01-02 to 1990-02-28, and 100 % of")
    inside = drawn(known, is_labelled)
    assert inside is not None and np.flatnonzero(inside).tolist() == [*range(60)]
    assert on_labelled(known[::-1], is_labelled[::-1]).endswith("Label some of the later nodes.")
    # Labels that were added since do not count, and show that the user knows.
    more = is_labelled | (np.arange(161) >= 140)
    assert on_labelled(known, more) == "" and drawn(known, more) is None
    told = on_labelled(known, more, range(140, 161))
    assert told.startswith(text[:60]) and told.endswith("looks like an unknown one.")
    earlier = [*days("1980-01-01", 60), *known[:60]]
    assert "100 % of the other nodes are earlier" in on_labelled(earlier, np.arange(120) >= 60)


@pytest.mark.parametrize("case", ["random", "few labels", "few later"])
def test_labels_of_the_same_time_are_not(case):
    known = days("1990-01-01", 200)
    is_labelled = np.arange(200) % 2 == 0
    if case == "few labels":
        is_labelled = np.arange(200) < dates.LEAST - 1
    if case == "few later":
        is_labelled = np.arange(200) % 2 == (np.arange(200) < 170)
    assert on_labelled(known, is_labelled) == "" and drawn(known, is_labelled) is None


def write_tables(folder, column: str) -> None:
    """200 nodes in the order of time, of which half of the first 120 have a label."""
    count = 200
    nodes = pandas.DataFrame({"id": [f"n{k}" for k in range(count)], "size": np.arange(count) % 9})
    nodes["title"] = [f"word{k % 2} other{k % 7} text" for k in range(count)]
    nodes[column] = np.arange(count) // 2 + 1900 if column == "year" else days("1990-01-01", count)
    is_labelled = (np.arange(count) < 120) & (np.arange(count) % 4 < 2)
    nodes["label"] = np.where(is_labelled, [f"class {k % 2}" for k in range(count)], "")
    nodes.to_csv(folder / "nodes.csv", index=False)
    ends = [(f"n{k}", f"n{(k + 2) % count}") for k in range(count)]
    pandas.DataFrame(ends, columns=["a", "b"]).to_csv(folder / "edges.csv", index=False)


MAKE = "data make nodes.csv edges.csv --text title --numbers * --out graph".split()


@pytest.mark.parametrize(
    ("column", "wanted"),
    [("day", ["1990-01-01", "1990-01-02"]), ("year", ["1900-01-01", "1900-01-01"])],
)
def test_make_tells_that_labels_are_old_and_how_to_say_so(
    column, wanted, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    write_tables(tmp_path, column)
    assert not main(MAKE)
    printed = capsys.readouterr().out
    assert f"{column}: 95 % of the given labels are of 19" in printed
    assert f"--date {column} lets the model take this into account." in printed
    assert DRAWN_MASK not in files.load(tmp_path / "graph")[0]

    assert not main([*MAKE, "--date", column, "--overwrite"])
    printed = capsys.readouterr().out
    assert "of the other nodes are later" in printed and "--date" not in printed
    assert names.of_folder(tmp_path / "graph").dates[:2] == wanted
    mask = files.load(tmp_path / "graph")[0][DRAWN_MASK]
    assert mask[4:116].all() and not mask[120:].any()


def test_frames_have_dates_too(tmp_path):
    write_tables(tmp_path, "day")
    nodes, edges = (pandas.read_csv(tmp_path / f"{name}.csv") for name in ("nodes", "edges"))
    nodes.loc[7, "day"] = "soon"
    with pytest.warns(ShiftWarning, match="day: 95 % of the given labels"):
        graph = from_frames(nodes, edges, numbers="size", date="day")
    assert graph.dates[6:8] == ["1990-01-07", ""]
    assert "day: 1 cell without a date, such as 'soon'" in graph.notes
    assert graph.drawn_mask[8:116].all() and not graph.drawn_mask[120:].any()
    with pytest.warns(ShiftWarning, match="`date='day'` lets the model take this into account"):
        assert DRAWN_MASK not in from_frames(nodes, edges, numbers="size")


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["1990-01-01"] * 199, "dates.txt: it has 199 lines for 200 nodes"),
        (["1990-01-01"] * 6 + ["5/1/90"] * 194, "dates.txt: line 7 is '5/1/90'"),
    ],
    ids=["too few", "another form"],
)
def test_a_damaged_file_of_dates_is_refused(lines, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    write_tables(tmp_path, "day")
    assert not main([*MAKE, "--date", "day"])
    (tmp_path / "graph/dates.txt").write_text("\n".join(lines) + "\n")
    (tmp_path / "graph/SHA256SUMS").unlink()
    capsys.readouterr()
    assert main("run --cfg own dataset.name graph train.mode erm".split()) == 2
    assert message in capsys.readouterr().err


def test_a_missing_column_of_dates_is_named(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    write_tables(tmp_path, "day")
    assert main([*MAKE, "--date", "dya"]) == 2
    assert "Did you mean day?" in capsys.readouterr().err
