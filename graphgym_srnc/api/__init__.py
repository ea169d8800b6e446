"""Scikit-learn style estimators for every method, without GraphGym or global state."""

from __future__ import annotations

from graphgym_srnc.api.estimator import Estimator
from graphgym_srnc.api.factory import estimator, estimators, load
from graphgym_srnc.api.graphs import from_frames, from_networkx
from graphgym_srnc.api.nodes import OnNodes

__all__ = [
    "Estimator",
    "OnNodes",
    "estimator",
    "estimators",
    "from_frames",
    "from_networkx",
    "load",
]
