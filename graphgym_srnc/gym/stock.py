"""GraphGym's package; in our own commands less what only its own training needs: Lightning.

The package's ``__init__`` imports all of GraphGym, and Lightning takes more than a second. A
command and its workers import ``PARTS`` alone, and run ``__init__`` before GraphGym's own training,
or when a name is asked for that is none of them. Any other program finds GraphGym as it always is.
"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import find_spec, module_from_spec
from types import ModuleType
from typing import Any

import torch_geometric

from graphgym_srnc.core import environment

NAME = "torch_geometric.graphgym"

PARTS = ("register", "config", "contrib", "models", "optim")
"""What registers layers, activations, heads, optimisers and a user's own modules."""


class _Package(ModuleType):
    """The package as long as its ``__init__`` has yet to run."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name != "__all__":
            raise AttributeError(f"module {NAME!r} has no attribute {name!r}")
        load()
        return getattr(self, name)


def load() -> None:
    """Import all of GraphGym; to be called before a module of it that is not in ``PARTS``."""
    package = import_module(NAME)
    if isinstance(package, _Package):
        package.__class__ = ModuleType
        package.__spec__.loader.exec_module(package)


if environment.is_command and NAME not in sys.modules:
    made = module_from_spec(find_spec(NAME))
    made.__class__ = _Package
    sys.modules[NAME] = torch_geometric.graphgym = made
    for part in PARTS:
        import_module(f"{NAME}.{part}")
