"""Tables and graphs in files as frames of text, so that an id such as 007 stays as it is written.

``notes`` are told what is not read.
"""

from __future__ import annotations

import csv
import io
import itertools
import json
import re
import zipfile
from array import array
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pandas

from graphgym_srnc.core.text import counted, listed
from graphgym_srnc.data import limits
from graphgym_srnc.errors import InputError, reading
from graphgym_srnc.io import atomic
from graphgym_srnc.io.atomic import regular

csv.field_size_limit(2**31 - 1)  # a text may be long
SEPARATORS = ("\t", ";", "|", ",")
NAMELESS = re.compile(r"(Unnamed: \d+)?")  # names that pandas gives to its index
# Files that are no tables. Others, such as .dat and .edges, are read as text.
OTHERS = {".json", ".jsonl", ".graphml", ".gexf", ".gml", ".xls", ".ods", ".feather", ".h5", ".mat"}
OTHERS |= {".pkl", ".pickle", ".pt", ".pth", ".npy", ".npz", ".zip", ".gz"}
EXTRAS = {".parquet": "parquet", ".xlsx": "excel"}  # what installs their readers
# What JSON calls nodes and links, and objects in them that hold their fields.
NODES, LINKS = ("nodes", "vertices"), ("links", "edges", "relationships")
WRAPPERS = ("attributes", "data", "properties", "metadata")
Record = dict[str, Any]
Records = tuple[list[Record], list[Record]]  # of nodes and of links


def kind(path: Path) -> str:
    """The suffix of a file in lower case."""
    return path.suffix.lower()


def table(
    path: Path, notes: list[str] | None = None, ids: pandas.DataFrame | None = None
) -> pandas.DataFrame:
    """Read a table; with columns of ``ids``, a list of links, which may be without a header.

    The columns of a list without a header are 1, 2, ...
    """
    notes, suffix = [] if notes is None else notes, kind(path)
    if suffix in OTHERS:
        hint = "Save the table as .csv, .tsv, .txt, .xlsx or .parquet"
        if suffix in GRAPHS:
            hint += ". Give a file that holds both nodes and links without a second file"
        raise InputError.plain(path.name, f"a {suffix} file is not a table", hint)
    hint = f"pip install 'graphgym-srnc[{EXTRAS.get(suffix)}]' installs what reads such files"
    with reading(path, f"a readable {suffix} file", path.name, hint * (suffix in EXTRAS)):
        if suffix == ".parquet":
            return _parquet(path)
        if suffix == ".xlsx":
            return headed(_excel(path, notes), path.name)
    rows = cells(path, ragged=ids is not None)
    if ids is None:
        return headed(rows, path.name)
    short = rows[(rows != "").sum(axis=1) < 2]
    if len(short):
        cell = ",".join(filter(None, short.iloc[0]))[:80]
        message = f"line {short.index[0]:,} is {cell!r}"
        raise InputError.plain(path.name, message, "Write the ids of two nodes on each line")
    first = rows.iloc[0]
    numbers = pandas.to_numeric(first[:2], errors="coerce").notna().all()
    if not numbers and not ids.isin([*first]).any(axis=None):
        return headed(rows, path.name)
    notes.append(f"{path.name}: the first line, {','.join(first)[:40]}, is read as a link")
    return rows.set_axis([str(place + 1) for place in rows], axis=1).reset_index(drop=True)


def headed(rows: pandas.DataFrame, file: str) -> pandas.DataFrame:
    """The rows below the first one, whose cells become the names of the columns.

    The index, called line or row, says where a row is in the file.
    """
    if len(rows) < 2:
        raise InputError.plain(file, "it has a header and no rows", "Add rows below the header")
    names = [name or f"column {place + 1}" * (place > 0) for place, name in enumerate(rows.iloc[0])]
    if len(set(names)) < len(names):
        message = f"two columns have the same name: {', '.join(names)}"
        raise InputError.plain(file, message, "Give each column its own name")
    return rows.iloc[1:].set_axis(names, axis=1)


def cells(path: Path, ragged: bool = False) -> pandas.DataFrame:
    """The stripped cells of each line, without a header, in columns 0, 1, ...

    The separator is the mark that splits the first lines into equally many cells, and the most.
    Files other than ``.csv`` and ``.tsv`` may have comments, lines that begin with # or % and a
    space, and may be separated by spaces. So may a list of links, whose lines may differ in length.
    """
    content, is_csv = text(path), kind(path) in (".csv", ".tsv")
    content = re.sub(r"(?m)^ +$" + r"|^[#%]+([ \t].*)?$" * (not is_csv), "", content)
    top, lines = content.lstrip("\n"), io.StringIO(content)
    mark = "\t" if kind(path) == ".tsv" else max(SEPARATORS, key=lambda each: _fit(top, each))
    first = top.partition("\n")[0]
    is_spaced = (ragged or not is_csv) and not any(each in first for each in SEPARATORS)
    # pandas' fast reader does not distinguish a short line from one with empty cells.
    quotes = "Put cells with separators or line breaks in quotes, and close each quote"
    with reading(path, "a table", path.name, quotes):
        split = csv.reader(lines, delimiter=mark, strict=True)
        numbers, rows = array("q"), []
        for at, row in enumerate(map(str.split, lines) if is_spaced else split, 1):
            if any(own := [*map(str.strip, row)]):
                rows.append(own)
                numbers.append(split.line_num or at)  # of the line in the file
    if not rows:
        raise InputError.plain(path.name, "the file is empty", "Write a line for each row")
    wrong = [place for place, row in enumerate(rows) if len(row) != len(rows[0])]
    if wrong and not ragged:
        cells = counted(len(rows[wrong[0]]), "cell")
        message = f"line {numbers[wrong[0]]:,} has {cells}, and the first line has {len(rows[0])}"
        message += f"; {len(wrong):,} lines differ" * (len(wrong) > 1)
        raise InputError.plain(path.name, message, quotes)
    index = pandas.Index(numbers, name="line")
    return pandas.DataFrame(rows, index=index, dtype=object).fillna("")


def _fit(content: str, separator: str) -> tuple[int, int]:
    """Into how many cells a mark splits each of the first lines (0 = they differ) and the first."""
    lines = csv.reader(io.StringIO(content), delimiter=separator, strict=True)
    try:
        counts = [len(row) for row in itertools.islice(lines, 20) if row]
    except csv.Error:
        counts = []
    is_regular = len(set(counts)) == 1 and counts[0] > 1
    return counts[0] if is_regular else 0, content.partition("\n")[0].count(separator)


def text(path: Path) -> str:
    """The content of a UTF-8 file, with line feeds at the end of its lines."""
    content = binary(path)
    encoding = "utf-16" if content[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
    with reading(path, "text in UTF-8", path.name, "Save it as UTF-8; in Excel, as CSV UTF-8"):
        decoded = io.StringIO(content.decode(encoding), newline=None).read()
        if "\0" in decoded:
            raise ValueError("it contains zero bytes")
    return decoded


def binary(path: Path) -> bytes:
    """The bytes of a file."""
    try:
        return atomic.content(path)
    except OSError as error:
        raise InputError.plain(str(path), f"the file cannot be read ({error.strerror})") from error


def is_counter(cells: pandas.Series) -> bool:
    """Whether cells count the rows: 0, 1, 2, ... or 1, 2, 3, ..."""
    written, size = [*map(str, cells)], len(cells)
    return written in ([*map(str, range(size))], [*map(str, range(1, size + 1))]) and size > 0


def _excel(path: Path, notes: list[str]) -> pandas.DataFrame:
    with zipfile.ZipFile(regular(path)) as archive:
        limits.check(path, sum(member.file_size for member in archive.infolist()))
    with pandas.ExcelFile(path, engine="openpyxl") as book:
        if others := book.sheet_names[1:]:
            notes.append(f"{path.name}: not read: the sheets {listed(others)}")
        rows = book.parse(header=None, dtype=object, na_filter=False).map(_cell)
    rows.index = pandas.RangeIndex(1, len(rows) + 1, name="row")
    rows = rows.loc[(rows != "").any(axis=1), (rows != "").any()]
    if rows.empty:
        hint = "Only the first sheet is read; move your table there"
        raise InputError.plain(path.name, f"its sheet {book.sheet_names[0]!r} is empty", hint)
    return rows


def _parquet(path: Path) -> pandas.DataFrame:
    # Nullable types keep whole numbers whole where some are missing.
    frame = pandas.read_parquet(regular(path), dtype_backend="numpy_nullable")
    if frame.index.name is not None or not frame.index.equals(pandas.RangeIndex(len(frame))):
        frame = frame.reset_index(names=[name or "" for name in frame.index.names])
    return frame.rename(columns=str).astype("string").fillna("").astype(object).map(str.strip)


def graph(path: Path, notes: list[str]) -> list[pandas.DataFrame]:
    """Read one file of nodes and links: a frame of each."""
    if kind(path) not in GRAPHS:
        hint = f"Give a second file with the links, or one file of type {', '.join(GRAPHS)}"
        raise InputError.plain(path.name, "the file holds no links", hint)
    with reading(path, f"a readable {kind(path)} file", path.name):
        both = zip(GRAPHS[kind(path)](path, notes), ("nodes", "links"))
        return [_of_records(records, path, what) for records, what in both]


def _xml(path: Path, notes: list[str]) -> Records:
    # networkx reads no defaults, and refuses mixed directions and some namespaces and types.
    root = ElementTree.fromstring(binary(path))
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
    content = re.sub(r"(?m)^\s*graph\s*\[", "graph [\nmultigraph 1\n", text(path), count=1)
    found = networkx.parse_gml(content.encode("ascii", "xmlcharrefreplace").decode(), label=None)
    return (
        [{**fields, "id": node} for node, fields in found.nodes(data=True)],
        [{**fields, "source": a, "target": b} for a, b, fields in found.edges(data=True)],
    )


def _json(path: Path, notes: list[str]) -> Records:
    # Numbers stay as they are written.
    document = json.loads(text(path), parse_int=str, parse_float=str, parse_constant=str)
    outer = document if isinstance(document, dict) else {}
    for found in (outer, outer.get("elements")):  # the latter is of Cytoscape
        fields = found if isinstance(found, dict) else {}
        both = [[fields[name] for name in names if name in fields] for names in (NODES, LINKS)]
        if all(both):
            return both[0][0], both[1][0]
    hint = "Give an object with nodes and links, or a node table and a list of links"
    raise InputError.plain(path.name, f"it holds {sorted(outer)[:8] or 'a list'}", hint)


GRAPHS = {".graphml": _xml, ".gexf": _xml, ".gml": _gml, ".json": _json}  # readers of one file


def _of_records(records: Any, path: Path, what: str) -> pandas.DataFrame:
    """A frame of a list of objects; what is absent is an empty cell."""
    is_list = isinstance(records, list) and all(isinstance(row, dict) for row in records)
    flat = [_flat(row) for row in records] if is_list else []
    if not any(flat):
        hint = "Give at least one; JSON must have them in a list of objects"
        raise InputError.plain(path.name, f"it contains no {what}", hint)
    names = dict.fromkeys(name for row in flat for name in row)
    cells = {name: [_cell(row.get(name)) for row in flat] for name in names}
    return pandas.DataFrame(cells, index=range(len(flat)), dtype=object)


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
