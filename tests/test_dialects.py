"""Random graphs in the dialects of other programs: read right, or refused for what is unclear."""

from __future__ import annotations

import csv
import gzip
import io
import json
import re
import tempfile
import unicodedata
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable

import networkx
import numpy as np
import openpyxl
import pandas
import pytest
import scipy.io
import scipy.sparse as sp
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from graphgym_srnc.cli.make import make_graph
from graphgym_srnc.errors import InputError


@dataclass
class Net:
    """A graph with one word, number and class per node."""

    ids: list[str]
    labels: list[str]
    values: list[float]
    links: list[tuple[int, int]]
    order: list[int]  # a permutation of the nodes, for columns that mislead

    def pairs(self) -> list[tuple[str, str]]:
        return [(self.ids[a], self.ids[b]) for a, b in self.links]

    def columns(self, **more: Any) -> dict[str, list[Any]]:
        return {"id": self.ids, "label": self.labels, "a": self.values} | more

    def csv(self, mark: str = ",", **more: Any) -> str:
        return table(self.columns(**more), mark)

    def matrix(self) -> np.ndarray:
        found = np.zeros((len(self.ids),) * 2, dtype=int)
        for a, b in self.links:
            found[a, b] = found[b, a] = 1
        return found

    def networkx(self) -> networkx.Graph:
        found = networkx.Graph(self.pairs())
        found.add_nodes_from(self.ids)
        for id, label in zip(self.ids, self.labels):
            found.nodes[id]["team"] = label
        return found


def table(columns: dict[str, Any], mark: str = ",", head: bool = True) -> str:
    out = io.StringIO()
    writer = csv.writer(out, delimiter=mark, lineterminator="\n")
    if head:
        writer.writerow(columns)
    writer.writerows(zip(*columns.values()))
    return out.getvalue()


def lines(net: Net, mark: str = ",", head: str = "source,target") -> str:
    rows = (mark.join(pair) for pair in net.pairs())
    return "\n".join([*filter(None, [head.replace(",", mark)]), *rows, ""])


@st.composite
def nets(draw: st.DrawFn, numbers: bool | None = None) -> Net:
    size = draw(st.integers(10, 14))
    order = draw(st.permutations(range(size)))
    form = "{}" if numbers or (numbers is None and draw(st.booleans())) else "p{}"
    extra = draw(st.lists(st.tuples(*[st.integers(0, size - 1)] * 2), max_size=6))
    ring = [(place, (place + 1) % size) for place in range(size)]
    links = sorted({(min(a, b), max(a, b)) for a, b in [*ring, *extra] if a != b})
    links.sort(key=lambda pair: order[pair[0]])
    first = draw(st.integers(0, 1))
    return Net(
        [form.format(place + first) for place in range(size)],
        [("red", "blue")[place % 2] for place in range(size)],
        [place * 1.5 + 0.25 for place in order],
        links,
        order,
    )


def made(files: dict[str, Any], **options: Any) -> tuple[Any, list[str]]:
    """The graph of some files, whose content is text, bytes or a function that writes them."""
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder, name) for name in files]
        for path, content in zip(paths, files.values()):
            if callable(content):
                content(path)
            else:
                path.write_bytes(content.encode() if isinstance(content, str) else content)
        return make_graph(*paths, **options)


def check(net: Net, graph: Any, labels: bool = True, values: bool = True) -> None:
    """Compare ids, links, labels and features with what was written."""
    assert sorted(graph.ids) == sorted(net.ids)
    found = {frozenset((graph.ids[a], graph.ids[b])) for a, b in graph.edges.T}
    assert found == {frozenset(pair) for pair in net.pairs()}
    if labels:
        assert dict(zip(graph.ids, graph.labels)) == dict(zip(net.ids, net.labels))
    if values:
        written = np.array([net.values[net.ids.index(id)] for id in graph.ids])
        expected = (written - written.mean()) / written.std()
        np.testing.assert_allclose(graph.features.toarray()[:, 0], expected, atol=1e-9)


NUMBERS = {"numbers": ["a"]}
Files = dict[str, Any]
few = settings(max_examples=3, deadline=None, database=None, phases=[Phase.generate])


def links_only(form: Callable[[Net], Any], name: str = "l.csv") -> Callable[[Net], Files]:
    return lambda net: {"n.csv": net.csv(), name: form(net)}


def nodes_only(form: Callable[[Net], Any], name: str = "n.csv") -> Callable[[Net], Files]:
    return lambda net: {name: form(net), "l.csv": lines(net)}


def r_table(columns: dict[str, list[Any]], mark: str = " ", quote: str = '"') -> str:
    """As R's write.table: names of rows without a name above them."""
    rows = [[*columns], *([k + 1, *row] for k, row in enumerate(zip(*columns.values())))]
    texts = (
        [f"{quote}{cell}{quote}" if isinstance(cell, str) else str(cell) for cell in row]
        for row in rows
    )
    return "".join(mark.join(row) + "\n" for row in texts)


def ends(net: Net, a: str = "from", b: str = "to") -> dict[str, list[str]]:
    return {a: [pair[0] for pair in net.pairs()], b: [pair[1] for pair in net.pairs()]}


def written(write: Callable[[Path], Any]) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder, "file"))
        (path,) = Path(folder).iterdir()
        return path.read_bytes()


def merged_workbook(net: Net) -> bytes:
    """Nodes ordered by class, whose cells are merged."""
    book = openpyxl.Workbook()
    order = sorted(range(len(net.ids)), key=lambda place: net.labels[place])
    book.active.append(["id", "label", "a"])
    for place in order:
        book.active.append([net.ids[place], net.labels[place], net.values[place]])
    first = net.labels.count("blue")
    book.active.merge_cells(f"B2:B{first + 1}")
    book.active.merge_cells(f"B{first + 2}:B{len(order) + 1}")
    return written(lambda path: book.save(path.with_suffix(".xlsx")))


def two_sheets(path: Path, net: Net) -> None:
    with pandas.ExcelWriter(path) as book:
        pandas.DataFrame(net.columns()).to_excel(book, sheet_name="Nodes", index=False)
        pandas.DataFrame(ends(net)).to_excel(book, sheet_name="Edges", index=False)


def labelled(net: Net, order: list[int]) -> pandas.DataFrame:
    return pandas.DataFrame(net.matrix(), net.ids, net.ids).iloc[order, order]


READ: dict[str, Callable[[Net], Files]] = {
    # Ends of links.
    "times beside the ends": links_only(
        lambda net: table(
            ends(net, "u", "v") | {"start": [100 + k for k in range(len(net.links))]}
        )
    ),
    "usual names of no ids": links_only(
        lambda net: table({"from": ["May"] * len(net.links), **ends(net, "x", "y")})
    ),
    "matrix": links_only(lambda net: "\n".join(",".join(map(str, row)) for row in net.matrix())),
    "matrix in any order": links_only(lambda net: labelled(net, net.order).to_csv()),
    "matrix of numpy": links_only(
        lambda net: written(lambda path: np.savetxt(path, net.matrix())), "l.txt"
    ),
    "matrix of R": links_only(
        lambda net: "\n".join(
            [
                " ".join(f'"{id}"' for id in net.ids),
                *(f'"{id}" ' + " ".join(map(str, row)) for id, row in zip(net.ids, net.matrix())),
            ]
        ),
        "l.txt",
    ),
    "matrix in a workbook": links_only(
        lambda net: lambda path: labelled(net, net.order).to_excel(path), "l.xlsx"
    ),
    "neighbours": links_only(
        lambda net: "\n".join(
            " ".join([id, *net.networkx()[id], *net.networkx()[id]]) for id in net.ids
        ),
        "l.txt",
    ),
    "all pairs with a value": links_only(
        lambda net: table(
            {
                "from": [a for a in net.ids for b in net.ids],
                "to": [b for a in net.ids for b in net.ids],
                "value": [value for row in net.matrix() for value in row],
            }
        )
    ),
    # R, pandas, networkx, SciPy.
    "names of rows": links_only(lambda net: r_table(ends(net))),
    "names of rows, tabs": links_only(lambda net: r_table(ends(net), "\t", ""), "l.tsv"),
    "names of rows of nodes": nodes_only(lambda net: r_table(net.columns(), "\t"), "n.tsv"),
    "separators at the end": nodes_only(
        lambda net: net.csv().replace("\n", ",\n").replace(",\n", "\n", 1)
    ),
    "numbers above columns": links_only(lambda net: pandas.DataFrame(net.pairs()).to_csv()),
    "dictionaries": links_only(
        lambda net: "".join(f"{a} {b} {{'w': 1, 'kind': 'x, y'}}\n" for a, b in net.pairs()),
        "l.edgelist",
    ),
    "neighbours of networkx": links_only(
        lambda net: written(lambda path: networkx.write_adjlist(net.networkx(), path))
        + b"".join(" ".join([id, *net.networkx()[id]]).encode() + b"\n" for id in net.ids),
        "l.adjlist",
    ),
    "neighbours below a comment of one word": links_only(
        lambda net: "#make.py\n# GMT today\n#\n"
        + "".join(" ".join([id, *net.networkx()[id]]) + "\n" for id in net.ids),
        "l.adjlist",
    ),
    # Lines that are no rows, and quotes.
    "hint for Excel": nodes_only(lambda net: "sep=;\n" + net.csv(";")),
    "header in a comment": links_only(
        lambda net: "# all links\n# a\tb\n" + lines(net, "\t", ""), "l.txt"
    ),
    "comments of a csv": nodes_only(lambda net: f"# made by me, for you\n{net.csv()}"),
    "header twice": nodes_only(lambda net: net.csv() + "id,label,a\n"),
    "no header": links_only(lambda net: lines(net, "\t", ""), "l.tsv"),
    "quotes of spaced cells": links_only(
        lambda net: "".join(f'"{a}" "{b}"\n' for a, b in net.pairs()), "l.txt"
    ),
    "lone quotes between tabs": links_only(
        lambda net: "a\tb\tsaid\n"
        + "".join(
            f"{a}\t{b}\t{chr(34) if k in (1, 4) else ''}so\n"
            for k, (a, b) in enumerate(net.pairs())
        ),
        "l.tsv",
    ),
    "compressed": lambda net: {
        "n.csv.gz": gzip.compress(net.csv().encode()),
        "l.csv.gz": gzip.compress(lines(net).encode()),
    },
    # Usual names that do not fit, and counters.
    "empty label": nodes_only(
        lambda net: table({"Label": [""] * len(net.ids), **net.columns()} | {"class": net.labels})
        .replace(",label,", ",other,", 1)
    ),
    "a code is the id": nodes_only(
        lambda net: table({"id": [f"x{k}" for k in net.order], "code": net.ids}
                          | {"label": net.labels, "a": net.values})
    ),
    "saved twice": nodes_only(
        lambda net: table({"Unnamed: 0.1": net.order, "Unnamed: 0": net.order} | net.columns())
    ),
    # Cells.
    "merged cells": nodes_only(merged_workbook, "n.xlsx"),
    "suffix of another type": nodes_only(merged_workbook),
    "accents": nodes_only(lambda net: unicodedata.normalize("NFD", net.csv())),
    # Whole tables.
    "two sheets": lambda net: {"g.xlsx": lambda path: two_sheets(path, net)},
}  # fmt: skip


# Of which some graphs allow another reading.
NEIGHBOURS = [name for name in READ if name.startswith("neighbours")]
PERHAPS = dict.fromkeys(NEIGHBOURS, r"`ends=\('1', '\*'\)`")
# A first link from 0 to 1 may be the header of a matrix.
PERHAPS |= dict.fromkeys(("no header", "header in a comment"), "`header=True` or `header=False`")
PERHAPS |= {"all pairs with a value": "no link with `weight='value'`"}


@pytest.mark.parametrize("name", READ)
@few
@given(net=nets())
def test_tables_in_a_dialect_are_read_right(name, net):
    try:
        graph = made(READ[name](net), **NUMBERS)[0]
    except InputError as error:
        assert name in PERHAPS and re.search(PERHAPS[name], str(error)), error
    else:
        check(net, graph)


def objects(net: Net) -> list[dict[str, Any]]:
    return [{"id": id, "team": label} for id, label in zip(net.ids, net.labels)]


def arrows(net: Net) -> list[dict[str, Any]]:
    return [{"source": a, "target": b} for a, b in net.pairs()]


WHOLE: dict[str, Callable[[Net], tuple[str, Any]]] = {
    "by id": lambda net: ("g.json", json.dumps({"nodes": objects(net), "links": arrows(net)})),
    "Cytoscape": lambda net: (
        "g.cyjs",
        json.dumps({"elements": {
            "nodes": [{"data": node} for node in objects(net)],
            "edges": [{"data": link} for link in arrows(net)],
        }}),
    ),
    "Cytoscape, flat": lambda net: (
        "g.json",
        json.dumps({"elements": [{"data": own} for own in [*objects(net), *arrows(net)]]}),
    ),
    "graphology": lambda net: (
        "g.json",
        json.dumps({"attributes": {}, "edges": arrows(net), "nodes": [
            {"key": id, "attributes": {"team": team}} for id, team in zip(net.ids, net.labels)
        ]}),
    ),
    "vis.js": lambda net: (
        "g.json",
        json.dumps({"nodes": objects(net), "edges": [
            {"from": a, "to": b} for a, b in net.pairs()
        ]}),
    ),
    "GraphML as .gml": lambda net: (
        "g.gml", written(lambda path: networkx.write_graphml(net.networkx(), path))
    ),
    "GEXF as .txt": lambda net: (
        "g.txt", written(lambda path: networkx.write_gexf(net.networkx(), path))
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", WHOLE)
@few
@given(net=nets(numbers=False))
def test_whole_graphs_in_a_dialect_are_read_right(name, net):
    file, content = WHOLE[name](net)
    check(net, made({file: content}, label="team", spectral=2)[0], values=False)


@few
@given(net=nets(numbers=True))
def test_matrix_market_and_pajek(net):
    matrix = sp.coo_array(net.matrix())
    first = int(net.ids[0])
    files = {"n.csv": net.csv()}
    if first == 1:  # as rows of the matrix count
        content = written(lambda path: scipy.io.mmwrite(path.with_suffix(".mtx"), matrix))
        check(net, made(files | {"l.mtx": content}, **NUMBERS)[0])
    pajek = written(lambda path: networkx.write_pajek(net.networkx(), path))
    check(net, made(files | {"l.net": pajek}, **NUMBERS)[0])


# Several readings.


def swapped(ids: list[str]) -> list[str]:
    """Ids of which the first two have changed places."""
    return [ids[1], ids[0], *ids[2:]]


UNCLEAR: dict[str, tuple[Callable[[Net], Files], str]] = {
    "two pairs of ends": (
        links_only(lambda net: table(
            ends(net, "node1", "node2")
            | {"start": [net.ids[k % 9] for k, _ in enumerate(net.links)]}
            | {"end": [net.ids[k % 8] for k, _ in enumerate(net.links)]})),
        r"`ends=\('node1', 'node2'\)` or `ends=\('start', 'end'\)`",
    ),
    "three columns of ids": (
        links_only(lambda net: table(
            ends(net, "a", "b") | {"w": [net.ids[k % 7] for k, _ in enumerate(net.links)]})),
        r"=\('a', 'b'\)`, `ends=\('a', 'w'\)` or `ends=\('b', 'w'\)`",
    ),
    "a rank and the index": (
        lambda net: {
            "n.csv": table(
                {"": net.ids, "rank": swapped(net.ids), "label": net.labels, "a": net.values}
            ),
            "l.csv": table({"x": net.ids, "y": [*net.ids[1:], net.ids[0]]}),
        },
        "`id=''`",
    ),
    "two columns of classes": (
        nodes_only(lambda net: table({"id": net.ids, "class": net.labels, "a": net.values,
                                      "topic": ["x", "x", "y"] * 3 + ["y"] * (len(net.ids) - 9)})),
        "label: several columns may hold the classes: class and topic",
    ),
    "a coordinate": (
        nodes_only(lambda net: table({"id": net.ids, "x": [k % 3 for k in net.order],
                                      "y": [k // 3 for k in net.order], "a": net.values,
                                      "team": net.labels})),
        "label: no column .* first line. Name the column of classes with `label`, perhaps team",
    ),
    "lines of two or three numbers": (
        links_only(lambda net: "".join(f"{a} {b}{' ' + a if k % 2 else ''}\n"
                                       for k, (a, b) in enumerate(net.pairs())), "l.txt"),
        r"`ends=\('1', '2'\)`",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", UNCLEAR)
@few
@given(net=nets(numbers=True))
def test_several_readings_are_listed(name, net):
    files, told = UNCLEAR[name]
    with pytest.raises(InputError, match=told):
        made(files(net), **NUMBERS)
