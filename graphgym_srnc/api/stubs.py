"""Generator of the type stubs ``graphgym_srnc/__init__.pyi``.

Estimator classes are created on demand, so editors cannot see their parameters without stubs. Run
``python -m graphgym_srnc.api.stubs`` to update the file. A test fails if the file is out of date.
"""

from __future__ import annotations

import inspect
import textwrap
import typing
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import graphgym_srnc
from graphgym_srnc import api, methods

HEAD = """\
# Made by `python -m graphgym_srnc.api.stubs`.
from typing import Any, Sequence

from graphgym_srnc.api import OnNodes as OnNodes
from graphgym_srnc.api import from_frames as from_frames
from graphgym_srnc.api import from_networkx as from_networkx
from graphgym_srnc.api import load as load
from graphgym_srnc.api.estimator import Estimator
from graphgym_srnc.report.frame import results as results

__version__: str
"""


def text() -> str:
    """Content of the stub file. Methods of other installed packages are not included."""
    own = map(api.estimator, sorted(methods.own_names()))
    return "\n\n".join([HEAD, *map(_stub, own)]) + "\n"


def _stub(cls: type[api.Estimator]) -> str:
    first = " ".join(inspect.getdoc(cls).partition("\n\n")[0].split())
    quotes = 'r"""' if "\\" in first else '"""'
    given = [
        f"{name}: {_type(parameter.annotation)} = {parameter.default!r}"
        for name, parameter in inspect.signature(cls).parameters.items()
    ]
    # A no-break space keeps each parameter on one line.
    words = ", ".join(text.replace(" ", "\xa0") for text in ("*", *given, "end"))
    words = words.replace(", end", ")\xa0->\xa0None:\xa0...")
    lines = textwrap.wrap(
        f"def\xa0__init__(self, {words}", 99, initial_indent=" " * 4, subsequent_indent=" " * 17
    )
    doc = textwrap.fill(
        f'{quotes}{first}"""', 99, initial_indent=" " * 4, subsequent_indent=" " * 4
    )
    return "\n".join([f"class {cls.__name__}(Estimator):", doc, *lines]).replace("\xa0", " ")


def _type(annotation: Any) -> str:
    """Name of a type without its ``Annotated`` metadata."""
    if typing.get_origin(annotation) is typing.Annotated:
        annotation = typing.get_args(annotation)[0]
    if typing.get_origin(annotation) is Sequence:
        item = typing.get_args(annotation)[0]
        return f"Sequence[{item.__name__ if isinstance(item, type) else 'Any'}]"
    return annotation.__name__ if isinstance(annotation, type) else str(annotation)


if __name__ == "__main__":
    place = Path(graphgym_srnc.__file__).with_suffix(".pyi")
    place.write_text(text(), encoding="utf-8")
