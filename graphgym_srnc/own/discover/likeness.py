"""Which known class or other new cluster each new cluster is most like, by links and words."""

from __future__ import annotations

from typing import NamedTuple, Sequence

import numpy as np
import scipy.sparse as sp
from torch_geometric.data import Data

from graphgym_srnc.core.text import counted, plain
from graphgym_srnc.methods.shared.topics import by_group
from graphgym_srnc.own.discover.clusters import Discovery
from graphgym_srnc.own.discover.representation import links
from graphgym_srnc.own.discover.table import Row

SHARED = 3  # words that are shown
LEAST = 0.1  # score below which a cluster is like no other


class Like(NamedTuple):
    """What a new cluster is most like.

    Args:
        name: a known class, or the name of a new cluster, or "" if it has none.
        number: of the new cluster; 0 for a known class.
        links: number of links between both.
        outside: number of links that leave the cluster for any class or new cluster.
        probability: share of the probability of all known classes; 0 for a new cluster.
        words: typical words of both.
    """

    name: str
    number: int
    links: int
    outside: int
    probability: float
    words: Sequence[str]

    @property
    def title(self) -> str:
        """The class, or the number of the new cluster."""
        return f"cluster {self.number}" if self.number else plain(self.name)

    @property
    def facts(self) -> str:
        """Why, in words."""
        facts = []
        if self.links:
            facts.append(f"{self.links:,} of {counted(self.outside, 'outside link')}")
        if self.probability:
            facts.append(f"{100 * self.probability:.0f} % as the model's guess of a known class")
        if self.words:
            facts.append(f"shared words: {', '.join(self.words)}")
        return "; ".join(facts)


def likenesses(graph: Data, discovery: Discovery, rows: Sequence[Row]) -> dict[int, Like]:
    """What each new cluster is most like, by its number; without those that are like no other.

    The most similar one has the largest score: its share of the links that leave the cluster, less
    its share of all links; for a known class, the mean of that and of its probability.

    Args:
        graph: with ``edge_index`` ``[2, E]``.
        discovery: the clusters.
        rows: the clusters in words, in the order of ``discovery.every``.
    """
    num_known = len(discovery.known)
    cluster = discovery.cluster.numpy()
    count = len(discovery.every)
    adjacency = sp.csr_array(links(graph) > 0).astype(float)
    ends = by_group(adjacency, cluster, count)
    between = by_group(sp.csr_array(ends.T), cluster, count).T
    usual = between.sum(1) / max(between.sum(), 1)
    np.fill_diagonal(between, 0)
    between[:, -1] = 0  # the rest is no class
    outside = between.sum(1, keepdims=True)
    share = between / np.maximum(outside, 1)
    posterior = by_group(discovery.posterior[:, :num_known].numpy(), cluster, count)
    known = posterior / np.maximum(posterior.sum(1, keepdims=True), 1e-12)

    found = {}
    for place in range(num_known, count - 1):
        score = share[place] - usual
        score[:num_known] = (score[:num_known] + known[place]) / 2
        best = int(score.argmax())
        if score[best] < LEAST:
            continue
        words = [word for word in rows[place].words if word in rows[best].words]
        other = discovery.every[best]
        found[discovery.every[place].number] = Like(
            other.name,
            other.number,
            links=int(between[place, best]),
            outside=int(outside[place, 0]),
            probability=0.0 if other.number else float(known[place, best]),
            words=words[:SHARED],
        )
    return found
