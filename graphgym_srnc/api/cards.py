"""Model cards: Markdown descriptions of saved models for the Hugging Face hub."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

from sklearn.base import clone

from graphgym_srnc import __version__
from graphgym_srnc.core.text import escape_markdown, plain
from graphgym_srnc.errors import InputError
from graphgym_srnc.io import atomic, records

if TYPE_CHECKING:
    from graphgym_srnc.api.estimator import Estimator


def check(path: str | os.PathLike, card: str | os.PathLike | None) -> None:
    """Check that the file of a model and its card, if there is one, replace no stored results.

    Raises:
        InputError: names ``path`` or ``card``.
    """
    if not Path(path).name:
        raise InputError.plain("path", f"{str(path)!r} is no file", "Name a file")
    for key, file in {"path": path, "card": card}.items():
        if file is not None and os.path.exists(file) and records.is_part(Path(file).resolve()):
            raise InputError.plain(
                key, f"{file} belongs to results or a graph", "Name another file"
            )
    if card is not None and Path(card).suffix.lower() != ".md":
        raise InputError.plain("card", f"{card} has the wrong file type", "Use the suffix .md")


def write(path: str | os.PathLike, model: Estimator, file: str) -> None:
    """Write the model card of a fitted model, completely or not at all.

    Args:
        path: file to write the card to.
        model: the fitted estimator.
        file: name of the model file, used in the example on the card.

    Raises:
        InputError: the card cannot be written.
    """
    import jinja2

    environment = jinja2.Environment(undefined=jinja2.StrictUndefined, keep_trailing_newline=True)
    environment.filters["text"] = lambda text: escape_markdown(plain(text))
    # The filter of jinja2 would escape letters for HTML.
    environment.filters["tojson"] = json.dumps
    template = Path(__file__).with_name("card.md").read_text(encoding="utf-8")
    sentences = getattr(model, "verdict_", {}).get("sentences", {}).values()
    scores = {part: own for part, own in getattr(model, "scores_", {}).items() if own}
    text = environment.from_string(template).render(
        name=type(model).__name__,
        model=model,
        version=__version__,
        task=model.record_.task if hasattr(model, "record_") else "not known",
        scores=scores,
        names=dict.fromkeys(name for own in scores.values() for name in own),
        warnings=[*getattr(model, "warnings_", ()), *sentences],
        file=repr(file),
        call=clone(model).set_params(callbacks=(), verbose=False),
    )
    try:
        atomic.write_text(Path(path), text.rstrip() + "\n")
    except OSError as error:
        message = f"{path} cannot be written ({error.strerror})"
        raise InputError.plain("card", message) from error
