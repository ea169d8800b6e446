"""The GraphGym adapter, the only importer of GraphGym.

``import graphgym_srnc.gym`` makes any GraphGym program know this package.
"""
from __future__ import annotations

from torch_geometric.graphgym import register as _register
from torch_geometric.graphgym.config import cfg as _cfg

from graphgym_srnc.gym.build import build_method, build_task
from graphgym_srnc.gym.config import (
    Option,
    activate,
    add_options,
    config_names,
    config_root,
    load_config,
    parse_config,
    schema,
)
from graphgym_srnc.gym.modules import TaskDataset, register_modules
from graphgym_srnc.gym.training import fit, register_train, train, train_standard

__all__ = ["Option", "TaskDataset", "activate", "build_method", "build_task", "config_names",
           "config_root", "fit", "load_config", "parse_config", "schema", "train", "train_standard"]

register_modules()
register_train()
_register.config_dict.setdefault("graphgym_srnc", add_options)
# GraphGym ran set_cfg before it could know us, so its global config gets our keys here.
add_options(_cfg)
