"""Names that other plug-ins may have too, such as ``dann`` or ``macro_f1``.

GraphGym refuses a name that is taken, so ours wait until every plug-in is there: until a data set
is loaded, or a config of ours is checked. Whoever has a name by then keeps it.
"""

from __future__ import annotations

from typing import Any

_waiting: list[tuple[dict[str, Any], str, Any]] = []


def later(registry: dict[str, Any], name: str, module: Any) -> None:
    """Have :func:`enter` put a module into one of GraphGym's registries."""
    _waiting.append((registry, name, module))


def enter() -> None:
    """Put what waits into the registries, but for names that are taken."""
    for registry, name, module in _waiting:
        registry.setdefault(name, module)
