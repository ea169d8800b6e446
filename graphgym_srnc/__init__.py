"""Shift-robust node classification on PyTorch Geometric's GraphGym, and as estimators in Python.

>>> from graphgym_srnc import SRNC, shifts
>>> task = shifts.find("synthetic")(num_nodes=200, num_classes=4, num_unseen=1, num_features=40,
...                                 labels_per_class=8, num_val=40)
>>> model = SRNC(num_clusters=8, hidden=16, rounds=1).fit(task)
>>> model.predict(task.target).shape, model.predict_proba(task.target).shape
((200,), (200, 4))
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

PLACES = {
    "Estimator": "api",
    "InputError": "errors",
    "OnNodes": "api",
    "ShiftTask": "core.task",
    "ShiftWarning": "errors",
    "discover": "own.discover.found",
    "from_frames": "api",
    "from_networkx": "api",
    "load": "api",
    "results": "report.frame",
}
"""Modules of the public names that are no estimators. ``__init__.pyi`` lists them for editors."""

MODULES = ("plot", "shifts")


def __getattr__(name: str) -> Any:
    """A public name, imported on demand so that the package is light."""
    if name == "__all__":
        return __dir__()
    import graphgym_srnc.core.environment as environment
    import graphgym_srnc.methods as methods

    hint = ""
    with environment.uncollected():
        if name in MODULES:
            return import_module(f"{__name__}.{name}")
        if name in PLACES:
            return getattr(import_module(f"{__name__}.{PLACES[name]}"), name)
        modules = {module.replace("_", ""): module for module in methods.names()}
        if name.lower() in modules:
            from graphgym_srnc.api import estimator
            from graphgym_srnc.errors import did_you_mean

            found = estimator(modules[name.lower()])
            if found.__name__ == name:
                return found
            hint = f". {did_you_mean(name, [found.__name__])}"
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}{hint}")


def __dir__() -> list[str]:
    from graphgym_srnc.api import estimators

    return sorted([*PLACES, *estimators(), *MODULES])
