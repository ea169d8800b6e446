"""Embeddings for TensorBoard's projector: vectors, a table of their nodes, and an index."""
from __future__ import annotations

from pathlib import Path
from typing import Any, Mapping, Sequence

import numpy as np

from graphgym_srnc.atomic import write_text
from graphgym_srnc.text import plain

MAX_AXES = 32


def write_projector(directory: Path, embeddings: Mapping[str, np.ndarray],
                    columns: Mapping[str, Sequence[Any]]) -> None:
    """Write embeddings of the same nodes where the projector looks for them.

    Args:
        directory: of a run that has events; files go to ``projector/`` in it, and
            ``projector_config.pbtxt`` beside it.
        embeddings: vectors ``[n, H]`` by name, a name without slashes or quotes.
        columns: what is known of each node, ``[n]`` by name; at least two, since the projector
            takes a single one for a list of labels.
    """
    rows = ["\t".join(plain(value) or "-" for value in row)
            for row in (columns, *zip(*columns.values()))]
    write_text(directory / "projector" / "nodes.tsv", "\n".join(rows) + "\n")
    config = ""
    for name, vectors in embeddings.items():
        line = "\t".join(["%.4g"] * vectors.shape[1]) + "\n"
        lines = "".join(line % tuple(row) for row in vectors.tolist())
        write_text(directory / "projector" / f"{name}.tsv", lines)
        config += (f'embeddings {{\n  tensor_name: "{name}"\n  tensor_shape: {vectors.shape[0]}\n'
                   f'  tensor_shape: {vectors.shape[1]}\n  tensor_path: "projector/{name}.tsv"\n'
                   '  metadata_path: "projector/nodes.tsv"\n}\n')
    # Last, since it makes the others count.
    write_text(directory / "projector_config.pbtxt", config)
