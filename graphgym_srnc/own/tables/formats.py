"""Node tables, lists of links and whole graphs that other programs write, as frames of cells.

All functions raise :class:`InputError`, which names the file, if it cannot be read or is not what
it should be. They append to ``notes`` what they do not read.
"""
from __future__ import annotations

import contextlib
import json
import shlex
from collections import Counter
from pathlib import Path
from typing import Any, Collection, Iterator, NamedTuple
from xml.etree import ElementTree

import pandas

from graphgym_srnc.atomic import regular
from graphgym_srnc.data import limits, read
from graphgym_srnc.errors import InputError
from graphgym_srnc.text import counted, listed

SUFFIXES = (".parquet", ".xlsx", ".json", ".jsonl")
"""Kinds of tables beside text."""

NODES, LINKS = ("nodes", "vertices"), ("links", "edges", "relationships")
WRAPPERS = ("attributes", "data", "properties", "metadata")
"""What JSON calls nodes and links, and objects in them that hold their fields."""

Record = dict[str, Any]


class Graph(NamedTuple):
    """The nodes of a file and its links, one row each."""

    nodes: pandas.DataFrame
    links: pandas.DataFrame


def table(path: Path, notes: list[str]) -> pandas.DataFrame:
    """Read a table whose first line names its columns."""
    if path.suffix not in SUFFIXES:
        return read.table(path)
    with _reading(path):
        if path.suffix in (".json", ".jsonl"):
            return _of_records(_records(path), path)
        limits.check_file(path)
        if path.suffix == ".xlsx":
            with pandas.ExcelFile(regular(path), engine="openpyxl") as book:
                first, *others = book.sheet_names
                frame = book.parse(first, header=None, dtype=str, na_filter=False)
            names = frame.iloc[0].map(str).str.strip().tolist() if len(frame) else []
            frame = read.with_header(frame.iloc[1:], names, path.name)
            notes += [f"{path.name}: not read: the sheets {listed(others)}"] * bool(others)
        else:
            # Nullable types keep whole numbers whole where some are missing.
            frame = pandas.read_parquet(regular(path), dtype_backend="numpy_nullable")
            frame = with_index(frame)
            frame = read.with_header(frame, [*map(str, frame.columns)], path.name)
    return read.stripped(frame)


def with_index(frame: pandas.DataFrame) -> pandas.DataFrame:
    """A frame whose index is its first column, unless it only counts the rows."""
    if isinstance(frame.index, pandas.RangeIndex) and frame.index.name is None:
        return frame
    names = [name or "" for name in frame.index.names]
    return frame.set_axis(frame.index.set_names(names)).reset_index()


def links(path: Path, ids: Collection[str], notes: list[str]) -> pandas.DataFrame:
    """Read a list of links, see :func:`read.links`."""
    return table(path, notes) if path.suffix in SUFFIXES else read.links(path, ids, notes)


def graph(path: Path, notes: list[str]) -> Graph:
    """Read one file of nodes, which have a column ``id``, and links."""
    reader = {".graphml": _xml, ".gexf": _xml, ".json": _json_graph, ".gml": _gml,
              ".net": _pajek, ".paj": _pajek}.get(path.suffix.lower())
    if reader is None:
        return _neo4j(read.table(path), path.name, notes)
    with _reading(path):
        nodes, pairs = reader(path, notes)
        return Graph(_of_records(nodes, path), _of_records(pairs, path, empty=True))


def _xml(path: Path, notes: list[str]) -> tuple[list[Record], list[Record]]:
    """GraphML and GEXF, in both of which a cell has the default of its column if it is absent.

    networkx reads no defaults, refuses graphs of directed and undirected links, and knows some
    namespaces and types of cells only.
    """
    root = ElementTree.fromstring(read.binary(path))
    for element in root.iter():
        element.tag = element.tag.rpartition("}")[2]  # without its namespace
    parent, *others = root.findall("graph") or [None]
    if parent is None:
        raise InputError.plain(path.name, f"there is no graph in its first element, {root.tag}")
    columns: dict[tuple[str, str], tuple[str, ElementTree.Element | None]] = {}
    for group in (root, *parent.iter("attributes")):
        for key in (*group.findall("key"), *group.findall("attribute")):
            id = key.get("id", "")
            name = key.get("attr.name") or key.get("title") or key.get("yfiles.type") or id
            for what in ("node", "edge"):
                if group.get("class", key.get("for", "all")) in (what, "all"):
                    columns[what, id] = name, key.find("default")
    repeated: Counter[str] = Counter()

    def fields(element: ElementTree.Element, what: str) -> Record:
        found = {name: _text(default) for (kind, _), (name, default) in columns.items()
                 if kind == what and default is not None}
        seen = set()
        for cell in (*element.findall("data"), *element.findall("attvalues/attvalue")):
            id = cell.get("key") or cell.get("for") or cell.get("id") or ""
            name = columns.get((what, id), (id,))[0]
            label = cell.find(".//NodeLabel")  # in yEd's files
            if label is not None:
                cell, name = label, "label"
            repeated[name] += name in seen
            seen.add(name)
            found[name] = cell.get("value", _text(cell))
        return found

    limits.check_table(path, sum(1 for _ in parent.iter("node")), len(columns))
    # What GEXF calls the label of a node is its name.
    nodes = [{**({"name": node.get("label")} if node.get("label") else {}), **fields(node, "node"),
              "id": node.get("id")} for node in parent.iter("node")]
    links = [{**fields(edge, "edge"), **edge.attrib} for edge in parent.iter("edge")]
    for link in links:
        link.pop("id", None)
    unread = [counted(len(others), "more graph")] * bool(others)
    unread += [counted(sum(1 for _ in parent.iter(kind)), kind) for kind in ("hyperedge",)
               if parent.find(f".//{kind}") is not None]
    unread += ["which nodes are nested in which"] * (parent.find(".//node//node") is not None)
    unread += [f"all but the last of the values of {name} at {counted(count, 'place')}"
               for name, count in repeated.items() if count]
    notes += [f"! {path.name}: not read: {listed(unread)}"] * bool(unread)
    return nodes, links


def _gml(path: Path, notes: list[str]) -> tuple[list[Record], list[Record]]:
    import networkx
    # Without this word networkx refuses links that occur twice.
    content = read.text(path).replace("[", "[\nmultigraph 1\n", 1)
    content = content.encode("ascii", "xmlcharrefreplace").decode()
    found = networkx.parse_gml(content.replace("\nmultigraph 0", ""), label=None)
    return ([{**fields, "id": node} for node, fields in found.nodes(data=True)],
            [{**fields, "source": a, "target": b} for a, b, fields in found.edges(data=True)])


def _pajek(path: Path, notes: list[str]) -> tuple[list[Record], list[Record]]:
    # networkx merges nodes of one name, and reads one link only of each list of links.
    nodes: dict[str, Record] = {}
    pairs: list[tuple[str, str]] = []
    section, row = "", 0
    for line in read.text(path).splitlines():
        cells = shlex.split(line, comments=False) if '"' in line else line.split()
        if not cells or line.startswith("%"):
            continue
        if line.startswith("*"):
            section, row = cells[0].lower(), 0
            if section == "*vertices":
                limits.check_table(path, int(cells[1]), 1)
                nodes |= {str(number): {} for number in range(1, int(cells[1]) + 1)}
            elif section not in ("*network", "*edges", "*arcs", "*edgeslist", "*arcslist",
                                 "*matrix"):
                notes.append(f"{path.name}: not read: {line.strip()}")
        elif section == "*vertices":
            nodes[cells[0]] = {"name": cells[1] if len(cells) > 1 else ""}
        elif section == "*matrix":
            row += 1
            pairs += [(str(row), str(column)) for column, cell in enumerate(cells, 1)
                      if float(cell)]
        elif section in ("*edges", "*arcs"):
            pairs.append((cells[0], cells[1]))
        elif section in ("*edgeslist", "*arcslist"):
            pairs += [(cells[0], other) for other in cells[1:]]
    return ([{**fields, "id": number} for number, fields in nodes.items()],
            [{"source": a, "target": b} for a, b in pairs])


def _json_graph(path: Path, notes: list[str]) -> tuple[list[Record], list[Record]]:
    found = _records(path)
    for wrapper in ("graph", "elements"):  # of the JSON Graph Format, and of Cytoscape
        if isinstance(found, dict) and isinstance(found.get(wrapper), dict) and not (
                {*NODES} & found.keys()):
            found = found[wrapper]
    keys = found if isinstance(found, dict) else {}
    names = [next((name for name in kinds if name in keys), "") for kinds in (NODES, LINKS)]
    if "" in names:
        message = f"it holds {sorted(keys)[:8] if isinstance(found, dict) else 'a list'}"
        raise InputError.plain(path.name, message, "Give an object with nodes and links, or a "
                               "second file with the links")
    nodes, pairs = found[names[0]], found[names[1]]
    if isinstance(nodes, dict):
        nodes = [{**fields, "id": id} for id, fields in nodes.items()]
    if isinstance(nodes, list) and all(isinstance(node, dict) and "id" not in node
                                       and "key" in node for node in nodes):
        nodes = [{"id": node["key"], **node} for node in nodes]
        nodes = [{name: cell for name, cell in node.items() if name != "key"} for node in nodes]
    return nodes, pairs


def _neo4j(columns: pandas.DataFrame, file: str, notes: list[str]) -> Graph:
    """One table that ``apoc.export.csv`` wrote."""
    if not {"_id", "_start", "_end"} <= {*columns}:
        message = f"it has the columns {', '.join(columns)} and no links"
        hint = ("Give a second file with the links; one file is enough with the columns _id, "
                "_start and _end, or as GraphML, GEXF, GML, Pajek or JSON")
        raise InputError.plain(file, message, hint)
    is_node = columns["_id"] != ""
    nodes = columns[is_node].drop(columns=["_start", "_end", "_type"], errors="ignore")
    pairs = columns[~is_node].drop(columns="_id")
    return Graph(*(part.loc[:, (part != "").any()].reset_index(drop=True)
                   for part in (nodes, pairs)))


def _text(element: ElementTree.Element | None) -> str:
    return "" if element is None else "".join(element.itertext())


@contextlib.contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Tell errors of libraries, each of which has its own, in one line."""
    try:
        yield
    except InputError:
        raise
    except ImportError as error:
        extra = {".xlsx": "excel", ".parquet": "parquet"}.get(path.suffix, "dev")
        hint = (f"Give a .csv or .tsv file, or install it with: pip install "
                f"'graphgym-srnc[{extra}]'")
        message = f"the package that reads {path.suffix} files is not installed"
        raise InputError.plain(path.name, message, hint) from error
    except Exception as error:
        cause = " ".join(str(error).split())[:200] or type(error).__name__
        message = f"it is not a readable {path.suffix} file ({cause})"
        raise InputError.plain(path.name, message) from error


def _records(path: Path) -> Any:
    """What a JSON file holds, numbers as they are written; objects of a ``.jsonl`` as a list."""
    content = read.text(path)
    as_written = {"parse_int": str, "parse_float": str, "parse_constant": str}
    if path.suffix == ".jsonl":
        lines = [line for line in content.splitlines() if line.strip()]
        return [json.loads(line, **as_written) for line in lines]
    found = json.loads(content, **as_written)
    if isinstance(found, dict) and found and all(isinstance(c, list) for c in found.values()) and (
            not {*LINKS} & found.keys()):
        return [dict(zip(found, row)) for row in zip(*found.values())]
    return found


def _of_records(records: Any, path: Path, empty: bool = False) -> pandas.DataFrame:
    """Columns of objects; what an object lacks is an empty cell."""
    rows = records if isinstance(records, list) else []
    if not (rows or empty and records == []) or not all(isinstance(row, dict) for row in rows):
        raise InputError.plain(path.name, f"the nodes or links are a {type(records).__name__}",
                               "Give a list of objects, one for each")
    flat = [dict(_flat(row)) for row in rows]
    names = dict.fromkeys(name for row in flat for name in row)
    limits.check_table(path, len(flat), len(names))
    frame = pandas.DataFrame({name: [_cell(row.get(name)) for row in flat] for name in names},
                             index=range(len(flat)), dtype=object)
    short = {name: name.partition(".")[2] for name in names if name.partition(".")[0] in WRAPPERS}
    return frame.rename(columns={name: inner for name, inner in short.items()
                                 if inner and inner not in names})


def _flat(row: Record, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """The fields of an object; those of an object in it are named ``outer.inner``."""
    for name, value in row.items():
        if isinstance(value, dict) and value:
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def _cell(value: Any) -> str:
    if value is None or value != value:
        return ""
    if isinstance(value, (list, tuple)):
        return ", ".join(map(_cell, value))
    return json.dumps(value) if isinstance(value, (bool, dict)) else str(value).strip()
