"""Every method as an estimator in scikit-learn's manner, without GraphGym or global state."""
from __future__ import annotations

from graphgym_srnc.api.estimator import Estimator
from graphgym_srnc.api.make import estimator, estimators, load

__all__ = ["Estimator", "estimator", "estimators", "load"]
