"""A synthetic, growing citation graph with the years and classes of ogbn-arxiv.

A class is a set of topics, and a paper is about a topic that exists in its year. Some topics appear
late and grow for some years, so later periods have more papers about topics without labels. The
features of a topic drift with the year. Some papers are about a topic of another class in the same
field; half of their citations go there. Papers cite earlier, mostly recent or famous ones.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas
import torch
from torch_geometric.data import Data

Array = np.ndarray
Rng = np.random.RandomState

# Papers of each class, by arXiv's name and in the order of the labels, and of each year. Some early
# years are surely wrong, and are kept as they are.
PAPERS = pandas.read_csv(Path(__file__).with_name("ogbn_arxiv_papers.csv"), index_col=0)
CLASS_NAMES = tuple(PAPERS.index)
YEARS = PAPERS.columns.to_numpy(dtype=np.int64)
COUNTS = PAPERS.to_numpy(dtype=np.int64)  # [N, len(YEARS)]

# Groups of classes: theory; systems; learning and perception; people and information.
FIELDS = (
    "LO CC SC CG IT FL DS GT DM NA MS",
    "DC NI AR OS PF CE ET CR PL SE",
    "AI MA NE CV LG SD RO SY CL",
    "MM CY HC GL GR OH SI IR DB DL",
)
FIELD_NUMBER = {f"cs.{name}": i for i, names in enumerate(FIELDS) for name in names.split()}
FIELD_OF_CLASS = np.array([FIELD_NUMBER[name] for name in CLASS_NAMES])

FEATURES = 128
TOPICS = 110  # a class has more topics, the more papers it has
EMERGING = 0.75  # share of topics, beyond the first of each class, that appear late
EMERGENCE = (2006, 2017)  # first and last year in which a late topic appears
GROWTH = 10  # years that a topic takes to its full popularity
RISE = 4.0  # popularity of a late topic over that of an old one
KINSHIP = 0.15  # how much a late topic has of the features of its class, where an old topic has 1
# In units of the distance of a class from its field, which is that of a topic from its class too:
DRIFT = 0.7  # how far a topic moves in ten years
NOISE = 2.5  # how far a paper lies from the middle of its topic
BORROWED = 0.25  # share of the papers about a topic of another class in the same field
CITATIONS = 7.2  # mean citations of a paper, before repeated ones merge and those to nowhere drop
LAG = 2.5  # mean number of years between a paper and what it cites
# Shares of the citations to a paper's topic, to its class and to its field; others go anywhere.
IN_TOPIC = 0.8
IN_CLASS = 0.095
IN_FIELD = 0.04


class Topics(NamedTuple):
    """Topics ``[T]``: class, first year (0 = from the start) and popularity."""

    label: Array
    birth: Array
    popularity: Array


def years_and_labels(share: float, known_until: int, rng: Rng) -> tuple[Array, Array]:
    """Year and class ``[V]`` of a share of ogbn-arxiv's papers of each year, in random order.

    Two papers of each class are of a year until ``known_until``, so that each class has a source.
    """
    label, year = (
        np.repeat(part, COUNTS.ravel()) for part in np.indices(COUNTS.shape).reshape(2, -1)
    )
    year = YEARS[year]
    order = rng.permutation(len(year))
    year = year[order]
    label = label[order]
    early = (year <= known_until).nonzero()[0]
    surely = np.zeros(len(year), dtype=bool)
    surely[early[_rank(label[early]) < 2]] = True
    ranked = np.lexsort((~surely, year))
    rank = np.empty(len(year), dtype=np.int64)
    rank[ranked] = _rank(year[ranked])
    kept = surely | (rank < np.round(share * np.bincount(year))[year])
    return year[kept], label[kept]


def arxiv_like(years: Array, labels: Array, rng: Rng) -> Data:
    r"""Features and citations for given papers, in time and memory :math:`O(E + V F)`.

    Edges ``[2, E]`` lead from a paper to those that it cites.
    """
    field = FIELD_OF_CLASS[labels]
    time = years + rng.random_sample(len(years))
    topics = _topics(labels, rng)
    home = _own_topic(years, labels, topics, rng)
    subject = _borrow(home, years, labels, field, rng)
    x = _features(subject, years, topics, rng)
    groups = (subject, home), (labels, labels), (field, field), (np.zeros_like(field),) * 2
    arrays = {"x": x, "edge_index": _citations(time, groups, rng)}
    arrays |= {"y": labels.astype(np.int64), "node_year": years.astype(np.int64)}
    return Data(num_nodes=len(years), **{key: torch.from_numpy(a) for key, a in arrays.items()})


def _rank(group: Array) -> Array:
    """How many earlier entries are of the same group, for each entry."""
    return pandas.Series(group).groupby(group).cumcount().to_numpy()


def _topics(labels: Array, rng: Rng) -> Topics:
    num_classes = len(CLASS_NAMES)
    # Topics grow more slowly than their class, so that small ones have some too.
    share = np.bincount(labels, minlength=num_classes) ** 0.75
    beyond_first = TOPICS - num_classes
    ends = np.round(np.cumsum(share / share.sum()) * beyond_first).astype(int)
    more = np.repeat(np.arange(num_classes), np.diff(ends, prepend=0))
    label = np.concatenate([np.arange(num_classes), more])
    # Multiples of the golden ratio fill the unit interval evenly, so that each class has old,
    # young and future topics.
    point = (rng.random_sample() + np.arange(len(label)) * (5**0.5 - 1) / 2) % 1
    years = EMERGENCE[1] - EMERGENCE[0] + 1
    birth = EMERGENCE[0] + (point * years / EMERGING).astype(np.int64)
    birth[(np.arange(len(label)) < num_classes) | (point >= EMERGING)] = 0
    popularity = np.exp(0.3 * rng.standard_normal(len(label))) * np.where(birth, RISE, 1)
    return Topics(label, birth, popularity)


def _own_topic(years: Array, labels: Array, topics: Topics, rng: Rng) -> Array:
    """A topic of its class for each paper, by popularity, which a topic gains from its birth."""
    first = years.min()
    point = rng.random_sample(len(years))
    age = np.arange(first, years.max() + 1)[:, None] - topics.birth + 1.0
    weight = topics.popularity * np.clip(age / GROWTH, 0, 1)
    topic = np.empty(len(years), dtype=np.int64)
    for c in np.unique(labels):
        of_class = (topics.label == c).nonzero()[0]
        papers = (labels == c).nonzero()[0]
        line = weight[:, of_class].cumsum(1)
        row = line[years[papers] - first]
        topic[papers] = of_class[(point[papers, None] * row[:, -1:] >= row).sum(1)]
    return topic


def _borrow(home: Array, years: Array, labels: Array, field: Array, rng: Rng) -> Array:
    """What each paper is about: its topic, or one of another class of its field and year."""
    subject = home.copy()
    group = field * 10_000 + years
    line = np.argsort(group, kind="stable")
    open_papers = (rng.random_sample(len(home)) < BORROWED).nonzero()[0]
    for _ in range(8):  # a paper that meets its own class so often stays with its own topic
        low = np.searchsorted(group[line], group[open_papers], "left")
        high = np.searchsorted(group[line], group[open_papers], "right")
        step = rng.random_sample(len(open_papers)) * (high - low)
        other = line[low + step.astype(np.int64)]
        differs = labels[other] != labels[open_papers]
        subject[open_papers[differs]] = home[other[differs]]
        open_papers = open_papers[~differs]
    return subject


def _features(subject: Array, years: Array, topics: Topics, rng: Rng) -> Array:
    def directions(count: int) -> Array:
        vectors = rng.standard_normal((count, FEATURES)) / FEATURES**0.5
        return vectors.astype(np.float32)

    count = len(topics.label)
    of_field = directions(len(FIELDS))
    of_class = directions(len(CLASS_NAMES))
    of_topic = directions(count)
    way = directions(count)
    kin = np.where(topics.birth, KINSHIP, 1).astype(np.float32)[:, None]
    middle = of_field[FIELD_OF_CLASS[topics.label]] + kin * of_class[topics.label] + of_topic
    x = np.empty((len(subject), FEATURES), dtype=np.float32)
    for start in range(0, len(x), 8192):  # blocks, since the generator makes 64-bit numbers
        block = slice(start, start + 8192)
        moved = DRIFT * (years[block] - 2010) / 10
        noise = NOISE * directions(len(x[block]))
        x[block] = middle[subject[block]] + moved[:, None] * way[subject[block]] + noise
    return x


def _citations(time: Array, groups: tuple[tuple[Array, Array], ...], rng: Rng) -> Array:
    """Pairs ``[2, E]`` of a paper and one that it cites, which is of a group by kind of citation.

    A kind has two arrays of groups, ``[V]`` each: citations go to papers whose group in the first
    is that of the citing paper in the first or, by even chance, in the second.
    """
    count = rng.poisson(CITATIONS * rng.gamma(2.0, 0.5, len(time)))
    paper = np.repeat(np.arange(len(time)), count)
    fame = np.minimum((1 - rng.random_sample(len(time))) ** (-1 / 1.5), len(time) ** 0.5)
    shares = np.cumsum((IN_TOPIC, IN_CLASS, IN_FIELD))
    kind = np.searchsorted(shares, rng.random_sample(len(paper)), "right")
    first_half = rng.random_sample(len(paper)) < 0.5
    since = np.floor(time[paper]) - (rng.geometric(1 / (1 + LAG), len(paper)) - 1)
    point = rng.random_sample(len(paper))
    cited = np.full(len(paper), -1, dtype=np.int64)
    for number, (group, other) in enumerate(groups):
        of_kind = (kind == number).nonzero()[0]
        citing = paper[of_kind]
        wanted = np.where(first_half[of_kind], group[citing], other[citing])
        cited[of_kind] = _earlier(
            group, time, fame, wanted, since[of_kind], time[citing], point[of_kind]
        )
    found = cited >= 0
    pairs = np.unique(paper[found] * len(time) + cited[found])
    return np.stack([pairs // len(time), pairs % len(time)])


def _earlier(
    group: Array, time: Array, fame: Array, wanted: Array, since: Array, until: Array, point: Array
) -> Array:
    """A paper of a wanted group before ``until``, by fame; -1 where there is none.

    It is one of the year that begins with ``since``, or of any time if that year has none.
    """
    span = 10_000.0
    origin = time.min() - 1
    line = np.lexsort((time, group))
    mass = np.concatenate([[0.0], fame[line].cumsum()])
    position = group[line] * span + (time[line] - origin)

    def index(moment: Array) -> Array:
        return np.searchsorted(position, wanted * span + np.maximum(moment - origin, 0))

    low = index(since)
    high = index(np.minimum(since + 1, until))
    always = index(np.full_like(since, origin)), index(until)
    low, high = np.where(low < high, (low, high), always)
    drawn = np.searchsorted(mass, mass[low] + point * (mass[high] - mass[low]), "right") - 1
    drawn = np.clip(drawn, low, np.maximum(high - 1, low)).clip(max=len(line) - 1)
    return np.where(low < high, line[drawn], -1)
