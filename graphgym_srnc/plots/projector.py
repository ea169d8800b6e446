"""Files for TensorBoard's embedding projector: vectors, node table and index."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Mapping, Sequence

import numpy as np

from graphgym_srnc.core.text import plain
from graphgym_srnc.io.atomic import write_text

MAX_AXES = 32


def write_projector(
    directory: Path, embeddings: Mapping[str, np.ndarray], columns: Mapping[str, Sequence[Any]]
) -> None:
    """Write embeddings of the same nodes to the files that the projector reads.

    Args:
        directory: directory of a run that has events. Files are written to its subdirectory
            ``projector/``, and the index to ``projector_config.pbtxt``.
        embeddings: vectors ``[n, H]`` by name; names have no slashes or quotes.
        columns: properties ``[n]`` of the nodes by name. At least two are required, because the
            projector reads a single column as a list of labels.
    """
    rows = [
        "\t".join(plain(value) or "-" for value in row)
        for row in (columns, *zip(*columns.values()))
    ]
    write_text(directory / "projector" / "nodes.tsv", "\n".join(rows) + "\n")
    config = ""
    for name, vectors in embeddings.items():
        line = "\t".join(["%.4g"] * vectors.shape[1]) + "\n"
        lines = "".join(line % tuple(row) for row in vectors.tolist())
        write_text(directory / "projector" / f"{name}.tsv", lines)
        config += (
            f'embeddings {{\n  tensor_name: "{name}"\n  tensor_shape: {vectors.shape[0]}\n'
            f'  tensor_shape: {vectors.shape[1]}\n  tensor_path: "projector/{name}.tsv"\n'
            '  metadata_path: "projector/nodes.tsv"\n}\n'
        )
    # The index is written last, so that it never refers to missing files.
    write_text(directory / "projector_config.pbtxt", config)
