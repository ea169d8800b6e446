"""What nodes and feature columns are called, by the folder of a graph or by files of the user."""

from __future__ import annotations

from pathlib import Path

from torch_geometric.data import Data

from graphgym_srnc.core.text import plain, short
from graphgym_srnc.data.names import Names, of_folder
from graphgym_srnc.data.read import table, text
from graphgym_srnc.errors import InputError

NAMELESS = Names(None, None, None)
LONGEST = 160
"""Letters of a node's line."""


def read_names(texts: str | None, words: str | None, folder: Path | None, graph: Data) -> Names:
    """Names of the nodes and feature columns of a graph.

    Args:
        texts: a file with the text of a node on each line, or a ``.csv`` with a column ``text`` and
            perhaps ``id``.
        words: a file with the name of a feature column on each line.
        folder: where the graph lies, for names that no file has; None = there are no more.
        graph: with ``x`` ``[V, F]``.

    Raises:
        InputError: a file cannot be read, or has another number of lines than the graph has nodes
            or features.
    """
    names = of_folder(folder, graph.num_nodes, graph.num_features) if folder else NAMELESS
    if texts:
        columns = (
            table(Path(texts)).to_dict("list")
            if texts.endswith(".csv")
            else {"text": _lines(texts)}
        )
        if "text" not in columns:
            raise InputError.plain(
                "--texts", f"{texts} has the columns {', '.join(columns)}", "Add a column text"
            )
        _check("--texts", texts, columns["text"], graph.num_nodes, "nodes")
        names = names._replace(ids=columns.get("id"), texts=columns["text"])
    if words:
        lines = _lines(words)
        _check("--words", words, lines, graph.num_features, "features")
        names = names._replace(words=lines)
    return names


def node_name(names: Names, node: int) -> str:
    """The id and the text of a node on one line."""
    id = names.ids[node] if names.ids is not None else f"node {node}"
    text = plain(names.texts[node]) if names.texts is not None else ""
    return short(f"{id}: {text}" if text else id, LONGEST)


def column_name(names: Names, column: int) -> str:
    """The word that a feature column stands for."""
    return plain(names.words[column])[:40] if names.words is not None else f"feature {column}"


def _lines(file: str) -> list[str]:
    return text(Path(file)).removesuffix("\n").split("\n")


def _check(option: str, file: str, lines: list[str], count: int, what: str) -> None:
    if len(lines) != count:
        raise InputError.plain(
            option, f"{file} has {len(lines)} lines for {count} {what}", "Write one line for each"
        )
