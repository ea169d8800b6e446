"""What SRNC+ loses without one component, on graphs on which it was developed.

    python benchmarks/ablations.py    # run what is missing, and write the table

Each component has an option that removes it. Runs are lines of ablations-runs.csv.
GRAPHGYM_SRNC_DATA names the data folder.
"""

from __future__ import annotations

import argparse
from typing import Any, Iterator, NamedTuple

import pandas as pd
import torch
from no_harm import blocks, partly_labelled
from scipy.stats import t
from scores import DATA

from graphgym_srnc import SRNCPlus, shifts
from graphgym_srnc.core import environment
from graphgym_srnc.data import datasets
from graphgym_srnc.methods.srnc_plus import SRNCPlus as Method
from graphgym_srnc.report.statistics import holm, p_value
from graphgym_srnc.shifts import splits
from graphgym_srnc.train import trainer

RUNS = DATA / "ablations-runs.csv"
OWN, FEW, TWO = "own graph", "20 labels", "two graphs"
SEEDS = {OWN: 2, FEW: 3, TWO: 3}
HOMOPHILY = (0.5, 0.7, 0.9)
WHOLE = "SRNC+"


class Component(NamedTuple):
    """Options that remove a component, and the kinds of task that have it."""

    options: dict[str, Any]
    kinds: tuple[str, ...] = (OWN, FEW, TWO)


COMPONENTS = {
    WHOLE: Component({}),
    "iterations 2 and 3": Component({"rounds": 1}),
    "modularity": Component({"cluster_steps": 0}),
    "smoothing of the posterior": Component({"smoothing": 0}),
    "prior correction": Component({"correction": "none"}),
    "learning the surest pseudo-labels only": Component({"doubt": 0.0}),
    "label density per community": Component({"missing": 0.0}, (OWN, FEW)),
    "spare clusters (one instead of 12)": Component({"spare": 1}, (OWN, FEW)),
    "resolution 2 of modularity (1 instead)": Component({"resolution": 1.0}, (OWN, FEW)),
    "tests for adaptation": Component({"abstain": False}, (OWN, TWO)),
}


def graphs(kind: str) -> Iterator[str]:
    """Names of the graphs of a kind of task."""
    yield from (f"block model, homophily {h}" for h in HOMOPHILY)
    if kind == OWN:
        yield "Cora-ML"


def score(kind: str, graph: str, seed: int, options: dict[str, Any]) -> float:
    """Micro-F1 of a run, in %."""
    homophily = 0.0 if graph == "Cora-ML" else float(graph.rsplit(" ", 1)[1])
    if kind == OWN:
        if homophily:
            data = blocks("open_set", homophily, 3.0, 7, seed).source
        else:
            data = datasets.load("CitationFull/Cora_ML", "")
        masked = splits.choose_unseen(splits.classes_of(data.y), 2, [], seed)
        problem = partly_labelled(data, seed, masked=masked)
        model = SRNCPlus(random_state=seed, open_set=True, **options).fit(problem.source)
        found = torch.as_tensor(model.predict(problem.source)).numpy()
        return 100 * float((found == problem.truth)[problem.scored].mean())
    mode = "open_set" if kind == FEW else "close_set"
    task = shifts.find("synthetic")(mode=mode, homophily=homophily, split_seed=seed)
    selection = "target_val" if kind == FEW else "last"
    record = trainer.fit(Method(**options), task, seed=seed, selection=selection)
    return 100 * record.test["micro_f1"]


def table(runs: pd.DataFrame) -> None:
    """Write the change of the score without each component, by kind and over all runs."""
    score = runs.pivot(index=["kind", "graph", "seed"], columns="without", values="Micro-F1")
    whole = score.groupby("kind")[WHOLE].mean()
    commits = ", ".join(sorted(set(runs.commit)))
    lines: list[dict[str, Any]] = [
        {"without": WHOLE, **{kind: f"{whole[kind]:.1f}" for kind in SEEDS}, "source": commits}
    ]
    for name in list(COMPONENTS)[1:]:
        change = (score[name] - score[WHOLE]).dropna()
        of_kinds = {kind: part for kind, part in change.groupby("kind")} | {"all": change}
        line = {"without": name, "p": p_value(change.tolist())}
        for kind, part in of_kinds.items():
            line[kind] = f"{part.mean():+.1f}"
            line[f"{kind} wins"] = f"{(part > 0).sum()}/{len(part)}"
            line[f"{kind} ±"] = f"{part.sem() * t.ppf(0.975, len(part) - 1):.2f}"
        lines.append(line)
    for line, corrected in zip(lines[1:], holm([line["p"] for line in lines[1:]])):
        line |= {"p": f"{line['p']:.2g}", "Holm": f"{corrected:.2g}"}
    pd.DataFrame(lines).to_csv(DATA / "ablations.csv", index=False, lineterminator="\n")


def main() -> None:
    argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    ).parse_args()
    torch.set_num_threads(1)
    keys = ["kind", "graph", "seed", "without"]
    runs = pd.read_csv(RUNS) if RUNS.exists() else pd.DataFrame(columns=keys)
    done = set(runs[keys].itertuples(index=False, name=None))
    for kind, seeds in SEEDS.items():
        for graph in graphs(kind):
            for key in ((kind, graph, seed, name) for seed in range(seeds) for name in COMPONENTS):
                component = COMPONENTS[key[3]]
                if key in done or kind not in component.kinds:
                    continue
                line = dict(zip(keys, key))
                line["Micro-F1"] = round(score(*key[:3], component.options), 2)
                line["commit"] = str(environment.commit())[:7]
                print(*line.values(), flush=True)
                made = pd.DataFrame([line])
                made.to_csv(RUNS, mode="a", header=not RUNS.exists(), index=False)
    table(pd.read_csv(RUNS))


if __name__ == "__main__":
    main()
