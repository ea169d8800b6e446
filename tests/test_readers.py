"""Tables as programs write them: which column is what, what a label means, and the notes."""

from __future__ import annotations

import gzip
import json
import tempfile
import warnings
from pathlib import Path

import networkx
import numpy as np
import pandas
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from torch_geometric.data import Data

from graphgym_srnc import from_frames, from_networkx
from graphgym_srnc.cli.main import main
from graphgym_srnc.core.errors import InputError
from graphgym_srnc.data import files, labels, names
from graphgym_srnc.own.tables import formats

V = 24
LINKS = sorted(
    {tuple(sorted((i, 8 * (i // 8) + (i % 8 + step) % 8))) for i in range(V) for step in (1, 3)}
    | {(0, 8), (8, 16)}
)
TEAMS = [f"t{i // 8}" for i in range(V)]


def make(tmp_path: Path, *words: object) -> tuple[int, Path]:
    out = tmp_path / "made"
    return main(["data", "make", *map(str, words), "--out", str(out), "--overwrite"]), out


def links_of(out: Path) -> set[tuple[int, int]]:
    pairs = pandas.read_csv(out / "edges.csv").to_numpy()
    return {tuple(sorted(pair)) for pair in pairs.tolist()}


def labels_of(out: Path) -> dict[int, str]:
    table = pandas.read_csv(out / "labels.csv", dtype=str)
    return dict(zip(table["node"].astype(int), table["label"]))


def node_table(path: Path, label=TEAMS, id=lambda i: i, **columns) -> Path:
    columns = {
        "id": [id(i) for i in range(V)],
        "label": label,
        "a": [i % 7 + i / 10 for i in range(V)],
    } | columns
    pandas.DataFrame(columns).to_csv(path, index=False)
    return path


# Ends of links.

CONVENTIONS = [
    "source,target",
    "Source,Target",
    "from,to",
    "u,v",
    "head,tail",
    "citing,cited",
    "node1,node2",
    "node_1,node_2",
    "source_id,target_id",
    "SourceId,TargetId",
    "txId1,txId2",
    "src,dst",
    ":START_ID(P),:END_ID(P)",
    "from_node_id,to_node_id",
]


@pytest.mark.parametrize("names", CONVENTIONS)
@pytest.mark.parametrize(
    "extra",
    [
        "",
        "weight,{},{}|{w},{a},{b}",
        ",{},{}|{k},{a},{b}",
        "{},{},year|{a},{b},{w}",
        "k,{},w,{}|{k},{a},{w},{b}",
    ],
)
def test_usual_names_of_ends_are_found_wherever_they_stand(names, extra, tmp_path, capsys):
    head, line = (extra or "{},{}|{a},{b}").split("|")
    rows = [line.format(a=a, b=b, k=k, w=1 + k % 5) for k, (a, b) in enumerate(LINKS)]
    (tmp_path / "links.csv").write_text("\n".join([head.format(*names.split(",")), *rows]) + "\n")
    status, out = make(
        tmp_path, node_table(tmp_path / "n.csv"), tmp_path / "links.csv", "--numbers", "a"
    )
    assert status == 0 and links_of(out) == {*LINKS}
    assert "links join the columns " + " and ".join(names.split(",")) in capsys.readouterr().out


@settings(max_examples=40, deadline=None)
@given(st.permutations(["a", "b", "w", "k", "word"]), st.booleans())
def test_ends_are_the_columns_that_hold_ids_or_are_asked_for(order, weight_is_an_id):
    with tempfile.TemporaryDirectory() as folder_:
        _check_ends(Path(folder_), order, weight_is_an_id)


def _check_ends(tmp_path: Path, order: list[str], weight_is_an_id: bool) -> None:
    cells = {
        "a": lambda k, a, b: a,
        "b": lambda k, a, b: b,
        "k": lambda k, a, b: k,
        "w": lambda k, a, b: 1 + k % 5 if weight_is_an_id else 0.5 + k,
        "word": lambda k, a, b: "cites",
    }
    names = {"a": "paper", "b": "other", "k": "row", "w": "strength", "word": "kind"}
    lines = [
        ",".join(str(cells[name](k, a, b)) for name in order) for k, (a, b) in enumerate(LINKS)
    ]
    (tmp_path / "l.csv").write_text("\n".join([",".join(names[name] for name in order), *lines]))
    words = node_table(tmp_path / "n.csv"), tmp_path / "l.csv", "--numbers", "a"
    status, out = make(tmp_path, *words)
    assert (status == 2) == weight_is_an_id
    if weight_is_an_id:
        status, out = make(tmp_path, *words, "--ends", "paper", "other")
    assert status == 0 and links_of(out) == {*LINKS}


@pytest.mark.parametrize(
    "text, told",
    [("1,2,3\n4,5,3\n", None), ("0,1,2\n3,4,0.5\n", "edges.csv"), ("0 1\n1 2\n", None)],
)
def test_lines_of_links_without_names(text, told, tmp_path, capsys):
    (tmp_path / "edges.csv").write_text(text)
    status, out = make(
        tmp_path, node_table(tmp_path / "n.csv"), tmp_path / "edges.csv", "--numbers", "a"
    )
    capsys.readouterr()
    assert status == 0 and links_of(out) <= {(1, 2), (4, 5), (3, 4), (0, 1)}


def test_row_numbers_before_links_without_a_header_are_no_ends(tmp_path):
    rows = [f"{k},{a},{b}" for k, (a, b) in enumerate(LINKS)]
    (tmp_path / "edges.csv").write_text("\n".join(rows))
    status, out = make(
        tmp_path, node_table(tmp_path / "n.csv"), tmp_path / "edges.csv", "--numbers", "a"
    )
    assert status == 0 and links_of(out) == {*LINKS}


@pytest.mark.parametrize("order", [("k", "a", "b"), ("w", "a", "b"), ("a", "b", "w")])
def test_columns_without_usual_names_that_all_hold_ids_are_asked_for(order):
    frame = pandas.DataFrame(
        {"a": range(V), "b": [(i + 3) % V for i in range(V)], "w": 1, "k": range(V)}
    )
    edges = frame[[*order]].set_axis(["x", "y", "z"], axis=1)
    nodes = pandas.DataFrame({"f": [i / 7 for i in range(V)], "label": TEAMS})
    with pytest.raises(InputError, match="x, y and z"):
        from_frames(nodes, edges)


def test_ids_are_the_column_that_links_name(tmp_path):
    frame = pandas.DataFrame({"name": [f"n{i}" for i in range(V)], "label": TEAMS, "a": range(V)})
    frame.to_csv(tmp_path / "n.csv")  # with pandas' index as first column
    (tmp_path / "l.csv").write_text("x,y\n" + "".join(f"n{a},n{b}\n" for a, b in LINKS))
    status, out = make(tmp_path, tmp_path / "n.csv", tmp_path / "l.csv", "--numbers", "a")
    assert status == 0 and links_of(out) == {*LINKS}
    assert pandas.read_csv(out / "nodes.csv")["id"].tolist() == frame["name"].tolist()


# Labels.


@pytest.mark.parametrize(
    "word",
    [
        "unknown",
        "Unknown",
        "?",
        "unlabeled",
        "unlabelled",
        "NaN",
        "nan",
        "undefined",
        "-1",
        "-1.0",
        "None",
        "not labeled",
        "NA",
    ],
)
def test_a_word_for_a_missing_label_is_no_class_and_is_told(word, tmp_path, capsys):
    given = [team.removeprefix("t") if i % 2 else word for i, team in enumerate(TEAMS)]
    (tmp_path / "e.csv").write_text("source,target\n" + "".join(f"{a},{b}\n" for a, b in LINKS))
    nodes = node_table(tmp_path / "n.csv", given)
    status, out = make(tmp_path, nodes, tmp_path / "e.csv", "--numbers", "a")
    told = capsys.readouterr().out
    assert status == 0 and labels_of(out) == {i: str(i // 8) for i in range(V) if i % 2}
    assert "label: " in told and "12 labelled nodes of 3 classes" in told


@settings(max_examples=200, deadline=None)
@given(
    st.lists(
        st.one_of(
            st.integers(-1, 5),
            st.floats(-1, 5),
            st.sampled_from(
                ["", "nan", "NaN", "?", "art", "Art", "01", "1.0", "1", "unknown", " law "]
            ),
        ),
        max_size=12,
    )
)
def test_labels_are_equal_only_if_they_are_written_so_or_are_one_whole_number(cells):
    written = [str(cell).strip() for cell in cells]
    cleaned, told = labels.cleaned([str(cell) for cell in cells])
    assert len(cleaned) == len(cells) and "nan" not in map(str.lower, cleaned)
    for a, label in zip(written, cleaned):
        assert label in ("", a) or float(label) == float(a)
        assert label or a.lower() in labels.MISSING | {""} or float(a) == -1
        for b, other in zip(written, cleaned):
            if label and label == other and a != b:
                assert float(a) == float(b) and any("whole numbers" in note for note in told)
    assert labels.cleaned(cleaned)[0] == cleaned


@pytest.mark.parametrize("kind", ["csv", "frame"])
def test_whole_numbers_with_a_point_are_one_class(kind, tmp_path):
    given = [f"{i // 8}.0" if i % 2 else f"{i // 8}" for i in range(V)]
    edges = pandas.DataFrame(LINKS, columns=["source", "target"])
    if kind == "csv":
        edges.to_csv(tmp_path / "e.csv", index=False)
        _, out = make(
            tmp_path, node_table(tmp_path / "n.csv", given), tmp_path / "e.csv", "--numbers", "a"
        )
        assert [*labels_of(out).values()] == [str(i // 8) for i in range(V)]
    else:
        frame = pandas.read_csv(node_table(tmp_path / "n.csv", given), dtype={"label": str})
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            assert from_frames(frame, edges).y.tolist() == [i // 8 for i in range(V)]
        assert any("whole numbers" in str(each.message) for each in told)


def test_a_column_whose_values_hardly_repeat_is_no_class(tmp_path, capsys):
    (tmp_path / "e.csv").write_text(
        "Source,Target,Type,Id,Label,Weight\n"
        + "".join(f"{a},{b},Undirected,{k},,1.0\n" for k, (a, b) in enumerate(LINKS))
    )
    table = node_table(tmp_path / "n.csv", [f"Person {i}" for i in range(V)], team=TEAMS)
    assert make(tmp_path, table, tmp_path / "e.csv", "--numbers", "a")[0] == 2
    assert "perhaps team (3 values)" in capsys.readouterr().err
    table = node_table(tmp_path / "n.csv", [f"Person {i}" for i in range(V)], **{"class": TEAMS})
    status, out = make(tmp_path, table, tmp_path / "e.csv", "--numbers", "a")
    assert status == 0 and [*labels_of(out).values()] == TEAMS


# Whole graphs in one file.


def graph_file(kind: str, path: Path) -> Path:
    net = networkx.Graph(LINKS)
    net = networkx.relabel_nodes(net, {i: f"p{i}" for i in range(V)})
    for i in range(V):
        net.nodes[f"p{i}"].update(team=TEAMS[i])
    nodes = [
        {"key": f"p{i}", "attributes": {"label": f"Person {i}", "team": TEAMS[i]}} for i in range(V)
    ]
    flat = [{"id": node["key"], **node["attributes"]} for node in nodes]
    pairs = [(f"p{a}", f"p{b}") for a, b in LINKS]
    if kind == "gml":
        networkx.write_gml(net, path)
        path.write_text(path.read_text().replace("graph [", "graph [\n  directed 1", 1))
    elif kind == "pajek":
        path.write_text(
            f"*Vertices {V}\n"
            + "".join(f'{i + 1} "P {i // 2}" 0.1 0.2 0.5\n' for i in range(V))
            + "*Arcs\n"
            + "".join(f"{a + 1} {b + 1} 2.5\n" for a, b in LINKS[::2])
            + "*Edgeslist\n"
            + "".join(f"{a + 1} {b + 1}\n" for a, b in LINKS[1::2])
        )
    elif kind == "gexf":
        path.write_text(
            '<gexf xmlns="http://www.gexf.net/1.3" version="1.3"><graph mode="static" '
            'defaultedgetype="mixed"><attributes class="node"><attribute id="t" '
            'title="team" type="string"><default>t0</default></attribute></attributes>'
            "<nodes>"
            + "".join(
                f'<node id="p{i}" label="P {i}"><attvalues>'
                + (f'<attvalue for="t" value="{TEAMS[i]}"/>' if i // 8 else "")
                + "</attvalues></node>"
                for i in range(V)
            )
            + "</nodes><edges>"
            + "".join(f'<edge source="{a}" target="{b}" type="directed"/>' for a, b in pairs)
            + "</edges></graph></gexf>"
        )
    else:
        document = {
            "graphology": {
                "attributes": {},
                "nodes": nodes,
                "edges": [{"source": a, "target": b, "attributes": {"w": 1}} for a, b in pairs],
            },
            "visjs": {"nodes": flat, "edges": [{"from": a, "to": b} for a, b in pairs]},
            "jgf": {
                "graph": {
                    "nodes": {
                        node["id"]: {"label": node["label"], "metadata": {"team": node["team"]}}
                        for node in flat
                    },
                    "edges": [{"source": a, "target": b} for a, b in pairs],
                }
            },
            "cytoscape": {
                "elements": {
                    "nodes": [{"data": node} for node in flat],
                    "edges": [{"data": {"source": a, "target": b}} for a, b in pairs],
                }
            },
        }[kind]
        path.write_text(json.dumps(document))
    return path


@pytest.mark.parametrize(
    "kind, suffix",
    [
        ("graphology", "json"),
        ("visjs", "json"),
        ("jgf", "json"),
        ("cytoscape", "json"),
        ("gml", "gml"),
        ("gexf", "gexf"),
    ],
)
def test_whole_graphs_of_other_programs(kind, suffix, tmp_path, capsys):
    path = graph_file(kind, tmp_path / f"g.{suffix}")
    status, out = make(tmp_path, path, "--label", "team", "--spectral", 4)
    assert status == 0, capsys.readouterr().err
    assert len(links_of(out)) == len(LINKS)
    assert sorted(labels_of(out).values()) == sorted(TEAMS)
    ids = pandas.read_csv(out / "nodes.csv")["id"]
    assert len(ids) == V and ids.is_unique


def test_pajek_keeps_vertices_of_one_name_and_all_lists_of_links(tmp_path, capsys):
    status, out = make(
        tmp_path, graph_file("pajek", tmp_path / "g.net"), "--label", "none", "--spectral", 4
    )
    assert status == 0 and links_of(out) == {*LINKS}
    assert len(pandas.read_csv(out / "nodes.csv")) == V


@pytest.mark.parametrize(
    "extra, told",
    [
        ("<graph edgedefault='directed'><node id='z'/></graph>", "1 more graph and which nodes"),
        ("", ""),
    ],
)
def test_a_second_graph_and_nested_nodes_are_told(extra, told, tmp_path, capsys):
    body = "".join(f'<node id="p{i}"><data key="d">{TEAMS[i]}</data></node>' for i in range(1, V))
    group = (
        '<node id="p0" yfiles.foldertype="group"><data key="y"><y:ProxyAutoBoundsNode>'
        "<y:Realizers><y:GroupNode><y:NodeLabel>t0</y:NodeLabel></y:GroupNode></y:Realizers>"
        "</y:ProxyAutoBoundsNode></data><graph>"
        + body[: body.index('<node id="p2"')]
        + "</graph></node>"
        + body[body.index('<node id="p2"') :]
    )
    edges = "".join(f'<edge source="p{a}" target="p{b}"/>' for a, b in LINKS)
    (tmp_path / "g.graphml").write_text(
        '<graphml xmlns="http://graphml.graphdrawing.org/xmlns" xmlns:y="http://www.yworks.com/y">'
        '<key id="d" for="node" attr.name="label"/><key id="y" for="node" '
        f'yfiles.type="nodegraphics"/><graph edgedefault="undirected">{group}{edges}</graph>'
        f"{extra}</graphml>"
    )
    status, out = make(tmp_path, tmp_path / "g.graphml", "--spectral", 4)
    output = capsys.readouterr().out
    assert status == 0 and len(labels_of(out)) == V and told in output and "nested" in output


# Files as they are found.


def as_tabs(text: str) -> str:
    return text.replace(",", "\t")


FOUND = {
    "byte order mark": (".csv", lambda text: b"\xef\xbb\xbf" + text.encode()),
    "UTF-16": (".csv", lambda text: text.encode("utf-16")),
    "Windows": (".csv", lambda text: text.replace("\n", "\r\n").encode()),
    "old Mac": (".csv", lambda text: text.replace("\n", "\r").encode()),
    "semicolons": (".csv", lambda text: text.replace(",", ";").encode()),
    "quotes": (
        ".csv",
        lambda text: ('"' + text.strip().replace(",", '","').replace("\n", '"\n"') + '"').encode(),
    ),
    "spaces": (".csv", lambda text: text.replace(",", " ,  ").encode()),
    "two more separators": (".csv", lambda text: text.replace("\n", ",,\n").encode()),
    "blank lines": (".csv", lambda text: text.replace("\n", "\n\n  \n").encode()),
    "empty rows": (".csv", lambda text: text.replace("\n", "\n,,\n").encode()),
    "tabs": (".tsv", lambda text: as_tabs(text).encode()),
    "capitals": (".CSV", str.encode),
    "gzip": (".csv.gz", lambda text: gzip.compress(text.encode())),
    "comments": (".txt", lambda text: b"# a\n%\n" + as_tabs(text).encode() + b"#\tend\n"),
}


@pytest.mark.parametrize("kind", FOUND)
@pytest.mark.parametrize("id", ["n{}", "#{}", "%{}", "0{}", "é{}"])
def test_marks_of_other_programs(kind, id, tmp_path, capsys):
    suffix, write = FOUND[kind]
    for name, rows in (
        ("nodes", [("id", "label", "a"), *((id.format(i), TEAMS[i], i % 5) for i in range(V))]),
        ("links", [("source", "target"), *((id.format(a), id.format(b)) for a, b in LINKS)]),
    ):
        text = "".join(",".join(map(str, row)) + "\n" for row in rows)
        (tmp_path / f"{name}{suffix}").write_bytes(write(text))
    status, out = make(
        tmp_path, tmp_path / f"nodes{suffix}", tmp_path / f"links{suffix}", "--numbers", "a"
    )
    assert status == 0, capsys.readouterr().err
    assert links_of(out) == {*LINKS} and [*labels_of(out).values()] == TEAMS
    assert pandas.read_csv(out / "nodes.csv", dtype=str)["id"].tolist() == [
        id.format(i) for i in range(V)
    ]


@pytest.mark.parametrize("id, end", [("{}", "{}.0"), ("{}.0", "{}"), ("p,{}", "p,{}")])
@pytest.mark.parametrize("suffix, mark", [(".tsv", "\t"), (".txt", "\t")])
def test_the_first_link_is_no_header(id, end, suffix, mark, tmp_path, capsys):
    """Ids may be written as numbers with a point in one file, or have commas between tabs."""
    rows = [("id", "label", "a"), *((id.format(i), TEAMS[i], str(i % 5)) for i in range(V))]
    (tmp_path / f"n{suffix}").write_text("".join(mark.join(row) + "\n" for row in rows))
    (tmp_path / f"l{suffix}").write_text(
        "".join(mark.join(map(end.format, pair)) + "\n" for pair in LINKS)
    )
    status, out = make(tmp_path, tmp_path / f"n{suffix}", tmp_path / f"l{suffix}", "--numbers", "a")
    assert status == 0, capsys.readouterr().err
    assert links_of(out) == {*LINKS}


@pytest.mark.parametrize(
    "head, told, index",
    [
        ("0,1", "0,1, is read as a link", False),
        ("0,1,2", "0,1,2, is read as a header", False),
        (",0,1", ",0,1, is read as a header", True),
    ],
)
def test_a_first_line_of_links_that_counts_is_told(head, told, index, tmp_path, capsys):
    weight = ",0.5" * (head == "0,1,2")
    rows = [f"{k}," * index + f"{a},{b}{weight}\n" for k, (a, b) in enumerate(LINKS)]
    (tmp_path / "e.csv").write_text(f"{head}\n" + "".join(rows))
    status, out = make(
        tmp_path, node_table(tmp_path / "n.csv"), tmp_path / "e.csv", "--numbers", "a"
    )
    assert status == 0 and told in capsys.readouterr().out
    assert links_of(out) == {*LINKS}


def test_a_long_text_is_a_cell(tmp_path):
    table = node_table(tmp_path / "n.csv", title=["word " * 40_000, *["word two"] * (V - 1)])
    assert len(formats.table(table, [])["title"][0]) == 5 * 40_000 - 1


def written(tmp_path: Path, name: str, content: str | dict) -> tuple[list[pandas.DataFrame], str]:
    path = tmp_path / name
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    notes: list[str] = []
    return formats.graph(path, notes), " ".join(notes)


def test_json_of_other_programs(tmp_path):
    nodes = [{"name": f"p{i}", "group": i % 2} for i in range(9)]
    ends = [{"source": i, "target": (i + 1) % 9} for i in range(9)]
    (tmp_path / "d3.json").write_text(json.dumps({"nodes": nodes, "links": ends}))
    status, out = make(tmp_path, tmp_path / "d3.json", "--label", "group", "--spectral", 2)
    assert status == 0 and links_of(out) == {tuple(sorted((i, (i + 1) % 9))) for i in range(9)}
    (table, links), _ = written(
        tmp_path,
        "a.json",
        {
            "nodes": [{"key": "a", "attributes": {"id": 7, "data": {}}}, {"key": "b"}],
            "edges": [
                {"source": "a", "target": "b", "undirected": True, "attributes": {"source": 3}}
            ],
        },
    )
    assert table.to_dict("list") == {"id": ["a", "b"], "attributes.id": ["7", ""]}
    assert links.to_dict("list") == {
        "source": ["a"],
        "target": ["b"],
        "undirected": ["true"],
        "attributes.source": ["3"],
    }
    (tmp_path / "n.jsonl.gz").write_bytes(
        gzip.compress(
            '{"id": 1, "t": "a\u2028b", "data": {"x": 1}, "properties": {"x": 2}}\n\n'
            '{"id": 12345678901234567890, "x": NaN}\n'.encode()
        )
    )
    assert formats.table(tmp_path / "n.jsonl.gz", []).to_dict("list") == {
        "id": ["1", "12345678901234567890"],
        "t": ["a\u2028b", ""],
        "x": ["1", "NaN"],
        "properties.x": ["2", ""],
    }


@pytest.mark.parametrize("text", ["[{}]", '[{"data": {}}]', "{}", "[[1]]"])
def test_json_without_rows_is_refused(text, tmp_path):
    (tmp_path / "n.json").write_text(text)
    with pytest.raises(InputError, match="list of objects"):
        formats.table(tmp_path / "n.json", [])


@pytest.mark.parametrize(
    "rows, told", [(",,,1,2\n", "not in the node table"), ("1,a,b,,\n2,b,c,,\n", "no link")]
)
def test_an_export_of_neo4j_with_nodes_or_links_alone(rows, told, tmp_path, capsys):
    (tmp_path / "g.csv").write_text(f"_id,name,_labels,_start,_end\n{rows}")
    assert make(tmp_path, tmp_path / "g.csv", "--categories", "name", "--label", "none")[0] == 2
    assert told in capsys.readouterr().err


def test_xml_keeps_columns_of_any_name_and_tells_what_is_not_read(tmp_path):
    (table, links), told = written(
        tmp_path,
        "g.graphml",
        (
            '<graphml><key id="k" for="node" attr.name="id"/><key id="s" for="edge" '
            'attr.name="target"/><graph><node id="a"><data key="k">7</data><port name="p"/></node>'
            '<node id="b"/><edge source="a" target="b" sourceport="p"><data key="s">x</data></edge>'
            "</graph></graphml>"
        ),
    )
    assert table.to_dict("list") == {"id": ["a", "b"], "data.id": ["7", ""]} and "1 port" in told
    assert links.to_dict("list") == {
        "source": ["a"],
        "target": ["b"],
        "sourceport": ["p"],
        "data.target": ["x"],
    }
    (table, _), told = written(
        tmp_path,
        "g.gexf",
        (
            '<gexf><graph mode="dynamic"><attributes class="node"><attribute id="0" title="p"/>'
            '</attributes><nodes><node id="a" label="A" start="1"><attvalues><attvalue for="0" '
            'value="1" end="2"/><attvalue for="0" value="2" start="2"/></attvalues><spells>'
            '<spell start="1"/></spells></node><node id="b"/></nodes><edges><edge source="a" '
            'target="b"/></edges></graph></gexf>'
        ),
    )
    assert table.to_dict("list") == {
        "id": ["a", "b"],
        "start": ["1", ""],
        "name": ["A", ""],
        "p": ["2", ""],
    }
    assert "1 spell" in told and "the last of several values of p" in told


def test_only_the_first_network_of_a_pajek_project_is_read(tmp_path):
    (table, links), told = written(
        tmp_path,
        "g.paj",
        (
            '*Network one\n*Vertices 3 1\n 1 "a b" 0.1\n2 c\n\n% no link\n*Matrix\n0 1 0\n0 0 2\n'
            "0 0 0\n*Arcslist\n3 1 2\n*Partition p\n*Vertices 3\n7\n8\n9\n*Edges\n1 1\n"
        ),
    )
    assert table.to_dict("list") == {"id": ["1", "2", "3"], "name": ["a b", "c", ""]}
    assert links.to_numpy().tolist() == [["1", "2"], ["2", "3"], ["3", "1"], ["3", "2"]]
    assert "*Partition" in told and "a second *Vertices" in told


def test_gml_may_have_brackets_before_its_graph(tmp_path):
    (table, links), _ = written(
        tmp_path,
        "g.gml",
        (
            'Creator "a [tool]"\ngraph\n[ directed 0 multigraph 0 node [ id 1 label "\u2028" ] '
            "node [ id 2 ] edge [ source 1 target 2 ] edge [ source 1 target 2 ] ]\n"
        ),
    )
    assert len(table) == len(links) == 2 and table["id"].tolist() == ["1", "2"]


# Graph folders.


def folder(path: Path, features: str, labels: str = "", edges: str = "") -> Path:
    path.mkdir(exist_ok=True)
    pairs = "".join(f"{a},{b}\n" for a, b in LINKS)
    (path / "edges.csv").write_text(edges or f"from,to\n{pairs}")
    (path / "features.csv").write_text(features)
    (path / "labels.csv").write_text(labels or "".join(f"{team}\n" for team in TEAMS))
    return path


ROWS = "".join(f"{i},{i / 10},{i % 3}\n" for i in range(V))


@pytest.mark.parametrize("head", ["", "0,1,2\n", "a,b,c\n", "a,1,2\n"])
def test_headers_of_features(head, tmp_path, capsys):
    fields, _ = files.load(folder(tmp_path / "f", head + ROWS))
    assert np.asarray(fields["x"]).shape == (V, 3)
    assert ("read as a header" in capsys.readouterr().err) == (head == "0,1,2\n")


@pytest.mark.parametrize(
    "labelled", ["", "node,label\n" + "".join(f"{i},{TEAMS[i]}\n" for i in range(V))]
)
def test_a_row_of_features_that_counts_is_a_node_if_the_others_say_so(labelled, tmp_path):
    rows = "0,1\n" + "".join(f"{i},{i % 2}\n" for i in range(1, V))
    for head, count in (("", V), ("0,1\n", V)):
        fields, _ = files.load(folder(tmp_path / "f", head + rows, labelled))
        assert np.asarray(fields["x"]).shape == (count, 2)


@pytest.mark.parametrize("name", ["", "Unnamed: 0"])
def test_an_index_of_pandas_is_no_feature(name, tmp_path, capsys):
    rows = "".join(f"{i},{i / 10},{i % 3}\n" for i in range(V))
    fields, _ = files.load(folder(tmp_path / "f", f"{name},a,b\n{rows}"))
    assert np.asarray(fields["x"]).shape == (V, 2) and "no feature" in capsys.readouterr().err
    with pytest.raises(InputError, match="does not count the nodes"):
        files.load(folder(tmp_path / "f", f"{name},a,b\n" + rows.replace("0,0.0", "7,0.0", 1)))


def test_headers_of_pandas_in_features_and_labels(tmp_path, capsys):
    """The name 0 of a pandas.Series is a header if the links need one node fewer."""
    numbers = [team.removeprefix("t") for team in TEAMS]
    fields, _ = files.load(folder(tmp_path / "f", "0,1,2\n" + ROWS, "0\n" + "\n".join(numbers)))
    assert np.asarray(fields["x"]).shape == (V, 3) and fields["y"].tolist() == [*map(int, numbers)]
    with pytest.raises(InputError, match="table of numbers.*''"):
        files.load(folder(tmp_path / "f", "0,,2\n" + ROWS.partition("\n")[2]))


def test_odd_labels_and_names_of_a_folder(tmp_path):
    path = folder(tmp_path / "f", ROWS, "9" * 5000 + "\n" + "1\n" * (V - 1))
    fields, classes = files.load(path)
    assert fields["y"].tolist() == [1, *[0] * (V - 1)] and classes == ("1", "9" * 5000)
    (path / "nodes.csv").write_text("ID,id\n" + "".join(f"{i},n{i}\n" for i in range(V)))
    assert names.of_folder(path, V).ids == [f"n{i}" for i in range(V)]
    (path / "features.csv").unlink()
    np.save(path / "features.npy", np.array(1.0))
    with pytest.raises(InputError):
        files.load(path)


@pytest.mark.parametrize(
    "text, told",
    [
        ("node,label\n0,a\n0,b\n1,b\n", "node 0 has two labels"),
        ("0,a\n99,b\n", "node 99"),
        ("x,label\n-1,b\n", "node number"),
        ("0,a,b\n1,a,b\n", "node number"),
        ("node,label\n0,a\n1e20,b\n", "node number"),
    ],
)
def test_contradictory_labels_are_refused(text, told, tmp_path):
    with pytest.raises(InputError, match=told):
        files.load(folder(tmp_path / "f", ROWS, text))


@pytest.mark.parametrize(
    "edges, told",
    [
        ("0,1\n99999999999999999999,2\n", "99999999999999999999"),
        ("0,1\n-1,2\n", "-1"),
        ("0,1\n1.5,2\n", "1.5"),
        ("0\n1\n", "two nodes on each line"),
        ("from,to\n", "no link"),
    ],
)
def test_edges_that_lead_nowhere_are_refused(edges, told, tmp_path):
    with pytest.raises(InputError, match=told):
        files.load(folder(tmp_path / "f", ROWS, edges=edges))


@settings(max_examples=30, deadline=None)
@given(
    st.lists(
        st.sampled_from(["", "b", "nan", "NaN", "?", "c", "-1", "1.0"]), min_size=V, max_size=V
    ),
    st.sampled_from(["", "label\n", "0\n"]),
)
def test_a_list_of_labels_is_read_as_a_table_is(cells, head):
    with tempfile.TemporaryDirectory() as place:
        path = folder(Path(place) / "f", ROWS, head + "\n".join(cells) + "\n")
        fields, names = files.load(path)
    read = [
        names[number] if names and number >= 0 else str(number) if number >= 0 else ""
        for number in fields["y"].tolist()
    ]
    assert read == labels.cleaned(cells)[0]


# Frames and tables are one graph.


@pytest.mark.parametrize(
    "options",
    [
        {"text": ["title"]},
        {"numbers": ["a"]},
        {"categories": ["land"], "numbers": ["a"]},
        {"text": ["title"], "numbers": ["*"], "categories": ["land"], "spectral": 3},
    ],
)
@pytest.mark.parametrize("index", [False, True])
def test_frames_and_tables_are_the_same_graph(options, index, tmp_path):
    words = ["alpha beta", "gamma delta", "epsilon zeta alpha"]
    frame = pandas.DataFrame(
        {
            "id": [f"n{i}" for i in range(V)],
            "a": [i / 3 for i in range(V)],
            "label": [None if i % 3 else float(i // 8) for i in range(V)],
            "n": range(V),
            "title": [words[i % 3] for i in range(V)],
            "land": [["US", "DE", None][i % 3] for i in range(V)],
        }
    )
    edges = pandas.DataFrame(
        {"w": 1.5, "target": [f"n{b}" for _, b in LINKS], "source": [f"n{a}" for a, _ in LINKS]}
    )
    frame.to_csv(tmp_path / "n.csv", index=False)
    edges.to_csv(tmp_path / "e.csv")
    given = [
        word
        for name, value in options.items()
        for word in (f"--{name}", ",".join(value) if isinstance(value, list) else value)
    ]
    status, out = make(tmp_path, tmp_path / "n.csv", tmp_path / "e.csv", *given)
    assert status == 0
    fields, _ = files.load(out)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = from_frames(frame.set_index("id") if index else frame, edges, **options)
    np.testing.assert_array_equal(made.x.float().numpy(), np.asarray(fields["x"]).astype("f4"))
    np.testing.assert_array_equal(made.edge_index.numpy(), np.asarray(fields["edge_index"]))
    assert made.y.tolist() == fields["y"].tolist() and made.ids == frame["id"].tolist()
    assert made.feature_names == (out / "words.txt").read_text().split("\n")[:-1]


def test_a_later_frame_gets_the_features_of_an_earlier_one():
    frame = pandas.DataFrame(
        {
            "label": TEAMS,
            "a": [i / 3 for i in range(V)],
            "title": [["alpha beta", "gamma"][i % 2] for i in range(V)],
        }
    )
    edges = pandas.DataFrame(LINKS, columns=["source", "target"])
    first = from_frames(frame, edges, text="title", numbers="a")  # a text is one column
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        again = from_frames(frame.drop(columns="label"), edges, like=first)
    np.testing.assert_array_equal(again.x, first.x)
    assert again.feature_names == first.feature_names == ["alpha", "beta", "gamma", "a"]
    with pytest.warns(RuntimeWarning, match="a: 24 numbers of 24 lie"):
        other = from_frames(frame.assign(a=frame["a"] * 1000 + 500), edges, like=first)
    assert not np.array_equal(other.x, first.x)
    with pytest.raises(InputError, match="like: this graph does not say"):
        from_frames(frame, edges, like=Data(x=first.x))


def test_a_first_line_of_two_numbers_is_a_link(tmp_path):
    (tmp_path / "e.csv").write_text("900,901\n" + "".join(f"{a},{b}\n" for a, b in LINKS))
    nodes = node_table(tmp_path / "n.csv", id=lambda i: f"{i}.0")
    words = nodes, tmp_path / "e.csv", "--numbers", "a"
    assert make(tmp_path, *words)[0] == 2
    status, out = make(tmp_path, *words, "--skip-missing")
    assert status == 0 and links_of(out) == {*LINKS}


def test_options_of_frames_in_messages():
    frame = pandas.DataFrame({"label": [0, 1, 0], "a": [1.0, 2.0, 4.0]})
    edges = pandas.DataFrame({"x": [0, 1], "y": [1, 2], "z": [2, 0]})
    with pytest.raises(InputError, match="ends= COLUMN COLUMN"):
        from_frames(frame, edges)
    with pytest.raises(InputError, match="a DataFrame|pandas.DataFrame"):
        from_frames(frame, edges.to_numpy())
    with pytest.warns(RuntimeWarning, match="x and y; not read: z"):
        made = from_frames(frame, edges, ends=("x", "y"))
    assert made.edge_index.tolist() == [[0, 1], [1, 2]]


@pytest.mark.parametrize("label", [float("nan"), None, "", "unknown", -1])
def test_a_missing_label_of_networkx(label):
    net = networkx.cycle_graph(9)
    for node in net:
        net.nodes[node].update(x=[float(node)], label=[0, 1, label][node % 3])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = from_networkx(net)
    assert list(made.y) == [0, 1, -1] * 3 and made.train_mask.tolist() == [True, True, False] * 3


# A later table.


def test_a_later_table_that_drifts_is_told_with_counts(tmp_path, capsys):
    words = ["alpha beta", "gamma delta", "epsilon zeta"]
    pandas.DataFrame(LINKS, columns=["source", "target"]).to_csv(tmp_path / "e.csv", index=False)

    def table(name: str, **changed) -> Path:
        columns = {
            "title": [words[i % 3] for i in range(V)],
            "land": ["US", "DE"] * (V // 2),
            "price": [10.0 + i for i in range(V)],
        } | changed
        return node_table(tmp_path / name, **columns)

    chosen = ("--text", "title", "--numbers", "price", "--categories", "land")
    words_ = ("data", "make", table("base.csv"), tmp_path / "e.csv", *chosen)
    assert main([*map(str, words_), "--out", str(tmp_path / "base")]) == 0
    for changed, told in (
        ({"land": ["us", "BR"] * (V // 2)}, "! land: 24 of 24 cells are no category"),
        ({"price": [10_000.0 + 1000 * i for i in range(V)]}, "! price: 24 numbers of 24 lie"),
        ({"price": [0.01 + i / 1000 for i in range(V)]}, "times less than"),
        ({"title": ["ganz andere worte"] * V}, "! title: 24 of 24 texts have no word"),
        ({"land": ["US"] * (V - 1) + ["IT"]}, "\nland: 1 of 24 cells are no category"),
        ({}, ""),
    ):
        capsys.readouterr()
        assert (
            make(
                tmp_path,
                table("new.csv", **changed),
                tmp_path / "e.csv",
                "--like",
                tmp_path / "base",
            )[0]
            == 0
        )
        output = capsys.readouterr().out
        assert told in output and (told or "category of" not in output), output


# Nothing is written that the next command refuses.


@pytest.mark.parametrize(
    "count, split, told",
    [
        (3, None, "cannot be used for training yet"),
        (0, None, "cannot be used for training yet"),
        (8, None, "cannot be used for training yet"),
        (24, None, "next: graphgym-srnc run"),
        (24, ["train"] * 24, "cannot be used"),
        (9, None, "next: graphgym-srnc run|cannot"),
    ],
)
def test_the_proposed_command_works(count, split, told, tmp_path, capsys):
    import re

    order = [(i % 3) * 8 + i // 3 for i in range(V)] if count != 8 else range(V)
    given = ["" for _ in range(V)]
    for i in [*order][:count]:
        given[i] = TEAMS[i]
    (tmp_path / "e.csv").write_text("source,target\n" + "".join(f"{a},{b}\n" for a, b in LINKS))
    extra = {"split": split} if split else {}
    status, out = make(
        tmp_path,
        node_table(tmp_path / "n.csv", given, **extra),
        tmp_path / "e.csv",
        "--numbers",
        "a",
    )
    output = capsys.readouterr().out
    assert status == 0 and re.search(told, output), output
    if "next:" in output:
        assert main(["data", "show", "--cfg", "own", "dataset.name", str(out)]) == 0


@pytest.mark.parametrize(
    "columns, told",
    [({"a": [1.0] * V}, "features of all nodes are zero"), ({"a": [""] * V}, "zero|not numbers")],
)
def test_a_graph_without_features_is_not_written(columns, told, tmp_path, capsys):
    import re

    (tmp_path / "e.csv").write_text("source,target\n" + "".join(f"{a},{b}\n" for a, b in LINKS))
    status, out = make(
        tmp_path, node_table(tmp_path / "n.csv", **columns), tmp_path / "e.csv", "--numbers", "a"
    )
    assert status == 2 and not out.exists() and re.search(told, capsys.readouterr().err)
