"""Open-set cross-network classification: another graph, with classes that the source has not."""
from __future__ import annotations

from typing import Annotated

import torch
from torch_geometric.data import Data

from graphgym_srnc.data import ocnnc
from graphgym_srnc.errors import InputError
from graphgym_srnc.options import Range
from graphgym_srnc.shifts import splits
from graphgym_srnc.task import ShiftTask


def build(*, name: str = "", root: str = "", split_seed: int = 0, source: str = "citation-v1",
          target: str = "dblp-v4",
          val_share: Annotated[float, Range(0, 1, "left")] = 0.0) -> ShiftTask:
    """Train on five classes of one network, predict another that has nine.

    Classes 0 to 4 are known. Nodes of the other four are deleted from the source, with their edges,
    and are the unknown class of the target, where they are 34 to 42 % of the nodes. All nodes left
    in the source are labelled, all target nodes are in the pool and tested, and no target label is
    used before. There is no oracle.

    By default nothing is held out, as in the benchmark's protocol. The training nodes are then the
    validation nodes too: they may place the cut between known and unknown, and their scores choose
    nothing, so take ``train.selection: last``. (Shen et al., AAAI 2025.)

    Args:
        name: ignored.
        root: data folder.
        split_seed: decides which source nodes are held out, if any.
        source: the labelled network: ``citation-v1``, ``dblp-v4`` or ``acm-v8``.
        target: the network to predict, another one of these.
        val_share: share of the source nodes that is held out for validation instead.

    Raises:
        InputError: unknown network or one network twice; a share that holds out no node.
    """
    names = source.lower(), target.lower()
    if names[0] == names[1]:
        raise InputError("target", target, f"another network than the source, {source}")
    graph, other = (ocnnc.load(member, root, role)
                    for member, role in zip(names, ("source", "target")))
    unseen = [c for c in splits.classes_of(other.y) if c >= ocnnc.KNOWN]
    at_source = splits.induced(_relabelled(graph), graph.y < ocnnc.KNOWN)

    order = splits.shuffled(at_source.num_nodes, split_seed, "source nodes")
    held_out = round(val_share * len(order))
    if val_share and not held_out:
        allowed = f"0, or a share that holds out one of {len(order)} nodes"
        raise InputError("val_share", val_share, allowed)
    source_val, train = order[:held_out].sort().values, order[held_out:].sort().values

    every = torch.arange(other.num_nodes)
    info = {"source": names[0], "target": names[1], "split_seed": split_seed, "unseen": unseen,
            "cleaned": {key: graph.cleaned[key] + other.cleaned[key] for key in graph.cleaned}}
    return ShiftTask(
        name=f"ocnnc/{names[0]}-{names[1]}", source=at_source, target=_relabelled(other),
        train=train, source_val=source_val, val=source_val if held_out else train,
        val_graph=at_source, test=every, pool=every, num_known=ocnnc.KNOWN, open_set=True,
        info=info)


def _relabelled(graph: Data) -> Data:
    """The graph with all unknown classes as one."""
    return Data(x=graph.x, edge_index=graph.edge_index, y=graph.y.clamp(max=ocnnc.KNOWN),
                y_true=graph.y, num_nodes=graph.num_nodes)
