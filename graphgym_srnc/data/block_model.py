"""An attributed, degree-corrected stochastic block model: a graph in memory, of known classes."""

from __future__ import annotations

import numpy as np
import torch
from torch_geometric.data import Data

from graphgym_srnc.errors import InputError

Array = np.ndarray
Rng = np.random.RandomState

WORDS_PER_NODE = 18  # mean number of words a node draws, as in Cora; a word drawn twice counts once


def class_shares(num_classes: int, class_imbalance: float, rng: Rng) -> Array:
    """Shares ``[N]`` of the classes in random order, a geometric series.

    The largest is ``class_imbalance`` (1 or more) times the smallest.
    """
    shares = class_imbalance ** (-np.arange(num_classes) / max(num_classes - 1, 1))
    return rng.permutation(shares / shares.sum())


def class_topics(num_classes: int, num_features: int, signal: float, rng: Rng) -> Array:
    """Word distributions ``[N, F]``: a Zipf background, and a Zipf of each class's own.

    All classes share the background; ``signal`` (0 to 1) is the weight of their own.
    """
    zipf = 1 / (np.arange(num_features) + 10.0)
    zipf /= zipf.sum()
    of_class = np.stack([rng.permutation(zipf) for _ in range(num_classes)])
    return (1 - signal) * zipf[rng.permutation(num_features)] + signal * of_class


def dcsbm(
    *,
    num_nodes: int,
    shares: Array,
    topics: Array,
    rng: Rng,
    avg_degree: float = 5.0,
    homophily: float = 0.8,
    degree_exponent: float = 2.8,
) -> Data:
    r"""A graph with binary bag-of-words features, in time and memory O(E + V·F).

    Each edge starts at a node drawn by its propensity :math:`\theta`, goes to a node of the same
    class with probability ``homophily``, else to one of another class; the end is drawn by
    :math:`\theta` too. Every node starts an edge if there are as many edges as nodes.

    ``shares`` ``[N]`` and word distributions ``topics`` ``[N, F]`` are those of the classes.
    ``degree_exponent`` is that of the power law of :math:`\theta`; 0 = all equal.
    """
    if num_nodes < 2 * len(shares):
        raise InputError(
            "num_nodes",
            num_nodes,
            f"{2 * len(shares)} or more, two for each of {len(shares)} classes",
        )
    if not 0 < avg_degree < num_nodes / 4:
        raise InputError(
            "avg_degree", avg_degree, f"more than 0, less than {num_nodes / 4:g} (num_nodes / 4)"
        )
    if degree_exponent != 0 and not degree_exponent > 2:
        raise InputError(
            "degree_exponent", degree_exponent, "more than 2, or 0 for equal propensities"
        )

    label = np.sort(_fill(shares, num_nodes))
    theta = np.ones(num_nodes)
    if degree_exponent:
        power = (1 - rng.random_sample(num_nodes)) ** (-1 / (degree_exponent - 1))
        theta = np.minimum(power, num_nodes**0.5)
    count = round(num_nodes * avg_degree / 2)
    edges = _edges(theta, label, count, homophily, rng)

    new_id = rng.permutation(num_nodes)  # so that node ids say nothing about classes
    node, word = _words(topics, label, rng)
    x = torch.zeros(num_nodes, topics.shape[1])
    x[torch.from_numpy(new_id[node]), torch.from_numpy(word)] = 1
    y = np.empty_like(label)
    y[new_id] = label
    both = torch.from_numpy(new_id[np.concatenate([edges, edges[::-1]], 1)])
    return Data(x=x, edge_index=both, y=torch.from_numpy(y), num_nodes=num_nodes)


def _fill(shares: Array, count: int) -> Array:
    """A class for each of ``count`` nodes, sizes in proportion to ``shares`` but two at least."""
    sizes = np.maximum((shares * count).astype(int), 2)
    while sizes.sum() > count:
        sizes[sizes.argmax()] -= 1
    sizes[np.arange(count - sizes.sum()) % len(sizes)] += 1
    return np.repeat(np.arange(len(sizes)), sizes)


def _edges(theta: Array, label: Array, count: int, homophily: float, rng: Rng) -> Array:
    """Distinct node pairs ``[2, count]``, fewer in a graph too dense; nodes are sorted by class."""
    mass = np.concatenate([[0.0], theta.cumsum()])
    # Where the stretch of each node's class begins and ends on the line of propensities.
    first, last = (mass[np.searchsorted(label, label, side)] for side in ("left", "right"))

    def node_at(point: Array) -> Array:
        return np.clip(np.searchsorted(mass, point, "right") - 1, 0, len(theta) - 1)

    keys = np.empty(0, dtype=np.int64)
    for turn in range(20):
        missing = count - len(keys)
        if missing <= 0:
            break
        start = node_at(rng.random_sample(missing) * mass[-1])
        if turn == 0:
            every = rng.permutation(len(theta))[:missing]
            start[: len(every)] = every
        inside = rng.random_sample(missing) < homophily
        rng.random_sample(missing)  # equal seeds give the graphs of published results
        low = first[start]
        high = last[start]
        point = rng.random_sample(missing)
        # Outside its class an end falls on the rest of the line, with the class's own stretch cut
        # out.
        outer = point * (mass[-1] - (high - low))
        outer = outer + np.where(outer >= low, high - low, 0.0)
        end = node_at(np.where(inside, low + point * (high - low), outer))
        pair = np.minimum(start, end) * len(theta) + np.maximum(start, end)
        keys = np.unique(np.concatenate([keys, pair[start != end]]))
    return np.stack([keys // len(theta), keys % len(theta)])


def _words(topics: Array, label: Array, rng: Rng) -> tuple[Array, Array]:
    """Node and word of each draw, ``[W]`` each."""
    count = np.maximum(rng.poisson(WORDS_PER_NODE, len(label)), 1)
    node = np.repeat(np.arange(len(label)), count)
    line = (topics / topics.sum(1, keepdims=True)).cumsum(1)
    line[:, -1] = 1.0
    line = (line + np.arange(len(topics))[:, None]).ravel()
    point = rng.random_sample(len(node)) + label[node]
    word = np.searchsorted(line, point, "right") - label[node] * topics.shape[1]
    return node, np.clip(word, 0, topics.shape[1] - 1)
