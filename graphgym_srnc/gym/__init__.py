"""The GraphGym adapter, the only importer of GraphGym.

``import graphgym_srnc.gym`` registers configs, loader and methods with GraphGym.
"""

from __future__ import annotations

from graphgym_srnc.core import environment, plugins

with environment.lean_imports("lightning", "pytorch_lightning"):
    # Our commands do not train with Lightning, whose import takes a quarter of all imports.
    import torch_geometric.graphgym

from graphgym_srnc.gym.build import build_method, build_task, fit
from graphgym_srnc.gym.config import activate, documented, global_cfg, load_config
from graphgym_srnc.gym.keys import add_options, schema
from graphgym_srnc.gym.main import register_main
from graphgym_srnc.io.config_files import config_names
from graphgym_srnc.io.settings import config_root

__all__ = [
    "activate",
    "build_method",
    "build_task",
    "config_names",
    "config_root",
    "documented",
    "fit",
    "load_config",
    "schema",
]

torch_geometric.graphgym.register.config_dict.setdefault("graphgym_srnc", add_options)
add_options(global_cfg)  # GraphGym called set_cfg before this package could register
# Before ours, since GraphGym refuses a name twice.
plugins.usable(plugins.load, plugins.entries("register").values())
register_main()
