"""Shift-robust node classification on PyTorch Geometric's GraphGym, and as estimators in Python.

>>> from graphgym_srnc import SRNC, shifts
>>> task = shifts.find("synthetic")(num_nodes=200, num_classes=4, num_unseen=1, num_features=40,
...                                 labels_per_class=8, num_val=40)
>>> model = SRNC(num_clusters=8, hidden=16, rounds=1).fit(task)
>>> model.predict(task.target).shape, model.predict_proba(task.target).shape
((200,), (200, 4))
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # for editors and type checkers; at run time see __getattr__
    from graphgym_srnc.api import Estimator
    from graphgym_srnc.api import OnNodes as OnNodes
    from graphgym_srnc.api import from_frames as from_frames
    from graphgym_srnc.api import from_networkx as from_networkx
    from graphgym_srnc.api import load as load
    from graphgym_srnc.report.frame import results as results

    class _Estimator(Estimator):
        def __init__(self, **parameters: Any) -> None: ...

    A2GNN = _Estimator
    ADAlign = _Estimator
    CMD = _Estimator
    CORAL = _Estimator
    DANN = _Estimator
    DOC = _Estimator
    ERM = _Estimator
    G2Pxy = _Estimator
    GRADE = _Estimator
    IID = _Estimator
    MMD = _Estimator
    NODESafe = _Estimator
    OpenWGL = _Estimator
    PGL = _Estimator
    PairAlign = _Estimator
    SRGNN = _Estimator
    SRNC = _Estimator
    SRNCPlus = _Estimator
    StruRW = _Estimator
    UAGA = _Estimator
    UDAGCN = _Estimator

__version__ = "0.1.0"

_FROM_API = ("OnNodes", "from_frames", "from_networkx", "load")


def __getattr__(name: str) -> Any:
    """A function or estimator by its name, imported on demand so that the package is light."""
    import graphgym_srnc.methods as methods

    modules = {module.replace("_", ""): module for module in methods.names()}
    if name == "results":
        from graphgym_srnc.report.frame import results

        return results
    if name in _FROM_API or name.lower() in modules:
        import graphgym_srnc.core.environment as environment

        with environment.uncollected():
            import graphgym_srnc.api as api
        found = getattr(api, name) if name in _FROM_API else api.estimator(modules[name.lower()])
        if found.__name__ == name:
            return found
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    import graphgym_srnc.api as api

    return sorted({*globals(), *api.estimators(), *_FROM_API, "results"})
