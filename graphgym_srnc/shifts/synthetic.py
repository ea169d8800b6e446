"""Graphs made in memory: an attributed, degree-corrected stochastic block model with known classes and a known shift."""
from __future__ import annotations

import numpy as np
import torch
from torch_geometric.data import Data

from graphgym_srnc.data import datasets
from graphgym_srnc.errors import InputError
from graphgym_srnc.shifts import splits
from graphgym_srnc.task import ShiftTask

MODES = ("open_set", "close_set")
WORDS_PER_NODE = 18
"""Mean number of words a node draws, as in Cora; a word drawn twice counts once."""


def build(*, name: str = "", root: str = "", split_seed: int = 0, mode: str = "open_set", num_nodes: int = 2000, num_classes: int = 7,
          num_unseen: int = 2, unseen: list[int] = [], avg_degree: float = 5.0, homophily: float = 0.8,  # noqa: B006
          degree_exponent: float = 2.8, class_imbalance: float = 3.0, blocks_per_class: int = 1, num_features: int = 500,
          signal: float = 0.25, shift: float = 0.2, labels_per_class: int = 20, num_val: int = 300, num_test: int = 1000) -> ShiftTask:
    """Make a task of synthetic graphs; the defaults are about as hard as Cora.

    ``open_set`` masks classes of one graph, as the shift of that name does. ``close_set`` makes two graphs of the same classes:
    the source is labelled, the target is not, and class shares and class words of the target differ by ``shift``; ``num_val``
    labelled source nodes are held out as ``source_val``, and validation and test nodes are drawn from the target.

    Args:
        name, root: ignored.
        split_seed: decides the graphs and the split.
        mode: ``open_set`` or ``close_set``.
        num_nodes: number of nodes of each graph.
        num_classes: number of classes, masked ones included.
        num_unseen: number of classes to mask, drawn from ``split_seed``.
        unseen: the classes to mask; overrides ``num_unseen``.
        avg_degree: mean degree of a node.
        homophily: share of edges inside classes.
        degree_exponent: exponent of the power law of degrees, above 2; 0 = all alike.
        class_imbalance: size of the largest class over that of the smallest.
        blocks_per_class: communities that a class falls into.
        num_features: number of binary word features.
        signal: share of a node's words that tell its class, 0 to 1.
        shift: in ``close_set``, how far the target is from the source, 0 to 1: the share of each class's words that others replace,
            and how far class shares move towards those in another order.
        labels_per_class: labelled nodes of each known class; -1 = all that are neither validation nor test.
        num_val: validation nodes, less on a small graph.
        num_test: test nodes, less on a small graph; -1 = all other nodes.

    Raises:
        InputError: a value out of its range, or too few nodes.
    """
    _check(mode in MODES, "mode", mode, ", ".join(MODES))
    _check(0 <= shift <= 1, "shift", shift, "0 .. 1")
    rng = splits.generator(split_seed, 2)
    shape = {"num_nodes": num_nodes, "avg_degree": avg_degree, "homophily": homophily, "degree_exponent": degree_exponent,
             "blocks_per_class": blocks_per_class}
    _check(num_classes >= 2, "num_classes", num_classes, "2 or more")
    _check(num_features >= 2, "num_features", num_features, "2 or more")
    priors, topics = class_shares(num_classes, class_imbalance, rng), class_topics(num_classes, num_features, signal, rng)
    graph = datasets.clean(dcsbm(shares=priors, topics=topics, rng=rng, **shape), "synthetic")
    sizes = {"labels_per_class": labels_per_class, "split_seed": split_seed, "section": "synthetic"}
    info = {"split_seed": split_seed, "mode": mode}
    if mode == "open_set":
        masked = splits.choose_unseen(range(num_classes), num_unseen, unseen, split_seed, "synthetic")
        nodes = splits.draw(graph.y, masked, num_val=num_val, num_test=num_test, **sizes)
        return splits.open_set_task("synthetic/open_set", graph, masked, nodes, info=info)
    moved = (1 - shift) * priors + shift * rng.permutation(priors)
    replaced = (1 - shift) * topics + shift * class_topics(num_classes, num_features, signal, rng)
    target = datasets.clean(dcsbm(shares=moved, topics=replaced, rng=rng, **shape), "synthetic")
    at_source = splits.draw(graph.y, [], num_val=num_val, num_test=1, **sizes)
    at_target = splits.draw(target.y, [], num_val=num_val, num_test=num_test, **sizes)
    for side in (graph, target):
        side.y_true = side.y
    source_pool, target_pool = (torch.ones(num_nodes, dtype=torch.bool) for _ in range(2))
    target_pool[at_target.train] = False
    return ShiftTask(
        name="synthetic/close_set", source=graph, target=target, train=at_source.train, source_val=at_source.val, val=at_target.val,
        test=at_target.test, pool=source_pool.nonzero().view(-1), num_known=num_classes, open_set=False, info=info,
        oracle=ShiftTask(name="synthetic/close_set/oracle", source=target, target=target, train=at_target.train, val=at_target.val,
                         test=at_target.test, pool=target_pool.nonzero().view(-1), num_known=num_classes, open_set=False, info=info))


def class_shares(num_classes: int, class_imbalance: float, rng: np.random.RandomState) -> np.ndarray:
    """Shares ``[N]`` of the classes in random order, a geometric series whose largest is ``class_imbalance`` times its smallest."""
    _check(class_imbalance >= 1, "class_imbalance", class_imbalance, "1 (equal classes) or more")
    shares = class_imbalance ** (-np.arange(num_classes) / max(num_classes - 1, 1))
    return rng.permutation(shares / shares.sum())


def class_topics(num_classes: int, num_features: int, signal: float, rng: np.random.RandomState) -> np.ndarray:
    """Word distributions ``[N, F]``: a Zipf background that all classes share, and with weight ``signal`` a Zipf of the class's own."""
    _check(0 <= signal <= 1, "signal", signal, "0 (features say nothing) .. 1")
    zipf = 1 / (np.arange(num_features) + 10.0)
    zipf /= zipf.sum()
    own = np.stack([rng.permutation(zipf) for _ in range(num_classes)])
    return (1 - signal) * zipf[rng.permutation(num_features)] + signal * own


def dcsbm(*, num_nodes: int, shares: np.ndarray, topics: np.ndarray, rng: np.random.RandomState, avg_degree: float = 5.0,
          homophily: float = 0.8, degree_exponent: float = 2.8, blocks_per_class: int = 1, cohesion: float = 0.9) -> Data:
    r"""A graph of a degree-corrected stochastic block model with binary bag-of-words features, in time and memory O(E + V·F).

    Each edge starts at a node drawn by its propensity :math:`\theta`, goes to a node of the same class with probability
    ``homophily``, else to one of another class, and within the class stays in its block with probability ``cohesion``; the end is
    drawn by :math:`\theta` too. Every node starts at least one edge as long as there are as many edges as nodes.

    Args:
        num_nodes: :math:`V`.
        shares: share of each class, ``[N]``.
        topics: word distribution of each class, ``[N, F]``.
        rng: draws everything.
        avg_degree: mean degree; a dense small graph may have a little less, since an edge counts once.
        homophily: share of edges inside classes.
        degree_exponent: exponent of the power law of :math:`\theta`, above 2; 0 = all equal.
        blocks_per_class: communities that a class falls into.
        cohesion: share of the edges inside a class that stay inside a community.

    Returns:
        ``x`` ``[V, F]``, ``edge_index`` ``[2, E]`` (both directions), ``y`` ``[V]`` and ``block`` ``[V]``.

    Raises:
        InputError: a value out of its range.
    """
    num_blocks = len(shares) * blocks_per_class
    _check(blocks_per_class >= 1, "blocks_per_class", blocks_per_class, "1 or more")
    _check(num_nodes >= 2 * num_blocks, "num_nodes", num_nodes, f"{2 * num_blocks} or more, two for each of {num_blocks} blocks")
    _check(0 < avg_degree < num_nodes / 4, "avg_degree", avg_degree, f"more than 0, less than {num_nodes / 4:g} (num_nodes / 4)")
    _check(0 <= homophily <= 1, "homophily", homophily, "0 .. 1")
    _check(degree_exponent == 0 or degree_exponent > 2, "degree_exponent", degree_exponent, "more than 2, or 0 for equal propensities")
    block = np.sort(_fill(np.repeat(shares / blocks_per_class, blocks_per_class), num_nodes))
    label = block // blocks_per_class
    theta = np.ones(num_nodes)
    if degree_exponent:
        theta = np.minimum((1 - rng.random_sample(num_nodes)) ** (-1 / (degree_exponent - 1)), num_nodes ** 0.5)
    edges = _edges(theta, label, block, round(num_nodes * avg_degree / 2), homophily, cohesion if blocks_per_class > 1 else 1.0, rng)
    place = rng.permutation(num_nodes)  # so that node ids say nothing about classes
    edges = place[edges]
    words, label_of = _words(topics, label, rng), np.empty((2, num_nodes), dtype=np.int64)
    x = torch.zeros(num_nodes, topics.shape[1])
    x[torch.from_numpy(place[words[0]]), torch.from_numpy(words[1])] = 1
    label_of[:, place] = np.stack([label, block])
    y, block = torch.from_numpy(label_of)
    both = torch.from_numpy(np.concatenate([edges, edges[::-1]], 1))
    return Data(x=x, edge_index=both, y=y.clone(), block=block.clone(), num_nodes=num_nodes)


def _check(right: bool, key: str, value: object, allowed: str) -> None:
    if not right:
        raise InputError(f"synthetic.{key}", value, allowed)


def _fill(shares: np.ndarray, count: int) -> np.ndarray:
    """A group for each of ``count`` nodes, sizes in proportion to ``shares`` but two at least."""
    sizes = np.maximum((shares * count).astype(int), 2)
    while sizes.sum() > count:
        sizes[sizes.argmax()] -= 1
    sizes[np.arange(count - sizes.sum()) % len(sizes)] += 1
    return np.repeat(np.arange(len(sizes)), sizes)


def _edges(theta: np.ndarray, label: np.ndarray, block: np.ndarray, count: int, homophily: float, cohesion: float,
           rng: np.random.RandomState) -> np.ndarray:
    """Distinct node pairs ``[2, count]`` (a few less if the graph is too dense for them); nodes are sorted by block."""
    mass = np.concatenate([[0.0], theta.cumsum()])
    low_class, high_class = (mass[np.searchsorted(label, label, side)] for side in ("left", "right"))
    low_block, high_block = (mass[np.searchsorted(block, block, side)] for side in ("left", "right"))

    def node_at(point: np.ndarray) -> np.ndarray:
        return np.clip(np.searchsorted(mass, point, "right") - 1, 0, len(theta) - 1)

    keys = np.empty(0, dtype=np.int64)
    for turn in range(20):
        missing = count - len(keys)
        if missing <= 0:
            break
        start = node_at(rng.random_sample(missing) * mass[-1])
        if turn == 0:
            every = rng.permutation(len(theta))[:missing]
            start[:len(every)] = every
        inside, near = rng.random_sample(missing) < homophily, rng.random_sample(missing) < cohesion
        low, high = (np.where(inside & near, of_block[start], of_class[start])
                     for of_block, of_class in ((low_block, low_class), (high_block, high_class)))
        point = rng.random_sample(missing)
        # Outside its class an end falls on the rest of the line, with the class's own stretch cut out.
        outer = point * (mass[-1] - (high - low))
        end = node_at(np.where(inside, low + point * (high - low), outer + np.where(outer >= low, high - low, 0.0)))
        pair = np.minimum(start, end) * len(theta) + np.maximum(start, end)
        keys = np.unique(np.concatenate([keys, pair[start != end]]))
    return np.stack([keys // len(theta), keys % len(theta)])


def _words(topics: np.ndarray, label: np.ndarray, rng: np.random.RandomState) -> np.ndarray:
    """Node and word of each draw, ``[2, W]``."""
    count = np.maximum(rng.poisson(WORDS_PER_NODE, len(label)), 1)
    node = np.repeat(np.arange(len(label)), count)
    line = (topics / topics.sum(1, keepdims=True)).cumsum(1)
    line[:, -1] = 1.0
    line = (line + np.arange(len(topics))[:, None]).ravel()
    word = np.searchsorted(line, rng.random_sample(len(node)) + label[node], "right") - label[node] * topics.shape[1]
    return np.stack([node, np.clip(word, 0, topics.shape[1] - 1)])
