"""A growing citation graph in memory, on the years and classes of ogbn-arxiv; its features and citations are invented."""
from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch_geometric.data import Data

from graphgym_srnc.data import arxiv_histogram

FIELDS = (
    ("cs.LO", "cs.CC", "cs.SC", "cs.CG", "cs.IT", "cs.FL", "cs.DS", "cs.GT", "cs.DM", "cs.NA", "cs.MS"),
    ("cs.DC", "cs.NI", "cs.AR", "cs.OS", "cs.PF", "cs.CE", "cs.ET", "cs.CR", "cs.PL", "cs.SE"),
    ("cs.AI", "cs.MA", "cs.NE", "cs.CV", "cs.LG", "cs.SD", "cs.RO", "cs.SY", "cs.CL"),
    ("cs.MM", "cs.CY", "cs.HC", "cs.GL", "cs.GR", "cs.OH", "cs.SI", "cs.IR", "cs.DB", "cs.DL"),
)
"""Fields as groups of classes: theory; systems; learning and perception; people and information."""

EMERGENCE = (2006, 2017)
"""First and last year in which topics of the future appear."""

GROWTH = 10
"""Years that a topic takes to become as popular as it will be."""


@dataclass(frozen=True)
class Topics:
    """Topics ``[T]``: class, first year (0 = from the start) and popularity."""

    label: np.ndarray
    birth: np.ndarray
    popularity: np.ndarray


def years_and_labels(share: float, known_until: int, rng: np.random.RandomState) -> tuple[np.ndarray, np.ndarray]:
    """Year and class ``[V]`` of a share of the papers of ogbn-arxiv, drawn within each year, in random order.

    Two papers of each class that appeared until ``known_until`` are always among them, so that each class has a source.

    Args:
        share: share of the papers of each year, in (0, 1]; 1 = all, exactly the public histogram.
        known_until: last year of the source.
        rng: draws them.
    """
    year, label = arxiv_histogram.years_and_labels()
    order = rng.permutation(len(year))
    year, label = year[order], label[order]
    early = (year <= known_until).nonzero()[0]
    surely = np.zeros(len(year), dtype=bool)
    surely[early[_rank(label[early]) < 2]] = True
    ranked = np.lexsort((~surely, year))
    rank = np.empty(len(year), dtype=np.int64)
    rank[ranked] = _rank(year[ranked])
    kept = surely | (rank < np.round(share * np.bincount(year))[year])
    return year[kept], label[kept]


def arxiv_like(years: np.ndarray, labels: np.ndarray, *, rng: np.random.RandomState, num_features: int = 128, num_topics: int = 110,
               emerging: float = 0.75, borrowed: float = 0.25, citations: float = 7.2, lag: float = 2.5, in_topic: float = 0.8,
               in_class: float = 0.095, in_field: float = 0.04, rise: float = 4.0, kinship: float = 0.15, topic_distance: float = 1.0,
               drift: float = 0.7, noise: float = 2.5) -> Data:
    r"""Features and citations for papers whose years and classes are given, in time and memory :math:`O(E + V F)`.

    A class is a set of topics, and a paper is about one that exists in its year. ``emerging`` of the topics beyond the first of each
    class appear in :data:`EMERGENCE` and grow for some years: the further a period lies ahead, the more of its papers are
    about what no labelled paper is about. Besides, what a topic's papers look like drifts with the year. ``borrowed`` of the papers are
    about a topic of another class in the same field; they look like that topic, and half of their citations go there.

    A paper cites earlier papers only, more of recent years (a geometric lag), and famous ones more often.

    Args:
        years: year of each paper, ``[V]``.
        labels: class of each paper, ``[V]``, in the order of ogbn-arxiv.
        rng: draws everything.
        num_features: :math:`F`.
        num_topics: topics of all classes together; a class has more, the more papers it has.
        emerging: share of the topics beyond the first of each class that appear late; the others are there from the start.
        borrowed: share of the papers about a topic of another class in the same field.
        citations: mean number of citations a paper makes, before repeated ones merge and those to nowhere drop.
        lag: mean number of years between a paper and what it cites.
        in_topic, in_class, in_field: shares of the citations to the paper's topic, to any paper of its class, and to any of its
            field; the others go anywhere.
        rise: popularity of a topic that appears late, over that of one from the start.
        kinship: how much a topic that appears late has of its class's features, where one from the start has 1.
        topic_distance: how far topics lie from the middle of their class, in units of the class's distance from its field.
        drift: how far a topic moves in ten years, in the same unit.
        noise: how far a paper lies from the middle of its topic, in the same unit.

    Returns:
        ``x`` ``[V, F]``, ``edge_index`` ``[2, E]`` from a paper to those that it cites, ``y`` ``[V]``, ``node_year`` ``[V]``, and
        ``topic`` ``[V]`` of which a paper is about.
    """
    field = _field_of_class()[labels]
    time = years + rng.random_sample(len(years))
    topics = _topics(labels, num_topics, emerging, rise, rng)
    home = _own_topic(years, labels, topics, rng)
    subject = _borrow(home, years, labels, field, borrowed, rng)
    x = _features(subject, years, topics, num_features, kinship, topic_distance, drift, noise, rng)
    edges = _citations(time, home, subject, labels, field, citations, lag, (in_topic, in_class, in_field), rng)
    return Data(x=x, edge_index=torch.from_numpy(edges), y=torch.from_numpy(labels.astype(np.int64)),
                node_year=torch.from_numpy(years.astype(np.int64)), topic=torch.from_numpy(subject), num_nodes=len(years))


def _rank(group: np.ndarray) -> np.ndarray:
    """How many earlier entries are of the same group, for each entry."""
    order = np.argsort(group, kind="stable")
    rank = np.empty(len(group), dtype=np.int64)
    rank[order] = np.arange(len(group)) - np.searchsorted(group[order], group[order])
    return rank


def _field_of_class() -> np.ndarray:
    number = {name: i for i, names in enumerate(FIELDS) for name in names}
    return np.array([number[name] for name in arxiv_histogram.CLASS_NAMES])


def _topics(labels: np.ndarray, num_topics: int, emerging: float, rise: float, rng: np.random.RandomState) -> Topics:
    num_classes = len(arxiv_histogram.CLASS_NAMES)
    # Topics grow more slowly than their class, so that small ones have some too.
    share = np.bincount(labels, minlength=num_classes) ** 0.75
    ends = np.round(np.cumsum(share / share.sum()) * max(num_topics - num_classes, 0)).astype(int)
    label = np.concatenate([np.arange(num_classes), np.repeat(np.arange(num_classes), np.diff(ends, prepend=0))])
    # Multiples of the golden ratio fill the unit interval evenly, so that each class has old, young and future topics.
    point = (rng.random_sample() + np.arange(len(label)) * (5 ** 0.5 - 1) / 2) % 1
    birth = EMERGENCE[0] + (point * (EMERGENCE[1] - EMERGENCE[0] + 1) / max(emerging, 1e-9)).astype(np.int64)
    birth[(np.arange(len(label)) < num_classes) | (point >= emerging)] = 0
    return Topics(label, birth, np.exp(0.3 * rng.standard_normal(len(label))) * np.where(birth, rise, 1))


def _own_topic(years: np.ndarray, labels: np.ndarray, topics: Topics, rng: np.random.RandomState) -> np.ndarray:
    """A topic of its class for each paper, by popularity, which a topic gains over the years from its birth."""
    first, point = years.min(), rng.random_sample(len(years))
    age = np.arange(first, years.max() + 1)[:, None] - topics.birth + 1.0
    weight = topics.popularity * np.clip(age / GROWTH, 0, 1)
    topic = np.empty(len(years), dtype=np.int64)
    for c in np.unique(labels):
        mine, papers = (topics.label == c).nonzero()[0], (labels == c).nonzero()[0]
        line = weight[:, mine].cumsum(1)
        row = line[years[papers] - first]
        topic[papers] = mine[(point[papers, None] * row[:, -1:] >= row).sum(1)]
    return topic


def _borrow(home: np.ndarray, years: np.ndarray, labels: np.ndarray, field: np.ndarray, borrowed: float,
            rng: np.random.RandomState) -> np.ndarray:
    """What each paper is about: its own topic, or that of a paper of another class out of the same field and year."""
    subject, group = home.copy(), field * 10_000 + years
    line, open_papers = np.argsort(group, kind="stable"), (rng.random_sample(len(home)) < borrowed).nonzero()[0]
    for _ in range(8):  # a paper that meets its own class so often stays with its own topic
        low, high = (np.searchsorted(group[line], group[open_papers], side) for side in ("left", "right"))
        other = line[low + (rng.random_sample(len(open_papers)) * (high - low)).astype(np.int64)]
        differs = labels[other] != labels[open_papers]
        subject[open_papers[differs]] = home[other[differs]]
        open_papers = open_papers[~differs]
    return subject


def _features(subject: np.ndarray, years: np.ndarray, topics: Topics, num_features: int, kinship: float, topic_distance: float,
              drift: float, noise: float, rng: np.random.RandomState) -> torch.Tensor:
    def directions(count: int) -> np.ndarray:
        return (rng.standard_normal((count, num_features)) / num_features ** 0.5).astype(np.float32)

    field = _field_of_class()
    of_field, of_class, own, way = (directions(count) for count in (len(FIELDS), len(field), len(topics.label), len(topics.label)))
    kin = np.where(topics.birth, kinship, 1).astype(np.float32)[:, None]
    middle = of_field[field[topics.label]] + kin * of_class[topics.label] + topic_distance * own
    x = np.empty((len(subject), num_features), dtype=np.float32)
    for start in range(0, len(x), 8192):  # blocks, since the generator makes 64-bit numbers
        part = slice(start, start + 8192)
        moved = drift * (years[part] - 2010) / 10
        x[part] = middle[subject[part]] + moved[:, None] * way[subject[part]] + noise * directions(len(x[part]))
    return torch.from_numpy(x)


def _citations(time: np.ndarray, home: np.ndarray, subject: np.ndarray, labels: np.ndarray, field: np.ndarray, citations: float,
               lag: float, shares: tuple[float, float, float], rng: np.random.RandomState) -> np.ndarray:
    count = rng.poisson(citations * rng.gamma(2.0, 0.5, len(time)))
    paper = np.repeat(np.arange(len(time)), count)
    fame = np.minimum((1 - rng.random_sample(len(time))) ** (-1 / 1.5), len(time) ** 0.5)
    kind = np.searchsorted(np.cumsum(shares), rng.random_sample(len(paper)), "right")
    wanted = np.where(rng.random_sample(len(paper)) < 0.5, subject[paper], home[paper])
    since = np.floor(time[paper]) - (rng.geometric(1 / (1 + lag), len(paper)) - 1)
    point = rng.random_sample(len(paper))
    cited = np.full(len(paper), -1, dtype=np.int64)
    for number, (group, wish) in enumerate(((subject, wanted), (labels, labels[paper]), (field, field[paper]),
                                            (np.zeros_like(field), np.zeros_like(paper)))):
        these = (kind == number).nonzero()[0]
        cited[these] = _earlier(group, time, fame, wish[these], since[these], time[paper[these]], point[these])
    found = cited >= 0
    pairs = np.unique(paper[found] * len(time) + cited[found])
    return np.stack([pairs // len(time), pairs % len(time)])


def _earlier(group: np.ndarray, time: np.ndarray, fame: np.ndarray, wish: np.ndarray, since: np.ndarray, until: np.ndarray,
             point: np.ndarray) -> np.ndarray:
    """A paper of the wished group, in the year that begins with ``since`` and before ``until``, by fame; if there is none in that
    year, one of any time before ``until``; -1 if there is none at all."""
    span, origin = 10_000.0, time.min() - 1
    line = np.lexsort((time, group))
    mass, place = np.concatenate([[0.0], fame[line].cumsum()]), group[line] * span + (time[line] - origin)

    def index(moment: np.ndarray) -> np.ndarray:
        return np.searchsorted(place, wish * span + np.maximum(moment - origin, 0))

    low, high = index(since), index(np.minimum(since + 1, until))
    low, high = np.where(low < high, (low, high), (index(np.full_like(since, origin)), index(until)))
    chosen = np.searchsorted(mass, mass[low] + point * (mass[high] - mass[low]), "right") - 1
    return np.where(low < high, line[np.clip(chosen, low, np.maximum(high - 1, low)).clip(max=len(line) - 1)], -1)
