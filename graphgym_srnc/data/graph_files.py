"""Files of nodes and links of other programs: one frame of text cells for each."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, Callable, Iterable
from xml.etree import ElementTree

import pandas

from graphgym_srnc.core.text import counted, listed
from graphgym_srnc.data import read
from graphgym_srnc.errors import InputError, reading

# What files call nodes and links, and objects in them that hold their fields.
NODES, LINKS = ("nodes", "vertices"), ("links", "edges", "relationships")
WRAPPERS = ("attributes", "data", "properties", "metadata")
TYPES = ".graphml, .gexf, .gml, .json, .net, or .xlsx with the sheets nodes and edges"
Record = dict[str, Any]
Records = tuple[Iterable[Record], Iterable[Record]]  # of nodes and of links


def graph(path: Path, notes: list[str]) -> tuple[pandas.DataFrame, pandas.DataFrame]:
    """Read one file of nodes and links: a frame of each, see ``read.sheet``."""
    content = read.binary(path)
    what = read.kind(path, content)
    if what == "xlsx":
        sheets = read.workbook(content, notes, path.name)
        named = {name.strip().lower(): sheet for name, sheet in sheets.items()}
        both = [[named[name] for name in names if name in named] for names in (NODES, LINKS)]
        if all(both):
            return both[0][0], both[1][0]
    if what not in READERS:
        hint = f"Give a second file with the links, or one file of type {TYPES}"
        raise InputError.plain(path.name, "the file holds no links", hint)
    with reading(path, f"a readable .{what} file", path.name):
        nodes, links = READERS[what](path, notes)
        return _of_records(nodes, path, "nodes"), _of_records(links, path, "links")


def links(path: Path, notes: list[str]) -> pandas.DataFrame:
    """Read a list of links, or the links of a file that holds nodes as well."""
    if read.kind(path, read.binary(path)) not in READERS:
        return read.sheet(path, notes, links=True)
    notes.append(f"{path.name}: not read: its nodes")
    return graph(path, notes)[1]


def _xml(path: Path, notes: list[str]) -> Records:
    # networkx reads no defaults, and refuses mixed directions and some namespaces and types.
    root = ElementTree.fromstring(read.binary(path))
    for element in root.iter():
        element.tag = element.tag.rpartition("}")[2]  # without its namespace
    repeated: set[str] = set()

    def records(what: str) -> list[Record]:
        keys = [key for key in root.iter("key") if key.get("for", what) in (what, "all")]
        keys += root.findall(f".//attributes[@class='{what}']/attribute")
        names = {key.get("id"): key.get("attr.name", key.get("title")) for key in keys}
        defaults = {
            names[key.get("id")]: text.text for key in keys for text in key.findall("default")
        }
        rows = list[Record]()
        for element in root.iter(what):
            row: Record = {**element.attrib}
            if what == "node" and "label" in row:  # what GEXF calls it is its name
                row["name"] = row.pop("label")
            own: Record = {}
            for cell in (*element.findall("data"), *element.findall("attvalues/attvalue")):
                id = cell.get("key") or cell.get("for") or cell.get("id")
                name = names.get(id) or id or cell.tag
                repeated.update({name} & own.keys())
                own[name] = cell.get("value", "".join(cell.itertext()))
            rows.append({**row, "data": defaults | own})
        return rows

    both = records("node"), records("edge")
    counts = {kind: len([*root.iter(kind)]) for kind in ("graph", "hyperedge", "port", "spell")}
    graphs = counts.pop("graph")
    notes += [f"{path.name}: its {graphs} graphs are read as one"] * (graphs > 1)
    unread = [counted(count, kind) for kind, count in counts.items() if count]
    unread += [f"all but the last of several values of {name}" for name in sorted(repeated)]
    notes += [f"{path.name}: not read: {listed(unread)}"] * bool(unread)
    return both


def _gml(path: Path, notes: list[str]) -> Records:
    import networkx

    # Without this word networkx refuses links that occur twice.
    content = re.sub(r"(?m)^\s*graph\s*\[", "graph [\nmultigraph 1\n", read.text(path), count=1)
    return _networkx(
        networkx.parse_gml(content.encode("ascii", "xmlcharrefreplace").decode(), label=None)
    )


def _pajek(path: Path, notes: list[str]) -> Records:
    import networkx

    content = read.text(path)
    found = networkx.parse_pajek(content)
    count = re.search(r"(?im)^\*vertices\s+(\d+)", content)
    if count is None or len(found) != int(count[1]):  # networkx merges vertices of one name
        hint = "Give each vertex its own name, and link vertices that are listed"
        raise InputError.plain(path.name, f"its vertices have {len(found):,} names", hint)
    return _networkx(found)


def _networkx(found: Any) -> Records:
    return (
        [{**fields, "id": node} for node, fields in found.nodes(data=True)],
        [{**fields, "source": a, "target": b} for a, b, fields in found.edges(data=True)],
    )


def _json(path: Path, notes: list[str]) -> Records:
    # Numbers stay as they are written.
    plain: dict[str, Any] = {"parse_int": str, "parse_float": str, "parse_constant": str}
    content = read.text(path)
    try:
        document = json.loads(content, **plain)
    except json.JSONDecodeError:
        document = [json.loads(line, **plain) for line in content.splitlines() if line.strip()]
    return _of_json(document, path.name)


def _of_json(document: Any, file: str) -> Records:
    """Nodes and links of an object, or of a list of both, as of Cytoscape and Neo4j."""
    if isinstance(document, list):
        return _of_list(document)
    outer = document if isinstance(document, dict) else {}
    inner = [outer[name] for name in ("elements", "graph", "graphs") if name in outer]
    for fields in (outer, *inner):
        if isinstance(fields, list):
            return _of_json(fields[0] if "graphs" in outer and len(fields) == 1 else fields, file)
        found = fields if isinstance(fields, dict) else {}
        both = [[found[name] for name in names if name in found] for names in (NODES, LINKS)]
        if all(both):
            return _with_ids(both[0][0]), both[1][0]
    hint = "Give an object with nodes and links, or a node table and a list of links"
    raise InputError.plain(file, f"it holds {sorted(outer)[:8] or 'a list'}", hint)


def _with_ids(nodes: Any) -> Any:
    """Nodes as a list; JSON Graph Format has them by id."""
    if not isinstance(nodes, dict):
        return nodes
    return [{**fields, "id": id} for id, fields in nodes.items()]


def _of_list(rows: list[Any]) -> Records:
    """Nodes and links by their ends: ``source`` of Cytoscape, ``start`` and ``end`` of Neo4j."""
    fields = [row.get("data", row) if isinstance(row, dict) else {} for row in rows]
    is_link = [bool({"source", "start"} & own.keys()) for own in fields]
    links = [own for own, link in zip(rows, is_link) if link]
    for row in links:
        for end in (end for end in ("start", "end") if isinstance(row.get(end), dict)):
            row[end] = row[end].get("id")
    return [own for own, link in zip(rows, is_link) if not link], links


READERS: dict[str, Callable[[Path, list[str]], Records]] = {
    "xml": _xml,
    "gml": _gml,
    "json": _json,
    "net": _pajek,
}


def _of_records(records: Any, path: Path, what: str) -> pandas.DataFrame:
    """A frame of a list of objects; what is absent is an empty cell."""
    is_list = isinstance(records, list) and all(isinstance(row, dict) for row in records)
    flat = [_flat(row) for row in records] if is_list else []
    if not any(flat):
        hint = "Give at least one; JSON must have them in a list of objects"
        raise InputError.plain(path.name, f"it contains no {what}", hint)
    names = dict.fromkeys(name for row in flat for name in row)
    cells = {name: [read.cell(row.get(name)) for row in flat] for name in names}
    return pandas.DataFrame(cells, index=range(len(flat)), dtype=object)


def _flat(row: Record) -> Record:
    """The fields of an object; those of an object in it are ``outer.inner``, or ``inner`` alone."""
    found = {name: value for name, value in row.items() if not isinstance(value, dict)}
    for outer in [name for name in row if name not in found]:
        for name, value in _flat(row[outer]).items():
            found[name if outer in WRAPPERS and name not in found else f"{outer}.{name}"] = value
    return found
