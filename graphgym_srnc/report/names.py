"""Printed names of methods and of their backbones, and what to cite for a method."""

from __future__ import annotations

import ast
import functools
import re
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
    source = Path(methods.__file__).with_name(f"{method}.py").read_text(encoding="utf-8")
    for name in re.findall(r"^class (\w+)\(", source, re.MULTILINE):
        if name.lower() == method.replace("_", ""):
            found["title"] = name
    for key, value in re.findall(r"^    (title|with_backbone|cites) = (.+)$", source, re.MULTILINE):
        found[key] = ast.literal_eval(value)
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
