"""Each rival under its authors' protocol, beside the number that is published for it.

    python benchmarks/reproduction.py report --only 'a2gnn:*'            # run what is missing
    python benchmarks/reproduction.py table --csv docs/results/data/reproduction.csv \\
        --out docs/reproduction.md                                       # what there is

A claim is reproduced where the mean of our runs is at most one point away from the published one.
Settings are the authors' or pygda's, never chosen on our test scores. Every command resumes.
GRAPHGYM_SRNC_DATA names the data folder.
"""

from __future__ import annotations

import argparse
import csv
import io
import re
from collections import Counter
from pathlib import Path
from textwrap import fill
from typing import Any, NamedTuple, Sequence

from _harness import Cell, Results, chosen, main, markdown, provenance, serve, table_parser

from graphgym_srnc.io import atomic
from graphgym_srnc.report.statistics import mean, mean_std

INTRODUCTION = """\
# Reproduction

This page compares each rival, as implemented in this package, with its published number.
Each one runs under the protocol of its authors.

- *Reproduced* means that our mean is at most 1 point away from the published mean.
- *Above* means that it is more than 1 point higher.
- *Runs* is the number of splits or training seeds of each part.
- ± is the mean standard deviation over them.
- a, c and d are the citation networks ACMv9, Citationv1 and DBLPv7.
- HS is the harmonic mean of known-class accuracy and recall of the unknown class.

Two sources choose by target labels: ADAlign's program reports its best epoch on the target, and
DiffGDA's search maximises target scores.
A protocol without target labels need not reach such numbers.

`python benchmarks/reproduction.py report` runs what is missing.
`python benchmarks/reproduction.py table --out docs/reproduction.md` writes this page.
"""

POINT = 1.0
"""How far from the published number a reproduction may be."""

DIRECTIONS = {
    pair: {"cross_graph.source": names[pair[0]], "cross_graph.target": names[pair[1]]}
    for names in ({"a": "acmv9", "c": "citationv1", "d": "dblpv7"},)
    for pair in ("ac", "ad", "ca", "cd", "da", "dc")
}
EVERY_LABEL = {"cross_graph.val_share": 0.0, "cross_graph.num_val": 1, "train.selection": "last"}
"""All source labels train and the last episode counts; a single target node is not scored."""

DIFFGDA = "DiffGDA (ICLR 2026), its table of rivals"
GNNSAFE = "GNNSafe's repository, backbone.csv, one run"
SRGNN = "SR-GNN's repository, README; other draws of the same sampler"


class Claim(NamedTuple):
    """A published number.

    Args:
        rival: the method, as it is printed.
        protocol: what is measured, on what.
        metric: our name of the score.
        cfg: the config.
        blocks: by name, what each part of the protocol changes in it.
        published: the scores of the blocks, or their mean alone, in %.
        source: where it is published.
        changes: what all blocks change in the config.
        seeds: how many.
        why: what explains a miss, as far as it was measured.
    """

    rival: str
    protocol: str
    metric: str
    cfg: str
    blocks: dict[str, dict[str, Any]]
    published: tuple[float, ...]
    source: str
    changes: dict[str, Any] = {}
    seeds: int = 5
    why: str = ""


def citation(
    rival: str, name: str, *scores: float, source: str = DIFFGDA, seeds: int = 5, why: str = ""
) -> Claim:
    """Micro-F1 between the citation networks with all source labels."""
    return Claim(
        rival,
        "citation networks, six directions, all source labels",
        "micro_f1",
        f"paper/close_set/citation/{name}",
        DIRECTIONS,
        scores,
        source,
        EVERY_LABEL,
        seeds,
        why,
    )


def leave_out(rival: str, published: float, **changes: Any) -> Claim:
    """AUROC of the unknown in GNNSafe's label leave-out on Cora."""
    return Claim(
        rival,
        "Cora, label leave-out, AUROC",
        "unknown_auroc",
        "reproduction/gnnsafe-cora",
        {"cora": {}},
        (published,),
        GNNSAFE,
        {key.replace("__", "."): value for key, value in changes.items()},
    )


def localized(rival: str, name: str, *scores: float, why: str = "") -> Claim:
    """Micro-F1 where the training nodes of a class lie around one of its nodes."""
    graphs = {
        graph: {
            "dataset.format": "localized",
            "dataset.name": graph,
            "train.selection": "target_val",
        }
        for graph in ("Cora", "CiteSeer", "PubMed")
    }
    return Claim(
        rival,
        "biased seeds (PPR-S), 20 nodes a class",
        "micro_f1",
        f"paper/close_set/citation/{name}",
        graphs,
        scores,
        SRGNN,
        seeds=10,
        why=why,
    )


def public(layer: str, scores: tuple[float, ...], source: str, **changes: Any) -> Claim:
    """Micro-F1 of a backbone on Planetoid's public splits, where there is no shift."""
    graphs = {graph: {"dataset.name": graph} for graph in ("Cora", "CiteSeer", "PubMed")}
    fixed = {
        "open_set.num_unseen": 0,
        "open_set.labelled": "public",
        "dataset.normalize": "row",
        "gnn.layer_type": layer,
        "erm.steps": 20,
        "erm.rounds": 9,
    }
    return Claim(
        source.partition(",")[0],
        "public splits, no shift",
        "micro_f1",
        "paper/open_set/cora-erm",
        graphs,
        scores,
        source,
        fixed | {key.replace("__", "."): value for key, value in changes.items()},
    )


CLAIMS: dict[str, Claim] = {
    "public-gcn": public(
        "gcnconv", (81.5, 70.3, 79.0), "GCN, Kipf and Welling (ICLR 2017)", gnn__dim_inner=16
    ),
    "public-gat": public(
        "gatdrop",
        (83.0, 72.5, 79.0),
        "GAT, Veličković et al. (ICLR 2018)",
        gnn__dim_inner=64,
        gnn__dropout=0.6,
        gnn__act="elu",
        optim__base_lr=0.005,
        erm__rounds=19,
    )._replace(
        blocks={
            "Cora": {"dataset.name": "Cora"},
            "CiteSeer": {"dataset.name": "CiteSeer"},
            "PubMed": {"dataset.name": "PubMed", "optim.base_lr": 0.01, "optim.weight_decay": 1e-3},
        },
        why="400 steps; the episode with the best validation accuracy counts. Our output layer has"
        " two heads; the authors' has one, and eight on PubMed. With dropout on hidden states"
        " only, the mean was 1.8 points below.",
    ),
    "public-sgc": public(
        "sgconv",
        (81.0, 71.9, 78.9),
        "SGC, Wu et al. (ICML 2019)",
        optim__base_lr=0.2,
        optim__weight_decay=5e-5,
    ),
    "public-dgi": public(
        "dgi",
        (82.3, 71.8, 76.8),
        "DGI, Veličković et al. (ICLR 2019)",
        gnn__dim_inner=512,
        gnn__layers_mp=1,
        optim__weight_decay=0.0,
    ),
    "gcn": citation(
        "GCN",
        "erm",
        66.3,
        why="The source does not give the settings of its plain GCN. Ours has width 64"
        " and 100 steps, and the last episode counts.",
    ),
    "a2gnn": citation("A2GNN", "a2gnn", 80.9, 75.9, 75.1, 77.2, 73.2, 79.7),
    "udagcn": citation(
        "UDAGCN",
        "udagcn",
        80.7,
        74.7,
        73.5,
        77.0,
        69.4,
        77.8,
        seeds=2,
        why="With our settings and no weight decay, the authors' program on a→c has"
        " 72.8 at its best epoch (240 of 400) and 62.4 at the last. With its own"
        " settings (rate 0.003, width 16, 200 epochs) it has 47 after ten epochs"
        " and stays below 32 from then on. Ours ends at 76. That program prints"
        " the best epoch by the target's labels. By that rule, over its"
        " ten episodes, ours has 71.4.",
    ),
    "adalign": citation(
        "ADAlign",
        "adalign",
        83.4,
        78.5,
        76.3,
        80.0,
        74.3,
        82.2,
        source="ADAlign's repository, best single runs, probably by the target",
        seeds=2,
        why="The authors search each direction by the score of the best epoch on"
        " the target, and print single runs. Ours has one setting and uses the"
        " last episode. The best of its ten episodes on the target has 77.6."
        " The best on held-out source nodes has 76.5 (one run each on split"
        " 0).",
    ),
    "msp": leave_out("GCN, largest softmax", 91.15, erm__score="max_softmax")._replace(
        why="The authors' code has 91.2 ± 0.1 on five runs. It has outputs for all seven classes,"
        " of which four are never right. With three outputs, as ours, it has 90.1 ± 0.0. It"
        " uses the epoch of the least validation loss, about the 150th; ours uses the last, the"
        " 200th."
    ),
    "energy": leave_out("GCN, energy", 91.41, erm__score="energy"),
    "gnnsafe": leave_out("GNNSafe", 92.80),
    "uaga": Claim(
        "UAGA",
        "open-set cross-network benchmark, Citation-v1 to DBLP-v4, HS",
        "hs",
        "paper/universal/uaga",
        {"cd": {"gnn.dropout": 0.4}},
        (54.6,),
        "UAGA's code, run here on one seed; its paper's table was not at hand",
        why="Four of five seeds have 53.7 to 54.9, and one has 50.0. Seed 0 has HS 54.8,"
        " OS 67.9, OS* 72.7 and AUROC 75.3; the authors' program (one seed) has 54.6,"
        " 68.8, 74.0 and 71.6. With dropout on hidden states only and one head in the"
        " last layer, five seeds have HS 48.7 ± 2.7 and AUROC 69.9 ± 2.1. With all"
        " dropout and one head, seed 0 has HS 45.2 and AUROC 75.4.",
    ),
    "nodesafe": leave_out(
        "NODESafe",
        91.8,
        train__mode="nodesafe",
        nodesafe__steps=200,
        nodesafe__rounds=0,
        nodesafe__weight=0.1,
    )._replace(source="NODESafe's code, weight 0.1, run here on one seed"),
    "gcn-localized": localized("GCN", "erm", 68.3, 62.1, 59.4),
}


def cell(key: str, block: str) -> Cell:
    claim = CLAIMS[key]
    changes = claim.changes | claim.blocks[block]
    return Cell("reproduction", f"{key}-{block.lower()}", claim.cfg, changes, range(claim.seeds))


def found(key: str, args: argparse.Namespace) -> dict[str, Results]:
    """Finished runs by block."""
    every = {block: cell(key, block).results(args) for block in CLAIMS[key].blocks}
    return {block: results for block, results in every.items() if results}


def line(key: str, results: dict[str, Results]) -> list[str]:
    """What is printed of a claim, and whether it is reproduced."""
    claim = CLAIMS[key]
    scores = {
        block: [100 * result["test"][claim.metric] for result in part.values()]
        for block, part in results.items()
    }
    runs = min(map(len, scores.values()), default=0)
    if len(scores) < len(claim.blocks):
        done = f"{len(scores)} of {len(claim.blocks)}" if scores else "not run"
        return [
            claim.rival,
            claim.protocol,
            _figures(claim.published),
            done,
            "-",
            str(runs),
            "-",
            claim.source,
        ]
    gap = mean(map(mean, scores.values())) - mean(claim.published)
    spread = mean(mean_std(values)[1] for values in scores.values())
    verdict = "yes" if abs(gap) <= POINT else "above" if gap > 0 else "**no**"
    ours = _figures([*map(mean, scores.values())]) + f" (± {spread:.1f})" * (spread > 0)
    return [
        claim.rival,
        claim.protocol,
        _figures(claim.published),
        ours,
        f"{gap:+.1f}",
        str(runs),
        verdict,
        claim.source,
    ]


def _figures(scores: Sequence[float]) -> str:
    parts = ", ".join(f"{score:.1f}" for score in scores)
    return f"{parts}; mean {mean(scores):.1f}" if len(scores) > 1 else parts


def save(path: Path, lines: dict[str, list[str]]) -> None:
    """Write what became of each claim, one a line."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["row", "reproduced", "difference", "runs"])
    writer.writerows(
        [key, part[6].strip("*"), part[4], part[5]] for key, part in lines.items() if part[6] != "-"
    )
    atomic.write_text(path, out.getvalue())


def text(args: argparse.Namespace) -> str:
    """All claims."""
    results = {key: found(key, args) for key in CLAIMS if chosen(args.only, key, key)}
    of_key = {key: line(key, part) for key, part in results.items()}
    lines = list(of_key.values())
    every = [
        result for part in results.values() for runs in part.values() for result in runs.values()
    ]
    if not every:
        return "no results yet\n"
    if args.csv:
        save(args.csv, of_key)
    head = [
        "rival",
        "protocol",
        "published, %",
        "here, %",
        "difference",
        "runs",
        "reproduced",
        "source",
    ]
    reasons = [reason(CLAIMS[key]) for key in results if CLAIMS[key].why]
    count = Counter(part[6].strip("*") for part in lines)
    return (
        f"{INTRODUCTION}\nOf {len(lines)} claims, {count['yes']} are reproduced,"
        f" {count['above']} are above and {count['no']} are below.\n\n"
        + markdown(head, lines)
        + "## Notes\n\n" * bool(reasons)
        + "\n".join(reasons)
        + "\n"
        + fill(provenance(every), 100)
        + "\n"
    )


def reason(claim: Claim) -> str:
    """A point of the page, one sentence a line."""
    sentences = (
        f"**{claim.rival}** ({claim.protocol})",
        *re.split(r"(?<=[.)]) (?=[A-Z][a-z])", claim.why),
    )
    return "- " + "\n".join(
        fill(sentence, 98, initial_indent="  " * (i > 0), subsequent_indent="  ")
        for i, sentence in enumerate(sentences)
    )


def begin() -> int:
    args = table_parser(__doc__, ("report", "table"), CLAIMS, "results/reproduction").parse_args()
    cells = [
        cell(key, block)
        for key, claim in CLAIMS.items()
        if chosen(args.only, key, key)
        for block in claim.blocks
    ]
    return serve(args, cells if args.command == "report" else [], text)


if __name__ == "__main__":
    main(begin)
