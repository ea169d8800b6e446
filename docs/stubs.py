"""Writes ``graphgym_srnc/__init__.pyi``, which tells editors and type checkers the public names,
and the page of GraphGym's keys.

Usage: ``python docs/stubs.py`` after a change of options or keys. Tests compare the files.
"""

from __future__ import annotations

import inspect
import subprocess
import sys
import textwrap
from collections import Counter
from pathlib import Path

import graphgym_srnc
from graphgym_srnc import methods
from graphgym_srnc.api import Estimator, estimator, factory, parameters
from graphgym_srnc.backbones import BACKBONES
from graphgym_srnc.core.options import OneOf, options, sections

FILE = Path(graphgym_srnc.__file__).with_suffix(".pyi")
KEYS_FILE = Path(__file__).parent / "reference" / "graphgym-keys.md"
KEYS_HEAD = """# GraphGym's keys

What a method of this package does with each key of GraphGym.
"Works" means that a run reads it.
"Refused" means that a value other than the default is an error, which names what to use instead.
A grid tells each refused key once.
"Unused" means that the value has no effect.
`<method>` and `<shift>` are the values of `train.mode` and `dataset.format`.
With `train.mode: standard` in your own `main.py`, all of them keep GraphGym's meaning.

| key | treatment | what to use or to know |
|---|---|---|
"""

HEAD = '''"""Public names and parameters of estimators, written by ``python docs/stubs.py``."""

from collections.abc import Sequence
from typing import Any, Literal

from typing_extensions import dataclass_transform
'''

SHARED = '''
# Type checkers make the signature of each class below of its fields.
@dataclass_transform(kw_only_default=True, eq_default=False)
class _Fields(Estimator): ...

class _Parameters(_Fields):
    """Parameters of every estimator, with their usual defaults."""

{fields}
'''

CLASS = '''

class {name}(_Parameters):
    r"""{summary}

{args}    Other estimators have the same further parameters, which ``help({name})`` explains.
    """

{fields}
'''

TYPES = {
    "open_set": "bool | None",
    "class_weight": "dict[Any, float] | str | None",
    "num_threads": 'int | Literal["auto"]',
    "callbacks": "Sequence[_Callback]",
}
"""Types of shared parameters that no default or choice gives."""

ALIASES = ("backbone", "activation", "features", "selection", "confidence", "correction", "cut")
"""Parameters whose choices are a type of their own."""


def stub() -> str:
    """The text of the file."""
    imported = [(place, name, name) for name, place in graphgym_srnc.PLACES.items()]
    imported.append(("api.parameters", "Callback", "_Callback"))
    imports = [
        f"from graphgym_srnc.{place} import {name} as {known}"
        for place, name, known in sorted(imported)
    ]
    known = choices(methods.find("erm"))
    classes = [estimator(name) for name in sorted(methods.own_names())]
    names = [*graphgym_srnc.MODULES, *graphgym_srnc.PLACES, *(cls.__name__ for cls in classes)]
    own = [fields(cls, known) for cls in classes]
    shared = {}
    for name in own[0]:
        found = Counter(texts.get(name, "") for texts in own)
        if len({text.partition(" = ")[0] for text in found}) == 1:
            shared[name] = found.most_common(1)[0][0]
    text = "\n".join(
        [
            HEAD,
            *(f"from graphgym_srnc import {name} as {name}" for name in graphgym_srnc.MODULES),
            *imports,
            "",
            f"__all__ = {sorted(names)}",
            "__version__: str",
            "",
            *(f"_{key.title()} = {known[key]}" for key in ALIASES),
            SHARED.format(fields=lines(shared)),
            *(class_stub(cls, found, shared) for cls, found in zip(classes, own)),
        ]
    )
    command = [sys.executable, "-m", "ruff", "format", "--stdin-filename", FILE.name, "-"]
    return subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout


def class_stub(cls: type[Estimator], own: dict[str, str], shared: dict[str, str]) -> str:
    """The class of an estimator, with the options that its method defines in its docstring."""
    texts = factory.arguments(cls._method)
    entries = {
        key: texts[key]
        for key in inspect.signature(cls._method.__init__).parameters
        if key in texts
    }
    return CLASS.format(
        name=cls.__name__,
        summary=sections(cls._method)[""].partition("\n\n")[0],
        args=textwrap.indent(f"Args:\n{factory.entries(entries)}\n\n" if entries else "", " " * 4),
        fields=lines({name: text for name, text in own.items() if shared.get(name) != text}),
    )


def fields(cls: type[Estimator], known: dict[str, str]) -> dict[str, str]:
    """The type and default of each parameter; choices that are ``known`` have a name."""
    own = choices(cls._method)
    found = {}
    for name, parameter in inspect.signature(cls).parameters.items():
        kind = TYPES.get(name) or own.get(name) or inspect.formatannotation(parameter.annotation)
        if name in ALIASES and own[name] == known[name]:
            kind = f"_{name.title()}"
        found[name] = f"{kind.removeprefix('collections.abc.')} = {parameter.default!r}"
    return found


def lines(found: dict[str, str]) -> str:
    """The fields of a class."""
    return "".join(f"    {name}: {text}\n" for name, text in found.items())


def choices(method: type) -> dict[str, str]:
    """The types of all parameters of an estimator that have choices."""
    # Backbones of installed plug-ins are not part of this package.
    others = {name for name, kind in parameters.KINDS.items() if kind not in BACKBONES.own_names()}
    found = {}
    for option in (*options(method), *options(parameters.shared)):
        if isinstance(option.allowed, OneOf):
            values = [repr(value) for value in option.allowed.values if value not in others]
            found[option.key] = f"Literal[{', '.join(values)}]"
    return found


def treatment(key: str) -> tuple[str, str]:
    """``works``, ``refused`` or ``unused`` for a key of GraphGym, and what to know about it."""
    from graphgym_srnc.gym import keys

    if key in keys.WRITTEN:
        return "unused", "GraphGym writes it"
    if key in keys.SHOWN:
        return "unused", "a note says so"
    if key == "optim.scheduler":
        return "refused", f"unless `none`. {keys.instead(key)}"
    if key in keys.LAYERS_READ or key == "optim.momentum":
        return "works", f"{'with sgd' if 'optim' in key else keys.instead(key)}, else refused"
    if key in keys.READ:
        return "works", {"accelerator": "auto is the CPU", "device": "as accelerator"}.get(key, "")
    return "refused", keys.instead(key)


def keys_page() -> str:
    """The page of GraphGym's keys, with what becomes of each of them."""
    from graphgym_srnc.gym import keys

    rows = []
    for key in sorted(keys.stock_keys()):
        kind, text = treatment(key)
        text = text.format(mode="<method>", shift="<shift>").replace("|", "\\|")
        rows.append(f"| `{key}` | {kind} | {text} |")
    return KEYS_HEAD + "\n".join(rows) + "\n"


if __name__ == "__main__":
    FILE.write_text(stub(), encoding="utf-8")
    KEYS_FILE.write_text(keys_page(), encoding="utf-8")
