"""GraphGym's package, less what only its own training needs: Lightning, which takes seconds.

The package's ``__init__`` imports all of GraphGym. Here it runs when a name is asked for that is no
module imported before, so that whoever uses GraphGym finds it whole.
"""
from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import find_spec, module_from_spec
from types import ModuleType
from typing import Any

import torch_geometric

NAME = "torch_geometric.graphgym"


class _Package(ModuleType):
    """A package whose ``__init__`` has yet to run."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name != "__all__":
            raise AttributeError(f"module {NAME!r} has no attribute {name!r}")
        load()
        return getattr(self, name)


def load() -> None:
    """Run the ``__init__`` of GraphGym's package, unless it has run."""
    package = import_module(NAME)
    if isinstance(package, _Package):
        package.__class__ = ModuleType
        try:
            package.__spec__.loader.exec_module(package)
        except BaseException:
            package.__class__ = _Package
            raise


def _postpone() -> None:
    package = module_from_spec(find_spec(NAME))
    package.__class__ = _Package
    sys.modules[NAME] = torch_geometric.graphgym = package


if NAME not in sys.modules:
    _postpone()
    # What these register is known without the rest: layers, activations, a user's own modules.
    for part in ("register", "config", "contrib", "models", "optim"):
        import_module(f"{NAME}.{part}")
