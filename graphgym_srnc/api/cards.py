"""Model cards: Markdown descriptions of saved models for the Hugging Face hub."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Mapping

from graphgym_srnc import __version__
from graphgym_srnc.core.errors import InputError
from graphgym_srnc.core.text import escape_markdown, markdown, plain
from graphgym_srnc.io import atomic, store

if TYPE_CHECKING:
    from graphgym_srnc.api.estimator import Estimator

MOST = 12
"""Maximum number of scores on a card."""


def write(path: str | os.PathLike, model: Estimator, file: str) -> None:
    """Write the model card of a fitted model.

    The file is written completely or not at all.

    Args:
        path: file to write the card to.
        model: the fitted estimator.
        file: name of the model file, used in the example on the card.

    Raises:
        InputError: the card cannot be written.
    """
    try:
        atomic.write_text(Path(path), card(model, file))
    except OSError as error:
        message = f"{path} cannot be written ({error.strerror})"
        raise InputError.plain("card", message) from error


def check(path: str | os.PathLike, card: str | os.PathLike | None) -> None:
    """Check that the file of a model and its card, if there is one, replace no stored results.

    Raises:
        InputError: names ``path`` or ``card``.
    """
    if not Path(path).name:
        raise InputError.plain("path", f"{str(path)!r} is no file", "Name a file")
    for key, file in {"path": path, "card": card}.items():
        if file is not None and os.path.exists(file) and store.is_part(Path(file).resolve()):
            raise InputError.plain(
                key, f"{file} belongs to results or a graph", "Name another file"
            )
    if card is not None and Path(card).suffix.lower() != ".md":
        raise InputError.plain("card", f"{card} has the wrong file type", "Use the suffix .md")


def card(model: Estimator, file: str) -> str:
    """Text of the model card: training data, scores, diagnostics, usage and parameters."""
    name, record = type(model).__name__, getattr(model, "record_", None)
    scores = {part: own for part, own in (getattr(model, "scores_", None) or {}).items() if own}
    task = record.task if record is not None else "not known"
    classes = ", ".join(escape_markdown(plain(label)) for label in model.classes_)
    open_set = model.method_.task.open_set
    doubts = [
        *getattr(model, "warnings_", ()),
        *getattr(model, "verdict_", {}).get("sentences", {}).values(),
    ]
    changed = {
        key: value
        for key, value in model.get_params().items()
        if key not in ("callbacks", "verbose") and value != getattr(type(model)(), key)
    }
    return "\n".join(
        [
            _front_matter(name, task, scores),
            f"# {name}",
            "",
            f"A node classifier of graphgym-srnc {__version__}.",
            "",
            f"- trained on: {escape_markdown(plain(task))}",
            f"- features of a node: {model.n_features_in_}",
            f"- classes: {classes}"
            + "; the last one means that a node belongs to no known class" * open_set,
            "",
            "## Scores",
            "",
            *_table(scores),
            "## Warnings",
            "",
            *([f"- {escape_markdown(plain(text))}" for text in doubts] or ["No warnings."]),
            "",
            "## How to use it",
            "",
            "```python",
            "from graphgym_srnc import load",
            "",
            f"model = load({file!r})",
            "model.predict(graph)  # a PyG Data with x [V, "
            f"{model.n_features_in_}] and edge_index [2, E]",
            "```",
            "",
            "## Parameters",
            "",
            f"`{model!r}`"
            if not changed
            else markdown(
                [
                    ("parameter", "value"),
                    *((key, escape_markdown(str(value))) for key, value in changed.items()),
                ]
            ),
            "",
        ]
    )


def _front_matter(name: str, task: str, scores: Mapping[str, Mapping[str, float]]) -> str:
    # YAML is a superset of JSON.
    facts: dict[str, Any] = {
        "library_name": "graphgym-srnc",
        "pipeline_tag": "graph-ml",
        "tags": ["node-classification", "graph-neural-networks", "distribution-shift"],
    }
    metrics = [
        {"type": metric, "name": f"{metric} on {part} nodes", "value": round(value, 4)}
        for part, own in scores.items()
        for metric, value in list(own.items())[:MOST]
    ]
    if metrics:
        kind = {"type": "graph-ml", "name": "Node classification"}
        result = {"task": kind, "dataset": {"name": task, "type": "graph"}, "metrics": metrics}
        facts["model-index"] = [{"name": name, "results": [result]}]
    lines = (f"{key}: {json.dumps(value)}" for key, value in facts.items())
    return "\n".join(["---", *lines, "---", ""])


def _table(scores: Mapping[str, Mapping[str, float]]) -> list[str]:
    if not scores:
        return ["None are stored with this model.", ""]
    names = dict.fromkeys(metric for own in scores.values() for metric in list(own)[:MOST])
    cells = [("score", *scores)]
    cells += [
        (metric, *(f"{own[metric]:.3f}" if metric in own else "-" for own in scores.values()))
        for metric in names
    ]
    return [markdown(cells)]
