"""Open-set cross-network classification: another graph with classes the source lacks."""

from __future__ import annotations

import torch

from graphgym_srnc.core.task import ShiftTask
from graphgym_srnc.data.networks import OCNNC
from graphgym_srnc.errors import InputError
from graphgym_srnc.shifts import splits

KNOWN = 5  # classes 0 to 4 are the known ones of the benchmark


def build(
    *,
    name: str = "",
    root: str = "",
    split_seed: int = 0,
    source: str = "citation-v1",
    target: str = "dblp-v4",
) -> ShiftTask:
    """Train on five classes of one network and predict another network with nine classes.

    Classes 0 to 4 are known. Nodes of the others are removed from the source, and are the unknown
    class of the target. All target nodes are in the pool and are tested. There is no oracle. The
    protocol is that of Shen et al., AAAI 2025.

    The training nodes also serve as validation nodes. They can set the threshold of the unknown
    class, but cannot select an episode, so set ``train.selection: last``.

    Args:
        name: ignored.
        root: data folder.
        split_seed: ignored.
        source: the labelled network: ``citation-v1``, ``dblp-v4`` or ``acm-v8``.
        target: the network to predict: another one of these three.

    Raises:
        InputError: a network is unknown or used twice.
    """
    source_name = source.lower()
    target_name = target.lower()
    if source_name == target_name:
        raise InputError.plain(
            "target",
            f"source and target are the same network, {source}",
            "Choose two different networks",
        )
    graph = OCNNC.load(source_name, root, "source")
    other = OCNNC.load(target_name, root, "target")
    known = range(KNOWN)
    at_source = splits.relabelled(graph, known).subgraph(graph.y < KNOWN)
    train = torch.arange(at_source.num_nodes)
    every = torch.arange(other.num_nodes)
    return ShiftTask(
        f"ocnnc/{source_name}-{target_name}",
        at_source,
        splits.relabelled(other, known),
        train,
        train,
        test=every,
        pool=every,
        num_known=KNOWN,
        open_set=True,
        val_graph=at_source,
        info={
            "source": source_name,
            "target": target_name,
            "split_seed": split_seed,
            "unseen": [c for c in splits.classes_of(other.y) if c >= KNOWN],
            "cleaned": splits.cleaned(graph, other),
        },
    )
