"""Writes ``graphgym_srnc/__init__.pyi``, which tells editors and type checkers the parameters.

Usage: ``python docs/stubs.py`` after a change of a method's options. A test compares the file.
"""

from __future__ import annotations

import inspect
import subprocess
import sys
import textwrap
from pathlib import Path

import graphgym_srnc
from graphgym_srnc import methods
from graphgym_srnc.api import Estimator, estimator, make, parameters
from graphgym_srnc.core.options import OneOf, options, sections

FILE = Path(graphgym_srnc.__file__).with_suffix(".pyi")

HEAD = '''"""Public names and parameters of estimators, written by ``python docs/stubs.py``."""

from collections.abc import Sequence
from typing import Literal
'''

CLASS = '''

class {name}(Estimator):
    r"""{summary}

{args}    Other estimators have the same further parameters, which ``help({name})`` explains.
    """

    def __init__(
        self,
        *,
{signature}
    ) -> None: ...
'''

TYPES = {
    "open_set": "bool | None",
    "num_threads": 'int | Literal["auto"]',
    "callbacks": "Sequence[Callback]",
}
"""Types of shared parameters that no default or choice gives."""

ALIASES = ("backbone", "activation", "features", "selection", "score", "correction", "cut")
"""Parameters whose choices are a type of their own."""


def stub() -> str:
    """The text of the file."""
    imports = [
        f"from graphgym_srnc.{place} import {name} as {name}"
        for name, place in sorted(graphgym_srnc.PLACES.items(), key=lambda item: item[::-1])
    ]
    known = choices(methods.find("erm"))
    text = "\n".join(
        [
            HEAD,
            *imports,
            "from graphgym_srnc.train.trainer import Callback",
            "",
            "__version__: str",
            "",
            *(f"{key.title()} = {known[key]}" for key in ALIASES),
            *(class_stub(estimator(name), known) for name in sorted(methods.own_names())),
        ]
    )
    command = [sys.executable, "-m", "ruff", "format", "--stdin-filename", FILE.name, "-"]
    return subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout


def class_stub(cls: type[Estimator], known: dict[str, str]) -> str:
    """The class of an estimator, with the options that its method defines in its docstring."""
    method = cls._method
    texts, own = make.arguments(method), choices(method)
    entries = {
        key: texts[key] for key in inspect.signature(method.__init__).parameters if key in texts
    }
    lines = []
    for name, parameter in inspect.signature(cls).parameters.items():
        kind = TYPES.get(name) or own.get(name) or inspect.formatannotation(parameter.annotation)
        if name in ALIASES and own[name] == known[name]:
            kind = name.title()
        lines.append(f"{name}: {kind.removeprefix('collections.abc.')} = {parameter.default!r},")
    return CLASS.format(
        name=cls.__name__,
        summary=sections(method)[""].partition("\n\n")[0],
        args=textwrap.indent(f"Args:\n{make.entries(entries)}\n\n" if entries else "", " " * 4),
        signature=textwrap.indent("\n".join(lines), " " * 8),
    )


def choices(method: type) -> dict[str, str]:
    """The types of all parameters of an estimator that have choices."""
    return {
        option.key: f"Literal[{', '.join(map(repr, option.allowed.values))}]"
        for option in (*options(method), *options(parameters.shared))
        if isinstance(option.allowed, OneOf)
    }


if __name__ == "__main__":
    FILE.write_text(stub(), encoding="utf-8")
