"""Files of nodes and links of other programs: one frame of text cells for each."""

from __future__ import annotations

import io
import json
import re
from collections import Counter
from pathlib import Path
from typing import Any, Callable, Mapping, Sequence
from xml.etree import ElementTree

import pandas

from graphgym_srnc.data import read
from graphgym_srnc.errors import InputError, option, reading

# What files call nodes and links, and objects in them that hold their fields.
NODES = ("nodes", "vertices")
LINKS = ("links", "edges", "relationships")
WRAPPERS = "attributes|data|properties|metadata"
GEXF = "{http://www.gexf.net/1.2draft}"
TYPES = ".graphml, .gexf, .gml, .json, .net, or .xlsx with the sheets nodes and edges"
ALONE = f"{option('link_by', 'COLUMN')} alone links rows that share a value, such as an author"
NO_LINKS = ["source", "target"]
Record = dict[str, Any]
Records = tuple[list[Record], list[Record]]  # of nodes and of links


def graph(
    path: Path, notes: list[str], links_optional: bool = False
) -> tuple[pandas.DataFrame, pandas.DataFrame]:
    """Read one file of nodes and links: a frame of each, see ``read.sheet``.

    A table without links has an empty frame of these if they are optional.
    """
    content = read.binary(path)
    what = read.kind(path, content)
    if what == "xlsx":
        sheets = read.workbook(content, notes, path.name)
        named = {name.strip().lower(): sheet for name, sheet in sheets.items()}
        of_nodes = _either(named, NODES)
        of_links = _either(named, LINKS)
        if of_nodes is not None and of_links is not None:
            return of_nodes, of_links
    if what not in READERS and links_optional:
        return read.sheet(path, notes), pandas.DataFrame(columns=NO_LINKS, dtype=object)
    if what not in READERS:
        raise InputError.plain(
            path.name,
            "the file holds no links",
            f"Give a second file with the links, or one file of type {TYPES}. {ALONE}",
        )
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
    """GraphML and GEXF, whose links may mix directions, which networkx refuses."""
    import networkx

    content = read.binary(path)
    root = ElementTree.fromstring(content)
    is_gexf = root.tag.endswith("gexf")
    tags = Counter(element.tag.rpartition("}")[2] for element in root.iter())
    for element in root.iter():
        if is_gexf:  # networkx knows the names of a few versions alone
            element.tag = GEXF + element.tag.rpartition("}")[2]
        if element.tag.endswith("edge"):
            element.attrib.pop("type", None)
            element.attrib.pop("directed", None)
    reader = networkx.read_gexf if is_gexf else networkx.read_graphml
    found = reader(io.BytesIO(ElementTree.tostring(root)))
    if len(found) != tags["node"]:
        raise InputError.plain(
            path.name,
            f"its links name {len(found):,} nodes",
            "Declare the ends of each link as nodes, each with its own id",
        )
    nodes, links = _networkx(found)
    for row in nodes if is_gexf else ():
        row["name"] = row.pop("label", "")  # what GEXF calls it is no class
    if tags["graph"] > 1:
        notes.append(f"{path.name}: its {tags['graph']} graphs are read as one")
    return nodes, links


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
        raise InputError.plain(
            path.name,
            f"its vertices have {len(found):,} names",
            "Give each vertex its own name, and link vertices that are listed",
        )
    return _networkx(found)


def _networkx(found: Any) -> Records:
    of_nodes = found.graph.get("node_default", {})
    of_links = found.graph.get("edge_default", {})
    return (
        [{**of_nodes, **fields, "id": node} for node, fields in found.nodes(data=True)],
        [
            {**of_links, **fields, "source": a, "target": b}
            for a, b, fields in found.edges(data=True)
        ],
    )


def _json(path: Path, notes: list[str]) -> Records:
    # Numbers stay as they are written.
    plain: dict[str, Any] = {"parse_int": str, "parse_float": str, "parse_constant": str}
    content = read.text(path)
    try:
        document = json.loads(content, **plain)
    except json.JSONDecodeError:
        document = [json.loads(line, **plain) for line in content.splitlines() if line.strip()]
    found = _of_json(document)
    if found is None:
        holds = sorted(document)[:8] if isinstance(document, dict) else "a list"
        raise InputError.plain(
            path.name,
            f"it holds {holds}",
            "Give an object with nodes and links, or a node table and a list of links",
        )
    return found


def _of_json(document: Any) -> Records | None:
    """Nodes and links of an object, or of a list of both, as of Cytoscape and Neo4j."""
    if isinstance(document, list):
        is_link = [bool({"source", "start"} & {*row, *row.get("data", ())}) for row in document]
        links = [row for row, link in zip(document, is_link) if link]
        return [row for row, link in zip(document, is_link) if not link], links
    if not isinstance(document, dict):
        return None
    nodes = _either(document, NODES)
    links = _either(document, LINKS)
    if nodes is not None and links is not None:
        if isinstance(nodes, dict):  # JSON Graph Format has them by id
            nodes = [{**fields, "id": id} for id, fields in nodes.items()]
        return nodes, links
    inner = _either(document, ("elements", "graph", "graphs"))
    several = "graphs" in document and isinstance(inner, list) and len(inner) == 1
    return _of_json(inner[0] if several else inner)


def _either(named: Mapping[str, Any], names: Sequence[str]) -> Any:
    """What has the first of some names; None = nothing has."""
    return next((named[name] for name in names if name in named), None)


READERS: dict[str, Callable[[Path, list[str]], Records]] = {
    "xml": _xml,
    "gml": _gml,
    "json": _json,
    "net": _pajek,
}


def _of_records(records: Any, path: Path, what: str) -> pandas.DataFrame:
    """A frame of text cells; a field of an object in another one is ``outer.inner``, or its name.

    What is absent is an empty cell.
    """
    is_list = isinstance(records, list) and all(isinstance(row, dict) for row in records)
    found = pandas.json_normalize(records) if is_list else pandas.DataFrame()
    if found.empty:
        raise InputError.plain(
            path.name,
            f"it contains no {what}",
            "Give at least one; JSON must have them in a list of objects",
        )
    names = {name: re.sub(rf"^({WRAPPERS})\.|\.id$", "", name) for name in map(str, found)}
    found.columns = pandas.Index(names)
    found = found.rename(columns={old: new for old, new in names.items() if new not in names})
    return found.astype(object).map(read.cell)
