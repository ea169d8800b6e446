"""Configs and records that older versions stored, in the words of this one."""

from __future__ import annotations

import copy
from typing import Any

BEYOND_THE_PAPER = {
    "members": 1,
    "product": 0.0,
    "drop_unsure": 0.0,
    "target_ratio": 1.0,
    "hard_labels": False,
    "calibrated": False,
    "self_training": 0,
    "modularity_weight": 1.0,
    "cluster_source_steps": 60,
}
"""Options beyond the paper that SRNC once had, and their values in SRNC."""

GONE = (
    "candidates",
    "cluster_pretrain_steps",
    "source_posterior",
    "cluster_hidden",
    "cluster_weight_decay",
    "cluster_features",
    "resolutions",
)
"""Options of SRNC that no longer exist."""

UNRECORDED = ("members", "resolution")
"""Figures of an episode that SRNC, which has one of each, no longer records."""


ADDED = {"correction": "none", "correction_power": 1.0, "cut": "validation"}
"""Options of every method that older versions had not, and what they did."""


def modern(config: dict[str, Any]) -> dict[str, Any]:
    """A stored config with keys as they are called today; itself where nothing has changed.

    The committee of cluster GNNs that SRNC+ once was, and SRNC before it, is shown as
    ``srnc_committee``, which cannot be run any more, and ``srnc_spare`` as SRNC+, which it has
    become; DOC, OpenWGL and G2Pxy have no choice of a score; no config says which files are
    trusted; of two graphs, only source nodes of masked classes were unlabelled.
    """
    for shift in ("open_set", "localized"):
        if isinstance(config.get(shift), dict) and "verify" in config[shift]:
            config = copy.deepcopy(config)
            del config[shift]["verify"]
    pair = config.get("cross_graph")
    if isinstance(pair, dict) and "unseen" in pair and "unlabelled_share" not in pair:
        config = config | {"cross_graph": pair | {"unlabelled_share": 0.0}}
    method = config.get("train", {}).get("mode")
    block = config.get(method)
    if not isinstance(block, dict):
        return config
    if "correction" not in block:
        config = copy.deepcopy(config)
        block = config[method] = ADDED | block
    if method in ("doc", "openwgl", "g2pxy") and "score" in block:
        config = copy.deepcopy(config)
        for key in ("score", "temperature", "perturbation"):
            config[method].pop(key, None)
    if method == "srnc" and "resolutions" in block:
        config = copy.deepcopy(config)
        block = config.pop("srnc")
        resolutions = block["resolutions"]
        block["resolution"] = float(resolutions[0]) if len(resolutions) == 1 else 0.0
        beyond = (
            not block["resolution"]
            or not block.get("num_clusters")
            or any(block.get(key, value) != value for key, value in BEYOND_THE_PAPER.items())
        )
        for key in (*GONE, *(() if beyond else BEYOND_THE_PAPER)):
            block.pop(key, None)
        config["train"]["mode"] = name = "srnc_committee" if beyond else "srnc"
        config[name] = block
    renamed = {"srnc_plus": "srnc_committee"} if "members" in block else {"srnc_spare": "srnc_plus"}
    if method in renamed:
        config = copy.deepcopy(config)
        config["train"]["mode"] = renamed[method]
        config[renamed[method]] = config.pop(method)
    return config


def modern_result(result: dict[str, Any]) -> dict[str, Any]:
    """A stored record with its config, and the method's name, as they are called today."""
    config = modern(result["config"])
    if config is result["config"]:
        return result
    return result | {"config": config, "method": config["train"]["mode"]}
