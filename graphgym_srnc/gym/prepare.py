"""Data made ready before workers start: one process downloads and processes each data set."""

from __future__ import annotations

import contextlib
import json
from typing import Any, Collection, Sequence

from graphgym_srnc import methods
from graphgym_srnc.data import files
from graphgym_srnc.errors import InputError
from graphgym_srnc.gym.build import build_task, own_graph, shift_options
from graphgym_srnc.gym.config import CfgNode
from graphgym_srnc.io.records import read_results
from graphgym_srnc.io.store import Experiment

LARGE = 100_000  # nodes of a user's own graph from which a run learns from batches
BATCHES = {"batch_size": 512, "fanout": 5}  # half the time of 1,024 and 10, equal scores
SAMPLED = ("gcnconv", "sageconv", "gatconv", "gatdrop")  # kinds of layers that draw neighbours


def choose_batches(cfg: CfgNode, given: Collection[str]) -> str:
    """Change the config of a run on a user's own large graph, so that it learns from batches.

    Keys that are ``given`` stay. Returns what was done, in words; empty = nothing.
    """
    mode = cfg.train.mode
    key = f"{cfg.train.mode}.batch_size"
    block = cfg.get(mode, {})
    full = "batch_size" in block and not block["batch_size"] and key not in given
    if not full or cfg.dataset.format != "file" or cfg.gnn.layer_type not in SAMPLED:
        return ""
    with contextlib.suppress(InputError):  # whoever reads the graph tells what is wrong with it
        nodes = files.num_nodes(own_graph(cfg))
        if nodes and nodes >= LARGE and methods.find(mode).in_batches:
            free = {name: n for name, n in BATCHES.items() if f"{mode}.{name}" not in given}
            block.update(free)
            words = " and ".join(f"{mode}.{name} to {n}" for name, n in free.items())
            return (
                f"The graph has {nodes:,} nodes, so this run sets {words}. Set {key} to 0 to"
                " train on the whole graph at once."
            )
    return ""


def prepare(configs: Sequence[tuple[CfgNode, str]]) -> dict[str, str]:
    """Make one task of each distinct data set, so that one process downloads and processes it.

    ``configs`` has the configs of all runs to come, and what errors call them. Of configs that
    differ only in the seed of the split, one is tried. Returns fingerprints by ``data_key``.
    """
    fingerprints: dict[str, str] = {}
    tried = set()
    for cfg, name in configs:
        data = data_key(cfg, split_seed=None)
        if data in tried:
            continue
        tried.add(data)
        where = f"{cfg.dataset.format}/{cfg.dataset.name}, config {name}"
        try:
            fingerprints[data_key(cfg)] = build_task(cfg).fingerprint()
        except Exception as error:
            message = f"{cfg.dataset.name!r} cannot be read ({type(error).__name__}: {error})"
            known = error if isinstance(error, InputError) else None
            raise (known or InputError.plain("dataset.name", message)).noted(where) from error
    return fingerprints


def check_data(
    cfg: CfgNode, experiment: Experiment, missing: Collection[int], fingerprints: dict[str, str]
) -> None:
    """Refuse to add runs of the ``missing`` seeds to finished ones that were made of other data.

    The task of one finished run is made again, and added to the ``fingerprints`` by ``data_key``.
    """
    kept = {
        seed: result
        for seed, result in read_results(experiment.path).items()
        if seed not in missing and result["digest"] == experiment.digest
    }
    keys = {seed: data_key(cfg, seed) for seed in kept}
    if kept and not fingerprints.keys() & {*keys.values()}:
        first = cfg.clone()
        first.seed = min(kept)
        fingerprints |= prepare([(first, experiment.name)])
    for seed, result in kept.items():
        now = fingerprints.get(keys[seed]) or result["split"]
        if result["split"] != now:
            splits = f"split of seed {seed}: {result['split'][:12]} before, {now[:12]} now"
            raise InputError.plain(
                "out_dir",
                f"the runs in {experiment.path} used other data ({splits})",
                "Choose another --name, or add --overwrite",
            )


def data_key(cfg: CfgNode, seed: int | None = None, **changes: Any) -> str:
    """All settings that a task is made of but its folder, which may differ between machines.

    ``seed`` replaces the seed of the config, and ``changes`` replace options of the shift.
    """
    options = shift_options(cfg, cfg.seed if seed is None else seed) | changes
    return json.dumps([cfg.dataset.format, cfg.dataset.name, options])
