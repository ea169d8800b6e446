"""Words of nodes and clusters: how a node is shown, and which features are typical of a group."""

from __future__ import annotations

import copy
from typing import Iterable, NamedTuple, Sequence

import numpy as np
import pandas
import scipy.sparse as sp
import torch
from scipy.stats import ttest_ind_from_stats
from torch_geometric.data import Data

from graphgym_srnc.backbones import Sparse
from graphgym_srnc.core.markup import unmarked
from graphgym_srnc.core.text import cut, plain, short
from graphgym_srnc.data.names import DERIVED, MISSING, Names
from graphgym_srnc.methods.shared.topics import Matrix, are_words, by_group, features
from graphgym_srnc.own.discover.representation import word_columns

LONGEST = 160  # maximum length of a node's line
TITLE = 200  # most letters of a title
SHORT = 60  # letters of a text that is a title
READ = 2000  # letters of a node's text that are read for its line
# Weight of the whole graph's counts as a prior; the larger, the more often a word must occur.
PRIOR = 0.1
LEAST_Z = 2.0  # z of a typical word
MOST_INSIDE = 0.3  # share of all nodes between the quartiles of a typical number; by chance 0.5
MOST_EMPTY = 0.5  # share of empty cells of a group above which a number has no quartiles
SD = "SD"  # unit of a number whose own unit is unknown
NEARLY_ALL = 0.9  # share of a cluster that has a value of a category, to be told
MOST_OF_ALL = 0.5  # share of all nodes that may have it
PART_OF_VALUE = 0.25  # share of the nodes with the value that must be in the cluster
RARITY = 1.5  # power of the inverse node frequency of a word in the order of words
TELLING = 8  # letters of a category from which it is shown without the name of its column
MOST_IN_NAME = 4  # words of the name of a feature
LONGEST_NAME = 32  # its letters


class Shown(NamedTuple):
    """A node as it is shown: its number, id, title, and the rest of its text without both."""

    node: int
    id: str
    title: str
    text: str

    @property
    def head(self) -> str:
        """Its id and its title; the id only if the title does not repeat it."""
        heads = [self.title] if _same(self.title, self.id) else [self.id, self.title]
        return ": ".join(filter(None, heads))

    @property
    def line(self) -> str:
        """All of it on one line."""
        return short(": ".join(filter(None, [self.head, self.text])), LONGEST)


def shown_node(names: Names, node: int) -> Shown:
    """A node with its id, its title and its text apart, without markup; none repeats another.

    The title is the first line of a text of several lines unless it is long, the id where a text
    begins with it, or the whole of a short text.
    """
    id = plain(names.ids[node]) if names.ids is not None else f"node {node}"
    whole = names.texts[node][:READ].strip() if names.texts is not None else ""
    first, _, rest = whole.partition("\n")
    title = plain(unmarked(first)) if rest and len(first) <= TITLE else ""
    body = plain(unmarked(rest if title else whole))
    start = title or id
    while start and _same(body[: len(start)], start) and not body[len(start) :][:1].isalnum():
        title = title or body[: len(start)]
        body = body[len(start) :].lstrip(" :-–—,;")
    if not title and len(body) <= SHORT:
        title = body
        body = ""
    return Shown(node, id, title, body)


def titles(names: Names) -> list[str] | None:
    """The title of each node, or the start of its text if it has none; None without texts."""
    if names.texts is None:
        return None
    starts = names._replace(texts=[text[: 2 * LONGEST] for text in names.texts])
    nodes = (shown_node(starts, node) for node in range(len(names.texts)))
    return [cut(node.title or node.text, LONGEST) for node in nodes]


def _same(one: str, other: str) -> bool:
    """Whether two names differ at most in case, and in underscores for spaces."""
    return one.replace("_", " ").casefold() == other.replace("_", " ").casefold()


def readable(x: Matrix, names: Names) -> tuple[Matrix, Names]:
    """Features ``[V, F]`` and names without those that count parts of words."""
    if names.words is None:
        return x, names
    columns = [column for column, name in enumerate(names.words) if not name.startswith(DERIVED)]
    if len(columns) in (0, len(names.words)):
        return x, names
    return x[:, columns], names._replace(words=[names.words[column] for column in columns])


def readable_graph(graph: Data, names: Names) -> tuple[Data, Names]:
    """A graph and its names with :func:`readable` features."""
    x = features(graph)
    kept, names = readable(x, names)
    if kept is x:
        return graph, names
    own = torch.from_numpy(kept) if isinstance(kept, np.ndarray) else Sparse(kept).parts.csr()
    return copy.copy(graph).update({"x": own}), names


def described(x: Matrix, names: Names) -> tuple[Matrix, Names]:
    """The features that are words, and their names."""
    columns = np.flatnonzero(_are_words(x, names))
    every = names.words or [f"feature {column}" for column in range(x.shape[1])]
    return x[:, columns], names._replace(words=[every[column] for column in columns])


def shared_values(
    x: Matrix, groups: Sequence[np.ndarray], label: np.ndarray, names: Names
) -> list[dict[str, tuple[float, int]]]:
    """Values of categories that nearly all nodes of a group have, and few others.

    At most half of all nodes have them, and at least a quarter of these are in the group.

    Args:
        x: features, ``[V, F]``.
        groups: the nodes of each group.
        label: class of each labelled node, ``[V]``; -1 = none.
        names: of feature columns.

    Returns:
        For each group, by values such as ``type=tool``, the share of its nodes that have the value,
        and the number of labelled nodes that have it.
    """
    every = names.words or []
    columns = [column for column, word in enumerate(every) if "=" in word]
    if not columns:
        return [{} for _ in groups]
    has_value = sp.csr_array(x[:, columns]) != 0
    is_rare = has_value.mean(0) <= MOST_OF_ALL
    labelled = has_value[np.flatnonzero(label >= 0)].sum(0)
    found = []
    for nodes in groups:
        share = has_value[nodes].mean(0)
        is_part = has_value[nodes].sum(0) >= PART_OF_VALUE * has_value.sum(0)
        best = np.flatnonzero(is_rare & is_part & (share >= NEARLY_ALL))
        values = {every[columns[k]]: (float(share[k]), int(labelled[k])) for k in best}
        found.append(values)
    return found


def _are_words(x: Matrix, names: Names) -> np.ndarray:
    """Which features ``[V, F]`` are words: not those with a unit, else see ``word_columns``."""
    if names.units is None or names.words is None:
        return word_columns(x)
    return np.array([word not in names.units for word in names.words], dtype=bool)


def typical_numbers(
    x: Matrix, group: np.ndarray, count: int, names: Names, most: int
) -> list[list[str]]:
    """At most ``most`` features of each group that are numbers, with its quartiles of them.

    The first ones have the fewest of all nodes between these quartiles, at most
    :data:`MOST_INSIDE`. Nodes whose cell is empty do not count. If most cells of a group are empty,
    their share stands in place of the quartiles. Numbers without units are in standard deviations
    from the mean.

    Args:
        x: features, ``[V, F]``.
        group: the group of each node, ``[V]``, from 0.
        count: number of groups.
        names: of feature columns.
        most: maximum number of features per group.
    """
    columns = np.flatnonzero(~_are_words(x, names))
    if not len(columns):
        return [[] for _ in range(count)]
    values = _known_numbers(x, columns, names)
    found: list[list[str]] = []
    for own in (values[group == number] for number in range(count)):
        if not len(own):
            found.append([])
            continue
        low, high = pandas.DataFrame(own).quantile([0.25, 0.75]).to_numpy()
        empty = np.isnan(own).mean(0)
        inside = _share_inside(values, low, high, empty)
        best = np.argsort(inside, kind="stable")[:most]
        found.append(
            [
                _in_words(values[:, k], low[k], high[k], empty[k], names, columns[k])
                for k in best
                if inside[k] <= MOST_INSIDE
            ]
        )
    return found


def _known_numbers(x: Matrix, columns: np.ndarray, names: Names) -> np.ndarray:
    """The features ``[V, n]`` in these columns, NaN where another one marks an empty cell."""
    values = sp.csr_array(x[:, columns]).toarray().astype(np.float64)
    place = {word: column for column, word in enumerate(names.words or ())}
    for k, column in enumerate(columns.tolist()):
        mark = place.get(names.words[column] + MISSING) if names.words else None
        if mark is not None:
            is_missing = sp.csr_array(x[:, [mark]]).toarray().ravel() > 0
            values[is_missing, k] = np.nan
    return values


def _share_inside(
    values: np.ndarray, low: np.ndarray, high: np.ndarray, empty: np.ndarray
) -> np.ndarray:
    """The share of all nodes that are like the typical half of a group, ``[n]``; by chance 0.5.

    Of known numbers it is the share between the quartiles of the group. If most cells of the group
    are empty, it is half the share of empty cells, divided by that of the group.

    Args:
        values: numbers of all nodes, ``[V, n]``, NaN for an empty cell.
        low, high: quartiles of the group, ``[n]``.
        empty: share of the cells of the group that are empty, ``[n]``.
    """
    known = (~np.isnan(values)).mean(0)
    between = ((values >= low) & (values <= high)).mean(0) / np.maximum(known, 1e-12)
    like_empty = (1 - known) / (2 * np.maximum(empty, MOST_EMPTY))
    return np.where(empty > MOST_EMPTY, like_empty, between)


def _in_words(
    values: np.ndarray, low: float, high: float, empty: float, names: Names, column: int
) -> str:
    """The quartiles of a feature ``[V]`` in its unit, or in standard deviations from its mean.

    ``empty`` is the share of empty cells of the group.
    """
    name = column_name(names, column)
    if empty > MOST_EMPTY:
        return f"{name} missing in {100 * empty:.0f} %"
    unit = (names.units or {}).get(names.words[column]) if names.words else None
    std = np.nanstd(values)
    if unit is None:
        ends = [(end - np.nanmean(values)) / max(std, 1e-12) for end in (low, high)]
        return f"{name} {_range(f'{end:+.1f}' for end in ends)} {SD}"
    ends = [unit.number(end) for end in (low, high)]
    if unit.ranks:  # extreme numbers have no standard deviation that tells of digits
        return f"{name} {_range(map(_rounded, ends))}"
    digits = max(0, 1 - int(np.floor(np.log10(max(std * unit.std, 1e-12)))))
    return f"{name} {_range(f'{end:.{digits}f}' for end in ends)}"


def _range(ends: Iterable[str]) -> str:
    """Both ends of a range, or the only one."""
    return " to ".join(dict.fromkeys(ends))


def _rounded(number: float) -> str:
    """A number in four digits, below a million without an exponent."""
    return f"{float(f'{number:.4g}'):g}"


def column_name(names: Names, column: int) -> str:
    """The word that a feature column stands for, or the first words of a category."""
    if names.words is None:
        return f"feature {column}"
    word = plain(names.words[column])
    column_of, _, category = word.partition("=")
    shown = category if column_of and len(category) >= TELLING else word
    return short(" ".join(shown.split()[:MOST_IN_NAME]), LONGEST_NAME)


def typical_words(
    x: Matrix, group: np.ndarray, count: int, names: Names, most: int
) -> list[list[str]]:
    r"""At most ``most`` words of each group, those with :math:`z` above 2.

    The first ones have the largest :math:`z \log(V / V_w)^{1.5}`, with :math:`V_w` nodes that have
    the word, since boilerplate such as "say yes" may be frequent in a group, but names no topic.

    Args:
        x: features, ``[V, F]``.
        group: the group of each node, ``[V]``, from 0.
        count: number of groups.
        names: of feature columns.
        most: maximum number of words per group.
    """
    found = []
    rarity = np.ones(x.shape[1])
    if are_words(x):
        rarity = np.log(len(group) / np.maximum((x > 0).sum(0), 1)).reshape(-1) ** RARITY
    for z in contrast(x, group, count):
        best = np.argsort(-z * rarity, kind="stable")[: 2 * most]
        own = [column_name(names, column) for column in best[z[best] > LEAST_Z]]
        # A number alone says little.
        found.append([word for word in dict.fromkeys(own) if not word.isdecimal()][:most])
    return found


def contrast(x: Matrix, group: np.ndarray, count: int) -> np.ndarray:
    """How much more each group has of each feature than the other nodes, in standard errors.

    Words count once per node (:func:`log_odds`); other features are compared by Welch's t.

    Args:
        x: features, ``[V, F]``.
        group: the group of each node, ``[V]``, from 0.
        count: number of groups.

    Returns:
        :math:`z`, ``[C, F]``; 0 for a group without nodes or with all of them.
    """
    inside = np.bincount(group, minlength=count)[:, None]
    outside = len(group) - inside
    if are_words(x):
        counts = by_group(x > 0, group, count)
        total = counts.sum(0)
        z = log_odds(counts, total - counts, PRIOR * np.maximum(total, 1))
    else:
        sums = by_group(x.astype(np.float64), group, count)
        squares = by_group(x.astype(np.float64) ** 2, group, count)
        # Features that do not vary have no error.
        z = np.nan_to_num(
            ttest_ind_from_stats(
                *_moments(sums, squares, inside),
                *_moments(sums.sum(0) - sums, squares.sum(0) - squares, outside),
                equal_var=False,
            ).statistic
        )
    return np.where((inside > 0) & (outside > 0), z, 0.0)


def _moments(
    sums: np.ndarray, squares: np.ndarray, size: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Means and standard deviations ``[C, F]``, and sizes ``[C, 1]`` of at least 1."""
    size = np.maximum(size, 1)
    mean = sums / size
    return mean, np.sqrt(np.maximum(squares / size - mean**2, 0)), size


def log_odds(counts: np.ndarray, others: np.ndarray, prior: np.ndarray) -> np.ndarray:
    r"""How much more a word is used in one group than in the rest, in standard errors.

    .. math:: z_w = \frac{\delta_w}{\sqrt{1 / a_w + 1 / b_w}}, \quad
              \delta_w = \ln \frac{a_w}{\sum_v a_v - a_w} - \ln \frac{b_w}{\sum_v b_v - b_w}, \quad
              a = y + \alpha, \ b = y' + \alpha

    Args:
        counts: :math:`y`, how often each word occurs in the group, ``[..., F]``.
        others: :math:`y'`, the same in the rest, ``[..., F]``.
        prior: :math:`\alpha`, above 0, ``[F]``.

    Returns:
        :math:`z`, ``[..., F]``.

    References:
        Weighted log-odds with an informative Dirichlet prior (Monroe, Colaresi and Quinn, Political
        Analysis 2008).
    """
    a = counts + prior
    b = others + prior
    odds, other_odds = (np.log(c / np.maximum(c.sum(-1, keepdims=True) - c, 1e-12)) for c in (a, b))
    return (odds - other_odds) / np.sqrt(1 / a + 1 / b)
