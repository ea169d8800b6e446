"""Node tables, links and whole graphs as frames; ``notes`` say what is not read."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, Collection
from xml.etree import ElementTree

import pandas

from graphgym_srnc.core.text import counted, listed
from graphgym_srnc.data import limits, read
from graphgym_srnc.errors import InputError, reading
from graphgym_srnc.io.atomic import regular

EXTRAS = {".parquet": "parquet", ".xlsx": "excel"}
SUFFIXES = (*EXTRAS, ".json", ".jsonl")
"""Kinds of tables beside text, and the extras that install the packages which read them."""

NODES, LINKS = ("nodes", "vertices"), ("links", "edges", "relationships")
WRAPPERS = ("attributes", "data", "properties", "metadata")
"""What JSON calls nodes and links, and objects in them that hold their fields."""

Record = dict[str, Any]


def table(path: Path, notes: list[str], ids: Collection[str] | None = None) -> pandas.DataFrame:
    """Read a node table, or the links between nodes of some ``ids``, see :func:`read.links`."""
    kind = read.kind(path)
    if kind not in SUFFIXES:
        return read.table(path) if ids is None else read.links(path, ids, notes)
    hint = f"pip install 'graphgym-srnc[{EXTRAS.get(kind)}]' installs what reads such files"
    with reading(path, f"a readable {kind} file", path.name, hint * (kind in EXTRAS)):
        if kind not in EXTRAS:
            return _of_records(_json(path), path, "rows")
        book_file, sheet = read.workbook(path)
        limits.check_file(book_file, sheet)
        if kind == ".parquet":
            # Nullable types keep whole numbers whole where some are missing.
            frame = pandas.read_parquet(regular(path), dtype_backend="numpy_nullable")
            counts = frame.index.equals(pandas.RangeIndex(len(frame)))
            if frame.index.name is not None or not counts:
                frame = frame.reset_index(names=[name or "" for name in frame.index.names])
        else:
            with pandas.ExcelFile(regular(book_file), engine="openpyxl") as book:
                first, *others = book.sheet_names
                if sheet not in ("", first, *others):
                    hint = f"Its sheets are {listed([first, *others])}"
                    raise InputError.plain(path.name, f"it has no sheet {sheet!r}", hint)
                frame = book.parse(sheet or first, header=None, dtype=str, na_filter=False)
            if others and not sheet:
                how = f"; write {path.name}#{others[0]} to read that one"
                notes.append(f"{path.name}: not read: the sheets {listed(others)}{how}")
        frame = frame.rename(columns=str).astype("string").fillna("").astype(object).map(str.strip)
        return frame if kind == ".parquet" else read.headed(frame, path.name)


def graph(path: Path, notes: list[str]) -> list[pandas.DataFrame]:
    """Read one file of nodes, which have a column ``id``, and links: a frame of each."""
    kind = read.kind(path)
    readers = {".graphml": _xml, ".gexf": _xml, ".json": _json_graph, ".gml": _gml}
    readers |= {".net": _pajek, ".paj": _pajek}
    if kind in readers:
        with reading(path, f"a readable {kind} file", path.name):
            nodes, pairs = readers[kind](path, notes)
            return [_of_records(nodes, path, "nodes"), _of_records(pairs, path, "links")]
    columns = table(path, notes)  # of Neo4j's apoc.export.csv
    if not {"_id", "_start", "_end"} <= {*columns}:
        hint = (
            "Give a second file with the links; one file is enough with the columns _id, "
            "_start and _end, or as GraphML, GEXF, GML, Pajek or JSON"
        )
        raise InputError.plain(path.name, f"it has no links but {listed([*columns])}", hint)
    is_node = columns["_id"] != ""
    return [
        part.loc[:, (part != "").any() | part.columns.isin(ids)].reset_index(drop=True)
        for part, ids in ((columns[is_node], ["_id"]), (columns[~is_node], ["_start", "_end"]))
    ]


def _xml(path: Path, notes: list[str]) -> tuple[list[Record], list[Record]]:
    # networkx reads no defaults, and refuses mixed directions and some namespaces and types.
    root = ElementTree.fromstring(read.binary(path))
    for element in root.iter():
        element.tag = element.tag.rpartition("}")[2]  # without its namespace
    parents = root.findall("graph")
    if not parents:
        raise InputError.plain(path.name, f"there is no graph in its first element, {root.tag}")
    parent, *others = parents
    repeated: set[str] = set()

    def records(what: str) -> list[Record]:
        keys = [*root.findall("key"), *parent.findall(f"attributes[@class='{what}']/attribute")]
        keys = [key for key in keys if key.get("for", what) in (what, "all")]
        names: dict[str, str] = {}
        defaults: Record = {}
        for key in keys:
            id = key.get("id", "")
            named = (key.get(word) for word in ("attr.name", "title", "yfiles.type"))
            names[id] = next(filter(None, named), id)
            for text in key.findall("default"):
                defaults[names[id]] = "".join(text.itertext())
        found = [*parent.iter(what)]
        limits.check_table(path, len(found), len(names))
        rows: list[Record] = []
        for element in found:
            row: Record = {**element.attrib}
            if what == "node" and "label" in row:  # what GEXF calls it is its name
                row["name"] = row.pop("label")
            cells: Record = {}
            for cell in (*element.findall("data"), *element.findall("attvalues/attvalue")):
                id = cell.get("key") or cell.get("for") or cell.get("id") or cell.tag
                label = cell.findall(".//NodeLabel")[:1]  # in yEd's files
                name = "label" if label else names.get(id, id)
                repeated.update({name} & cells.keys())
                cells[name] = cell.get("value", "".join([*label, cell][0].itertext()))
            rows.append({**row, "data": defaults | cells})
        return rows

    both = records("node"), records("edge")
    strange = {"more graph": others} | {
        kind: parent.findall(f".//{kind}") for kind in ("hyperedge", "port", "spell")
    }
    unread = [counted(len(found), kind) for kind, found in strange.items() if found]
    unread += ["which nodes are nested in which"] * (parent.find(".//node//node") is not None)
    unread += [f"all but the last of several values of {name}" for name in sorted(repeated)]
    notes += [f"! {path.name}: not read: {listed(unread)}"] * bool(unread)
    return both


def _gml(path: Path, notes: list[str]) -> tuple[list[Record], list[Record]]:
    import networkx

    # Without this word networkx refuses links that occur twice.
    content = re.sub(r"(?m)^\s*graph\s*\[", "graph [\nmultigraph 1\n", read.text(path), count=1)
    found = networkx.parse_gml(content.encode("ascii", "xmlcharrefreplace").decode(), label=None)
    return (
        [{**fields, "id": node} for node, fields in found.nodes(data=True)],
        [{**fields, "source": a, "target": b} for a, b, fields in found.edges(data=True)],
    )


def _pajek(path: Path, notes: list[str]) -> tuple[list[Record], list[Record]]:
    # networkx merges nodes of one name, and reads one link only of each list of links.
    names: dict[str, str] = {}
    pairs: list[list[str]] = []
    for part in re.split(r"(?m)^\*", read.text(path))[1:]:
        (section, *size), *rows = [
            [quoted or word for quoted, word in re.findall(r'"([^"]*)"|(\S+)', line)]
            for line in part.split("\n")
            if line.strip() and not line.startswith("%")
        ]
        kind = section.lower()
        if kind == "vertices" and not names:
            limits.check_table(path, int(size[0]), 1)
            names = {str(place + 1): "" for place in range(int(size[0]))}
            names |= {number: "".join(name[:1]) for number, *name in rows}
        elif kind in ("network", "vertices") and names:
            notes.append(f"! {path.name}: not read: all from a second *{section} on")
            break
        elif kind in ("edges", "arcs"):
            pairs += rows
        elif kind in ("edgeslist", "arcslist"):
            pairs += [[first, other] for first, *others in rows for other in others]
        elif kind == "matrix":
            cells = (
                (a, b) for a, row in enumerate(rows, 1) for b, x in enumerate(row, 1) if float(x)
            )
            pairs += [[str(a), str(b)] for a, b in cells]
        elif kind != "network":
            notes.append(f"! {path.name}: not read: *{section}")
    return (
        [{"id": number, "name": name} for number, name in names.items()],
        [dict(zip(("source", "target"), pair)) for pair in pairs],
    )


def _json_graph(path: Path, notes: list[str]) -> tuple[list[Record], list[Record]]:
    document = _json(path)
    outer = document if isinstance(document, dict) else {}
    # The others are of the JSON Graph Format, and of Cytoscape.
    objects = [x for x in (outer, outer.get("graph"), outer.get("elements")) if isinstance(x, dict)]
    inner = [found for found in objects if {*NODES} & found.keys() and {*LINKS} & found.keys()]
    if not inner:
        hint = "Give an object with nodes and links, or a second file of links"
        raise InputError.plain(path.name, f"it holds {sorted(outer)[:8] or 'a list'}", hint)
    nodes, pairs = (
        next(inner[0][name] for name in names if name in inner[0]) for names in (NODES, LINKS)
    )
    if isinstance(nodes, dict):
        nodes = [{**fields, "id": id} for id, fields in nodes.items()]
    is_numbered = all(str(pair.get("source")).isdecimal() for pair in pairs)
    if is_numbered and not any({"id", "key", *WRAPPERS} & node.keys() for node in nodes):
        # As D3 numbers nodes.
        nodes = [{**node, "index": str(place)} for place, node in enumerate(nodes)]
    return [
        {"id": node.pop("key"), **node} if "key" in node and "id" not in node else node
        for node in nodes
    ], pairs


def _json(path: Path) -> Any:
    """What a JSON file holds, numbers as they are written; objects of a ``.jsonl`` as a list."""
    content = read.text(path)
    if read.kind(path) == ".jsonl":
        content = "[" + re.sub(r"\s*\n\s*", ",", content.strip()) + "]"
    return json.loads(content, parse_int=str, parse_float=str, parse_constant=str)


def _of_records(records: Any, path: Path, what: str) -> pandas.DataFrame:
    """A frame of a list of objects; what is absent is an empty cell."""
    is_list = isinstance(records, list) and all(isinstance(row, dict) for row in records)
    flat = [_flat(row) for row in records] if is_list else []
    if not any(flat):
        hint = "Give at least one; JSON must have them in a list of objects"
        raise InputError.plain(path.name, f"it contains no {what}", hint)
    names = dict.fromkeys(name for row in flat for name in row)
    limits.check_table(path, len(flat), len(names))
    return pandas.DataFrame(
        {name: [_cell(row.get(name)) for row in flat] for name in names},
        index=range(len(flat)),
        dtype=object,
    )


def _flat(row: Record) -> Record:
    """The fields of an object; those of an object in it are ``outer.inner``, or ``inner`` alone."""
    found = {name: value for name, value in row.items() if not isinstance(value, dict)}
    for outer in [name for name in row if name not in found]:
        for name, value in _flat(row[outer]).items():
            found[name if outer in WRAPPERS and name not in found else f"{outer}.{name}"] = value
    return found


def _cell(value: Any) -> str:
    if value is None or value != value:
        return ""
    if isinstance(value, (list, tuple)):
        return ", ".join(map(_cell, value))
    return json.dumps(value) if isinstance(value, (bool, dict)) else str(value).strip()
