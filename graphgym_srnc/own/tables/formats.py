"""Files that other programs write: Parquet, Excel and JSON tables, and whole graphs in one file.

All functions raise :class:`InputError`, which names the file, where it cannot be read or is not
what it should be.
"""
from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Callable, Iterable, Mapping, NamedTuple, Sequence

from graphgym_srnc.atomic import regular
from graphgym_srnc.errors import InputError

Table = dict[str, list[str]]
"""Columns by name, all of one length; an empty cell is an empty text."""

TABLES = (".parquet", ".xlsx", ".json", ".jsonl")
GRAPHS = (".graphml", ".gexf", ".json", ".csv")
"""Kinds of tables here, and of files that hold nodes and links."""

LINKS = ("links", "edges", "relationships")
ENDS = (("source", "target"), ("from", "to"), ("src", "dst"), ("start", "end"), ("_start", "_end"),
        (":start_id", ":end_id"))
"""What JSON calls its links, and names of the two ends of a link, in small letters."""


class Links(NamedTuple):
    """Pairs of ids, and the names of columns that are not read."""

    pairs: Sequence[Sequence[str]]
    unread: Sequence[str] = ()


def table(path: Path) -> Table:
    """The table in a file of one of the kinds ``TABLES``, numbers as they were written."""
    if path.suffix in (".json", ".jsonl"):
        return _of_records(_records(path), path.name)
    import pandas

    def excel(file: Path) -> pandas.DataFrame:
        return pandas.read_excel(file, dtype=str, na_filter=False, engine="openpyxl")

    def parquet(file: Path) -> pandas.DataFrame:
        # Nullable types keep whole numbers whole where some are missing.
        return pandas.read_parquet(file, dtype_backend="numpy_nullable")

    reader, extra = (excel, "excel") if path.suffix == ".xlsx" else (parquet, "parquet")
    frame = _read(path, reader, extra)
    columns = {str(name): [str(cell).strip() for cell in column.astype("string").fillna("")]
               for name, column in frame.items()}
    if not len(frame) or len(columns) < len(frame.columns):
        message = f"it has {len(frame)} rows and the columns {', '.join(columns)}"
        raise InputError.plain(path.name, message,
                               "Give a row for each node, and each column its own name")
    return columns


def graph(path: Path) -> tuple[Table, Links]:
    """The nodes, with a column ``id``, and the links of GraphML, GEXF, node-link JSON or of a CSV
    of Neo4j, which has both.
    """
    if path.suffix == ".json":
        found = _json(path)
        links = next((found[name] for name in LINKS if name in found), None) if isinstance(
            found, dict) else None
        if links is None or "nodes" not in found:
            keys = sorted(found)[:8] if isinstance(found, dict) else "a list"
            raise InputError.plain(path.name, f"it holds {keys}", "Give an object with nodes and "
                                   "links, or a second file with the links")
        return _of_records(found["nodes"], path.name), pairs(_of_records(links, path.name), (),
                                                             path.name)
    import networkx
    reader = networkx.read_gexf if path.suffix == ".gexf" else networkx.read_graphml
    read = _read(path, reader, "networkx")
    nodes: list[dict[str, Any]] = []
    for node, fields in read.nodes(data=True):
        fields = {name: value for name, value in fields.items() if not isinstance(value, dict)}
        if path.suffix == ".gexf" and "label" in fields:
            fields.setdefault("name", fields.pop("label"))  # what GEXF calls a label is a name
        nodes.append({**fields, "id": node})
    unread = {name for *_, fields in read.edges(data=True) for name in fields} - {"id"}
    return (_of_records(nodes, path.name),
            Links([(str(a), str(b)) for a, b in read.edges()], sorted(unread)))


def of_neo4j(columns: Table, file: str) -> tuple[Table, Links]:
    """The nodes and the links of one table that ``apoc.export.csv`` wrote."""
    if not {"_id", "_start", "_end"} <= columns.keys():
        message = f"it has the columns {', '.join(columns)} and no links"
        hint = ("Give a second file with the links; one file is enough with the columns _id, "
                "_start and _end, or as GraphML, GEXF or JSON")
        raise InputError.plain(file, message, hint)
    rows = [row for row, id in enumerate(columns["_id"]) if id]
    nodes = {name: [cells[row] for row in rows] for name, cells in columns.items()
             if name not in ("_start", "_end", "_type")}
    rows = [row for row, id in enumerate(columns["_id"]) if not id]
    links = Links([(columns["_start"][row], columns["_end"][row]) for row in rows], ["_type"])
    return {name: cells for name, cells in nodes.items() if any(cells)}, links


def pairs(columns: Table, ends: Sequence[str], file: str) -> Links:
    """The links of a table: of two named columns, or of a usual pair of names, or the first two."""
    absent = [name for name in ends if name not in columns]
    if absent or len(columns) < 2:
        message = (f"it has no column {', '.join(absent)}" if absent
                   else "it needs two columns of node ids")
        raise InputError.plain(file, message, f"Its columns are {', '.join(columns)}")
    chosen = list(ends) or usual_ends(list(columns)) or list(columns)[:2]
    return Links(list(zip(*(columns[name] for name in chosen))),
                 [name for name in columns if name not in chosen])


def usual_ends(header: Sequence[str]) -> list[str]:
    """The two columns whose names are one of the pairs ``ENDS``; of no such header none."""
    # neo4j-admin puts a group behind, as in :START_ID(Person).
    plain = {name.lower().partition("(")[0]: name for name in header}
    return next(([plain[a], plain[b]] for a, b in ENDS if a in plain and b in plain), [])


def _read(path: Path, reader: Callable[[Path], Any], extra: str) -> Any:
    try:
        return reader(regular(path))
    except ImportError as error:
        hint = (f"Give a .csv or .tsv file, or install it with: pip install "
                f"'graphgym-srnc[{extra}]'")
        message = f"the package that reads {path.suffix} files is not installed"
        raise InputError.plain(path.name, message, hint) from error
    except Exception as error:  # each of these libraries has errors of its own
        cause = " ".join(str(error).split())[:200]
        message = f"it is not a readable {path.suffix} file ({cause})"
        raise InputError.plain(path.name, message) from error


def _records(path: Path) -> Any:
    """The rows of a table in JSON: a list of objects, columns by name, or an object a line."""
    found = _json(path)
    if isinstance(found, dict) and all(isinstance(cells, list) for cells in found.values()):
        return [dict(zip(found, row)) for row in zip(*found.values())]
    return found


def _json(path: Path) -> Any:
    def parsed(file: Path) -> Any:
        text = file.read_text(encoding="utf-8-sig")
        lines = [line for line in text.splitlines() if line.strip()]
        return list(map(json.loads, lines)) if path.suffix == ".jsonl" else json.loads(text)

    return _read(path, parsed, "")


def _of_records(records: Iterable[Mapping[str, Any]], file: str) -> Table:
    """Columns of objects; what an object lacks is an empty cell."""
    rows = list(records) if isinstance(records, list) else []
    if not rows or not all(isinstance(row, dict) for row in rows):
        raise InputError.plain(file, f"the nodes or links are a {type(records).__name__}",
                               "Give a list of objects, one for each")
    names = dict.fromkeys(name for row in rows for name in row)
    return {str(name): [_cell(row.get(name)) for row in rows] for name in names}


def _cell(value: Any) -> str:
    if value is None or value != value:
        return ""
    if isinstance(value, (list, tuple)):
        return ", ".join(map(_cell, value))
    return json.dumps(value) if isinstance(value, (bool, dict)) else str(value).strip()
