"""Printed names of methods and of their backbones, and what to cite for a method."""

from __future__ import annotations

import ast
import functools
from pathlib import Path
from typing import Any

from graphgym_srnc import methods
from graphgym_srnc.core.text import clean

LAYERS = {
    "gcnconv": "GCN",
    "sageconv": "SAGE",
    "gatconv": "GAT",
    "gatdrop": "GAT-drop",
    "sgconv": "SGC",
    "mlp": "MLP",
    "dgi": "DGI",
    "sign": "SIGN",
}
STANDARD = {"title": "GraphGym's own", "with_backbone": "{} (GraphGym)", "cites": ()}


@functools.cache
def _named(method: str) -> dict[str, Any]:
    """The attributes ``title``, ``with_backbone`` and ``cites`` of a method's class.

    They are read from its file: its import needs torch, which takes seconds. A method of another
    package has the name that it has in configs.
    """
    if method == "standard":
        return STANDARD
    if method not in methods.own_names():
        return {"title": method, "cites": ()}
    found: dict[str, Any] = {"title": method, "cites": ()}
    file = Path(methods.__file__).with_name(f"{method}.py")
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ClassDef) and node.name.lower() == method.replace("_", ""):
            found["title"] = node.name
            for line in node.body:
                if isinstance(line, ast.Assign) and ast.unparse(line.targets[0]) in STANDARD:
                    found[ast.unparse(line.targets[0])] = ast.literal_eval(line.value)
    return found


def title(method: str) -> str:
    """A method without its backbone: ``SRNC+``, ``DANN``."""
    return _named(method)["title"]


def cites(method: str) -> tuple[str, ...]:
    """Keys of the BibTeX entries of a method."""
    return _named(method)["cites"]


def method_name(method: str, layer: str) -> str:
    """A method with its backbone: ``SRNC+``, ``SRNC+ with SAGE``, ``PGL+GCN``, ``GCN-DANN``."""
    backbone = LAYERS.get(layer, layer)
    named = _named(method)
    if "with_backbone" in named:
        return clean(named["with_backbone"].format(backbone))
    if layer == "gcnconv":
        return clean(named["title"])
    return clean(f"{named['title']} with {backbone}")
