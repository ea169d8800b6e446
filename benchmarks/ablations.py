"""What is each part of SRNC+ worth? The parts taken away one at a time, over five kinds of shift.

    python benchmarks/ablations.py --seeds 2 --page docs/research/srnc-plus.md
    python benchmarks/ablations.py --only 'gone,stays' --graphs .7,Photo --parts 'one turn'
    python benchmarks/ablations.py --only few --graphs Cora --seeds 35 --out cora.md
    python benchmarks/ablations.py --seeds 2 --out docs/results/data/ablations-development.csv

The kinds of shift:

- own: one graph, a tenth of the nodes of known classes labelled, no unknown node known;
- few: one graph, 20 labels a class, unknown nodes among the 300 or 500 that validate;
- gone: two graphs, the source without the nodes of the unknown classes;
- stays: two graphs, nodes of the unknown classes in the source without a label, some held out;
- close: two graphs, or with Photo and CS the localized labels of one; no unknown class.

A number is the homophily of block models with 3,000 nodes and seven classes, made in memory. Photo
and CS, from the folder that GRAPHGYM_SRNC_DATA names, are whole or, for two graphs, in random
halves. These are the graphs that the settings of SRNC+ were made on: the table tells what a part
does, not how good the method is. Cora, CiteSeer and PubMed can be named too; `few` has the splits
of benchmarks/open_set.py there, of which 35 seeds of Cora and 20 of CiteSeer mask every three
classes once. A line of `--results` is a finished run, which is not made again.
"""

from __future__ import annotations

import argparse
import re
import time
from collections.abc import Callable, Iterable, Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import _pages
import torch
from _harness import finished, main, markdown, publish, tests
from torch import Tensor
from torch_geometric.data import Data

from graphgym_srnc.backbones import EncoderSpec
from graphgym_srnc.core.task import ShiftTask
from graphgym_srnc.data import datasets, home
from graphgym_srnc.methods import srnc_plus
from graphgym_srnc.methods.shared.training import minimise
from graphgym_srnc.methods.srnc_plus import SRNCPlus
from graphgym_srnc.report.statistics import mean
from graphgym_srnc.shifts import localized, open_set, splits, synthetic
from graphgym_srnc.train import trainer
from graphgym_srnc.train.metrics import scores_of

REAL, BLOCK_MODEL = {"Photo": 3, "CS": 5, "Cora": 3, "CiteSeer": 3, "PubMed": 1}, 3
"""How many of a graph's classes are masked where there is one graph."""

DEVELOPED = (".5", ".7", ".9", "Photo", "CS")
"""Graphs that settings were made on."""

UNSEEN = (1, 3)
"""How many are masked where there are two graphs, by turns of the seed; PubMed has but three."""

WHOLE = "SRNC+"
BLOCKS = {"num_nodes": 3000, "num_classes": 7}
LABELLED, HELD_OUT, UNLABELLED = 0.1, 0.2, 0.4
"""Shares: of the nodes of known classes that have a label in `own`, of labelled nodes that are held
out, and of a source's nodes that have no label in `stays`."""


class NoDivision(SRNCPlus):
    """First decisions ask the posterior as it is."""

    def start(self, task: ShiftTask) -> dict[str, float]:
        figures = super().start(task)
        self.frequency.fill_(1)
        return figures


class Single(SRNCPlus):
    """Nodes have their own posterior."""

    def choose_sharing(self) -> None:
        pass


class SingleOdds(SRNCPlus):
    """Nodes have their own log-odds."""

    def propagated(self, score: Tensor, graph: Data) -> Tensor:
        return score


class TargetAlone(SRNCPlus):
    """Unknown classes are looked for on the target alone."""

    source_tells = False


class Part(NamedTuple):
    """SRNC+ without something.

    Args:
        kinds: of shift in which it has that.
        options: other values of its options.
        constants: other values of constants of its module.
        method: another class.
        episodes: at most so many turns; -1 = all.
    """

    kinds: str
    options: dict[str, Any] = {}
    constants: dict[str, Any] = {}
    method: type[SRNCPlus] = SRNCPlus
    episodes: int = -1


ALL, OPEN = "own few gone stays close", "own few gone stays"
PARTS = {
    "no modularity": Part(ALL, {"modularity_weight": 0.0}),
    "the classifier alone": Part(ALL, episodes=0),
    "one turn": Part(ALL, {"rounds": 1}),
    "all decisions are learned": Part(ALL, {"doubt": 0.0}, {"LEARNED": 1.0, "SHARES": (1.0,)}),
    "no correction": Part("own gone stays close", {"correction": "none"}),
    "no sharing of the posterior": Part("own few close", {"smoothing": 0}, {}, Single),
    "one spare cluster": Part(OPEN, {"spare": 1}),
    "Newman's resolution": Part(OPEN, {"resolution": 1.0}),
    "the source not solved first": Part("stays", {}, {}, TargetAlone),
    "log-odds not shared": Part(OPEN, {}, {}, SingleOdds),
    "log-odds not divided": Part("own gone stays", {}, {}, NoDivision),
    "missing labels not counted": Part("own few", {"missing": 0.0}),
    "one share learned": Part("few", {}, {"SHARES": (0.7,)}),
    "cluster GNN and classifier weigh the same": Part("own few", {}, {"WEIGHTS": (0.5,)}),
    "five of a hundred known called unknown": Part("own", {"sure": 0.95}),
    "communities learn a hundred steps": Part(
        "own few", {}, {"find": lambda cluster: cluster.pretrain(100)}
    ),
    "all steps of the classifier": Part(
        "own few", {}, {"minimise": lambda *args, **until: minimise(*args)}
    ),
}
"""What is taken away, in print."""


def num_masked(name: str) -> int:
    """How many classes are masked on a graph."""
    return REAL.get(name, BLOCK_MODEL)


def one_graph(name: str) -> Callable[..., ShiftTask]:
    """The open-set shift on a graph, from the keys that block models and data sets share."""
    if name in REAL:
        return lambda **keys: open_set.build(name=name, root=str(home.data_folder()), **keys)
    return lambda **keys: synthetic.build(**BLOCKS, homophily=float(name), **keys)


def own(name: str, seed: int) -> ShiftTask:
    """A tenth of the known nodes labelled, a fifth of those held out, all others scored."""
    task = one_graph(name)(num_unseen=num_masked(name), split_seed=seed)
    order = splits.shuffled(task.source.num_nodes, seed, "labelled")
    label, train, val = task.source.y[order], [], []
    for k in range(task.num_known):
        members = order[label == k]
        labelled = members[: max(5, round(LABELLED * len(members)))]
        held_out = max(1, round(HELD_OUT * len(labelled)))
        val.append(labelled[:held_out])
        train.append(labelled[held_out:])
    train, val = torch.cat(train), torch.cat(val)
    test = splits.others(len(order), torch.cat([train, val]))
    test = test[task.source.y[test] >= 0]  # some of CiteSeer's nodes have no class in the data
    return ShiftTask(
        "own",
        task.source,
        task.source,
        train,
        val,
        test,
        splits.others(len(order), train),
        task.num_known,
        True,
    )


def few(name: str, seed: int) -> ShiftTask:
    return one_graph(name)(num_unseen=num_masked(name), split_seed=seed)


def pair(name: str, seed: int) -> tuple[Data, Data]:
    """Two graphs of the same classes: block models of which one drifted, or halves of a graph."""
    if name not in REAL:
        task = synthetic.build(**BLOCKS, homophily=float(name), mode="close_set", split_seed=seed)
        return task.source, task.target
    graph = datasets.load(name, str(home.data_folder()))
    graph.y_true = graph.y
    first, named = torch.zeros(graph.num_nodes, dtype=torch.bool), graph.y >= 0
    first[splits.shuffled(graph.num_nodes, seed, "halves")[::2]] = True
    return splits.induced(graph, first & named), splits.induced(graph, ~first & named)


def unseen(name: str, seed: int) -> int:
    """How many classes are masked where there are two graphs."""
    return min(UNSEEN[seed % 2], num_masked(name))


def between(name: str, seed: int, num_unseen: int, unlabelled: float = 0.0) -> ShiftTask:
    """Two graphs; nodes of unknown classes leave the source, but for those that are held out or
    without a label where some are."""
    source, target = pair(name, seed)
    masked = splits.choose_unseen(splits.classes_of(source.y), num_unseen, [], seed)
    known = [c for c in splits.classes_of(source.y) if c not in masked]
    for graph in (source, target):
        graph.y = splits.renumbered(graph.y, known)
    order = splits.shuffled(source.num_nodes, seed, "labelled")
    held_out, free = (round(share * len(order)) for share in (HELD_OUT, unlabelled))
    role = torch.full((len(order),), 2).index_fill(0, order[:held_out], 0)
    role[order[held_out : held_out + free]] = 1
    keep = source.y < len(known)
    if unlabelled:
        keep |= role < 2
    source, role = splits.induced(source, keep), role[keep]
    every = torch.arange(target.num_nodes)
    return ShiftTask(
        "between",
        source,
        target,
        (role == 2).nonzero().ravel(),
        (role == 0).nonzero().ravel(),
        every,
        every,
        len(known),
        num_unseen > 0,
        val_graph=source,
    )


def close(name: str, seed: int) -> ShiftTask:
    if name in REAL:
        return localized.build(name=name, root=str(home.data_folder()), split_seed=seed)
    return between(name, seed, 0)


KINDS: dict[str, tuple[Callable[[str, int], ShiftTask], str]] = {
    "own": (own, "micro_f1"),
    "few": (few, "micro_f1"),
    "gone": (lambda name, seed: between(name, seed, unseen(name, seed)), "hs"),
    "stays": (lambda name, seed: between(name, seed, unseen(name, seed), UNLABELLED), "micro_f1"),
    "close": (close, "micro_f1"),
}
"""Kinds of shift: how one is made, and the score that counts."""


def run(kind: str, name: str, seed: int, part: str) -> dict[str, Any]:
    """One finished run."""
    make, metric = KINDS[kind]
    task, without = make(name, seed), PARTS.get(part, Part(ALL))
    begin = time.process_time()
    with mock.patch.dict(vars(srnc_plus), without.constants):
        method = without.method(encoder=EncoderSpec(hidden=64, features="auto"), **without.options)
        trainer.fit(method, task, seed=seed, selection="last", max_episodes=without.episodes)
    scores = method.predict(task.target)[task.test]
    found = scores_of(method, task, scores, task.target.y[task.test])
    return {
        "kind": kind,
        "graph": name,
        "seed": seed,
        "part": part,
        "score": found[metric],
        "auroc": found.get("unknown_auroc"),
        "seconds": time.process_time() - begin,
    }


def table(results: list[dict[str, Any]]) -> str:
    """Differences from the whole method on the same splits, in each kind's score and in the AUROC
    of the unknown class."""
    whole, gaps = whole_and_gaps(results, "score")
    _, of_auroc = whole_and_gaps(results, "auroc")
    kinds = [kind for kind in KINDS if any(cell[0] == kind for cell in whole)]
    columns = [*kinds, "all"] if len(kinds) > 1 else kinds
    p, p_auroc = (
        tests({part: [*cells.values()] for part, cells in found.items()})
        for found in (gaps, of_auroc)
    )
    lines = []
    for part, cells in sorted(gaps.items(), key=lambda item: mean(item[1].values())):
        line = [
            part,
            *(
                shown(gap for cell, gap in cells.items() if column in ("all", cell[0]))
                for column in columns
            ),
            *p[part],
        ]
        auroc = [shown(of_auroc[part].values()), *p_auroc[part]] if part in of_auroc else [""] * 3
        lines.append([*line, *auroc])
    first = [
        f"{WHOLE} itself",
        *(
            f"{mean(score for cell, score in whole.items() if cell[0] == kind):.1f}"
            for kind in kinds
        ),
    ]
    named = {kind: f"{kind}, HS" for kind, (_, metric) in KINDS.items() if metric == "hs"}
    head = [
        "without",
        *(named.get(column, column) for column in columns),
        "p Wilcoxon",
        "Holm",
        "AUROC",
        "p Wilcoxon",
        "Holm",
    ]
    return markdown(head, [first + [""] * (len(head) - len(first)), *lines])


def whole_and_gaps(
    results: list[dict[str, Any]],
    score: str,
) -> tuple[dict[tuple, float], dict[str, dict[tuple, float]]]:
    """By kind, graph and seed a score of the whole method, and by part what is added without it."""
    scores: dict[str, dict[tuple, float]] = {part: {} for part in (WHOLE, *PARTS)}
    for r in results:
        if r.get(score) is not None:
            scores[r["part"]][r["kind"], r["graph"], r["seed"]] = 100 * r[score]
    whole = scores.pop(WHOLE)
    gaps = {
        part: {cell: found[cell] - whole[cell] for cell in whole if cell in found}
        for part, found in scores.items()
    }
    return whole, {part: cells for part, cells in gaps.items() if cells}


def shown(gaps: Iterable[float]) -> str:
    """Their mean, and how many of them are better."""
    every = [*gaps]
    better = sum(gap > 0 for gap in every)
    return f"{mean(every):+.1f} ({better}/{len(every)})" if every else ""


def wanted(args: argparse.Namespace) -> Iterator[tuple[str, str, int, str]]:
    """The runs, the whole method first."""
    for seed in range(args.seeds):
        for name in args.graphs.split(","):
            for part in (WHOLE, *PARTS):
                for kind in args.only.split(","):
                    chosen = part == WHOLE or any(
                        fnmatch(part, each) for each in args.parts.split(",")
                    )
                    if chosen and kind in PARTS.get(part, Part(ALL)).kinds.split():
                        yield kind, name, seed, part


def begin() -> int:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = options.add_argument
    add("--seeds", type=int, default=1, metavar="S")
    add("--only", default=",".join(KINDS), metavar="KIND,...")
    add("--graphs", default=",".join(DEVELOPED), metavar="GRAPH,...")
    add("--parts", default="*", metavar="PART,...", help="patterns")
    add("--results", type=Path, default=Path("results/ablations.jsonl"))
    add("--out", type=Path)
    add("--page", type=Path, metavar="FILE", help="write the table between its marks")
    args = options.parse_args()
    for kind in args.only.split(","):
        if kind not in KINDS:
            options.error(f"--only: got {kind}; allowed: {', '.join(KINDS)}")
    for name in args.graphs.split(","):
        if name not in REAL and not re.fullmatch(r"0?\.\d+", name):
            options.error(f"--graphs: got {name}; allowed: {', '.join(REAL)}, or a homophily: .7")
    if args.page:
        _pages.check(args.page, "ablations.py")
    torch.set_num_threads(1)
    results = finished(args.results, ("kind", "graph", "seed", "part"), wanted(args), run)
    text = table(results)
    publish(text, args.out)
    if args.page:
        _pages.write(args.page, "ablations.py", f"\n{text}")
    return 0


if __name__ == "__main__":
    main(begin)
