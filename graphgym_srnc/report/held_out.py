"""How good a run on your own graph is on held-out labels, in words, beside simpler models."""

from __future__ import annotations

from typing import Any, Mapping, NamedTuple, Sequence

from pandas import DataFrame

from graphgym_srnc.core.text import aligned, clean, counted, listed
from graphgym_srnc.io.records import Result
from graphgym_srnc.io.settings import difference
from graphgym_srnc.report.frame import Experiment
from graphgym_srnc.report.names import LAYERS, method_name
from graphgym_srnc.report.tables import ABSENT, Grid, boxes

INTERVAL = "95 % interval"
AS_KNOWN = "unknown counted as wrong"
ON_AS_KNOWN = (
    "In the last row, a label predicted as unknown counts as wrong; in the others, each model"
    " chooses among the known classes alone."
)
ON_ALL_LABELS = (
    "The final model learned all labels. If these were drawn at random, expect about as much for"
    " nodes of known classes{} as the {} row says."
)
UNLIKE = "settings unlike the first run"
IN_NAME = ("train.mode", "gnn.layer_type")  # keys that the name of a method tells
KEPT = 0.8  # share of the nodes of a named cluster below which more labels are needed
SHOWN = 20  # most classes in a line
SIGNIFICANT = 0.05  # p-value below which a simpler model is called better
NAMES = {  # keys of train.held_out, whose import takes seconds, and kinds of classifiers
    "linear": "logistic regression on features",
    "linear_hops": "logistic regression on features and hop means",
    "forest": "random forest on features",
    "mlp": "MLP on features",
    "sign": "MLP on features and hop means",
}
BACKBONES = {"linear": "mlp", "linear_hops": "sign"}  # of the GNN that reads what a control reads
FOREST = "forest"  # the simpler model that no backbone is like


class Alternative(NamedTuple):
    """Settings of another run of the same data, the end of its name, and why to run it."""

    settings: dict[str, str]
    ending: str
    purpose: str


def lines(result: Result) -> list[str]:
    """Accuracy on held-out labels of a run and of simpler models, and :func:`details`."""
    return accuracy(result) + details(result)


def details(result: Result) -> list[str]:
    """Accuracy on held-out labels of each class, and the share of nodes predicted as unknown."""
    found = result["held_out"]
    share = _unknown_share(result)
    told = by_class(found.get("classes", {}))
    if found and share:
        p_value = result["history"][0]["losses"].get("no_unknown_p_value")
        sign = "" if p_value is None else f" (test for an unknown class: p = {p_value:.2g})"
        told.append(
            f"{100 * share:.1f} % of the nodes are predicted as unknown{sign}; discover groups them"
        )
    return told


def lacks_sample(result: Mapping[str, Any]) -> bool:
    """Whether no label judges the predictions, or none those of nodes of another time."""
    found = result["held_out"]
    is_judged = bool(found or result["test"])
    return not is_judged or "dates" in result["verdict"]["sentences"] and not found.get("sampled")


def accuracy(result: Mapping[str, Any]) -> list[str]:
    """Accuracy on held-out labels of a run, and of simpler models on the same labels."""
    found = figures(result)
    if not found:
        return []
    head, rows, remark = found
    table = [["  model", "right", INTERVAL], *([f"  {name}", *rest] for name, *rest in rows)]
    return [f"{head}:", *aligned(table).splitlines(), *filter(None, [remark])]


def figures(result: Mapping[str, Any]) -> tuple[str, list[list[str]], str] | None:
    """What was judged, the name, accuracy and interval of each model, and what to expect of them.

    None if no label was held out. A model that is not in the folder of its run may have no record.
    """
    found = result.get("held_out")
    if not found:
        return None
    own = method_name(result["method"], result["backbone"])
    rows = [[own, *_share(found)]]
    rows += [[name_of(kind), *_share(one)] for kind, one in found["alone"].items()]
    remarks = [on_best_alone(own, found)]
    sampled = found.get("sampled")
    if sampled:
        count = counted(sampled["labels"], "node")
        skipped = f" ({sampled['skipped']:,} skipped)" if sampled.get("skipped") else ""
        rows.append([f"{own}, {count} drawn at random{skipped}", *_share(sampled)])
        rows += [
            [f"{name_of(kind)}, drawn at random", *_share(one["sampled"])]
            for kind, one in found["alone"].items()
            if one.get("sampled")
        ]
    row = "first"
    if found["as_known"]["accuracy"] < found["accuracy"]:
        rows.append([f"{own}, {AS_KNOWN}", *_share(found["as_known"])])
        remarks.append(ON_AS_KNOWN)
        row = "last"
    if found.get("cross_fitted"):
        # A run whose labels are of another time than many other nodes has a warning.
        when = " of that time" if "dates" in result["verdict"]["sentences"] else ""
        remarks.append(ON_ALL_LABELS.format(when, row))
    remark = " ".join(filter(None, remarks))
    of_all = f" (of {found['of']:,})" if found["labels"] < found["of"] else ""
    head = f"accuracy on {found['labels']:,}{of_all} labels that the models had not learned"
    if found.get("chosen"):
        head += f" (without {counted(found['chosen'], 'label')} that you added or clusters gave)"
    if found.get("checked"):
        count = counted(found["checked"], "label")
        remark += (
            f" You checked {count} of these. If you only accepted predictions, the shares are too"
            " high."
        )
    return head, rows, remark.strip()


def on_best_alone(own: str, found: Mapping[str, Any]) -> str:
    """Whether a model differs significantly from the best simpler model; "" if there is none.

    Args:
        own: name of the model.
        found: what :func:`graphgym_srnc.train.held_out.judge` returns.
    """
    alone = found["alone"]
    if not alone:
        return ""
    kind = max(alone, key=lambda name: alone[name]["accuracy"])
    points = 100 * (found["accuracy"] - alone[kind]["accuracy"])
    p = alone[kind]["p_value"]
    is_significant = "significant" if p < SIGNIFICANT else "not significant"
    return (
        f"{own} minus the best simpler model, {name_of(kind)}: {points:+.1f} points,"
        f" {is_significant} (McNemar test, p = {p:.2g})."
    )


def grid(experiments: Sequence[Experiment]) -> Grid:
    """:func:`figures` of each run that has any, with the share of nodes predicted as unknown.

    A run on the data of an earlier one says in which settings it differs, and rows of simpler
    models that equal those of the earlier run are left out.

    Args:
        experiments: the earliest first.
    """
    rows = []
    unlike = unlike_the_first(experiments)
    shown: set[tuple[str, ...]] = set()
    for one in experiments:
        for seed, result in sorted(one.results.items()):
            found = figures(result)
            labels = f"{result['held_out']['labels']:,}" if found else ""
            share = _unknown_share(result)
            unknown = ABSENT if share is None else f"{100 * share:.1f} %"
            own = method_name(result["method"], result["backbone"])
            for name, *cells in found[1] if found else ():
                row = (result["task"], str(seed), labels, name, *cells)
                if row in shown and name not in (own, f"{own}, {AS_KNOWN}"):
                    continue
                shown.add(row)
                more = [unlike[one.name]] if any(unlike.values()) else []
                rows.append(boxes(name, one.name, seed, labels, *cells, unknown, *more))
                unknown = ABSENT  # a simpler model knows no unknown class
    heads = ["model", "experiment", "seed", "labels", "right", INTERVAL, "nodes predicted unknown"]
    if any(unlike.values()):
        heads.append(UNLIKE)
    return Grid("", heads, rows)


def unlike_the_first(experiments: Sequence[Experiment]) -> dict[str, str]:
    """Settings of each experiment that differ from those of the first one on the same data.

    The method is left out, since rows have its name.
    """
    first: dict[str, Mapping[str, Any]] = {}
    found = {}
    for one in experiments:
        result = one.results[min(one.results)]
        config = result["config"]
        differ = difference(first.setdefault(result["task"], config), config)
        texts = [f"{key} {new}" for key, (_, new) in differ.items() if key not in IN_NAME]
        found[one.name] = clean(listed(texts, 3))
    return found


def grid_by_class(experiments: Sequence[Experiment]) -> Grid:
    """How many held-out labels of each class are right in each experiment, over all its runs."""
    counts = DataFrame(
        [
            (name, one.name, own["right"], own["labels"])
            for one in experiments
            for result in one.results.values()
            for name, own in result["held_out"].get("classes", {}).items()
            if own["labels"]
        ],
        columns=["class", "experiment", "right", "labels"],
    )
    by = counts.groupby(["class", "experiment"], sort=False).sum()
    total = by.groupby("class", sort=False).sum()
    order = (total["right"] / total["labels"]).sort_values(kind="stable").index
    columns = by.index.unique("experiment")
    cells = (by["right"].astype(str) + " of " + by["labels"].astype(str)).unstack(fill_value=ABSENT)
    rows = [boxes(clean(name), *cells.loc[name, columns]) for name in order]
    return Grid("", ["class", *columns], rows)


def _unknown_share(result: Result) -> float | None:
    """Share of nodes that a run predicts as unknown; None if no class may be unknown."""
    share = result["verdict"]["figures"].get("unknown_share")
    return share if isinstance(share, float) else None


def _share(found: Mapping[str, float]) -> tuple[str, str]:
    """A share in %, and its interval."""
    interval = f"{100 * found['low']:.1f} to {100 * found['high']:.1f}"
    return f"{100 * found['accuracy']:.1f} %", interval


def by_class(classes: Mapping[str, Mapping[str, int]]) -> list[str]:
    """How many held-out labels of each class are right, the worst classes first."""
    if len(classes) < 2:
        return []
    judged = [name for name in classes if classes[name]["labels"]]
    order = sorted(judged, key=lambda name: classes[name]["right"] / classes[name]["labels"])
    parts = [
        f"{clean(name)} {classes[name]['right']} of {classes[name]['labels']}"
        for name in order[:SHOWN]
    ]
    rest = f" and {len(order) - SHOWN} more" if len(order) > SHOWN else ""
    return [f"by class, the least accurate first: {', '.join(parts)}{rest}"]


def name_of(kind: str) -> str:
    """A simpler model in words."""
    return NAMES.get(kind, f"{LAYERS.get(kind, kind)} alone")


def since_labels(result: Result, parent: Mapping[str, Any]) -> list[str]:
    """Known classes and unknown nodes of an earlier run, before labels changed, and now.

    Args:
        result: a run on a graph with labels from ``discover``.
        parent: what the folder of the graph says of the earlier run; may be empty.
    """
    named = on_named(result["held_out"].get("named", {}))
    told = on_same_labels(result, parent) + on_sample(result, parent)
    return told + named + on_unknown(result, parent)


def on_sample(result: Result, parent: Mapping[str, Any]) -> list[str]:
    """Accuracy on nodes drawn at random, of the earlier run and now.

    The arguments are those of :func:`since_labels`.
    """
    before = parent.get("sampled")
    now = result["held_out"].get("sampled")
    if not before or not now:
        return []
    points = _by_chance(before["accuracy"], now["accuracy"], now["labels"])
    text = (
        f"Of {counted(before['labels'], 'node')} drawn at random, {parent['run']} predicted"
        f" {100 * before['accuracy']:.1f} % right, and this run {100 * now['accuracy']:.1f} % of"
        f" {now['labels']:,}. Chance alone may make a difference of {points:.0f} points."
    )
    if now["accuracy"] < before["accuracy"]:
        text += " If the new labels are right, compare both predictions of nodes that changed."
    return [text]


def on_named(found: Mapping[str, Mapping[str, int]]) -> list[str]:
    """How many nodes of named clusters are predicted as the class of that name.

    ``found`` is what ``train.held_out.still_named`` returns.
    """
    if not found:
        return []
    counts = [f"{name} {one['kept']:,} of {one['nodes']:,}" for name, one in found.items()]
    text = f"Of the nodes of named clusters, these are predicted as their class: {listed(counts)}."
    if any(one["kept"] < KEPT * one["nodes"] for one in found.values()):
        text += " Label more typical nodes of such a class, since some were lost to other classes."
    return [text]


def on_unknown(result: Result, parent: Mapping[str, Any]) -> list[str]:
    """How many nodes were predicted as unknown before labels changed, and are now.

    The arguments are those of :func:`since_labels`.
    """
    figures = result["verdict"]["figures"]
    if "unknown_share" not in figures or "unknown" not in parent:
        return []
    now = round(figures["unknown_share"] * parent["nodes"])
    before = counted(parent["unknown"], "node")
    text = f"Predicted as unknown: {before} before the new labels, {now:,} now."
    if now:
        text += (
            " With new labels other nodes can stand out. Some may be of a further new class and"
            " some of known classes: discover shows them. If every class has labels now, set"
            " `open_set=False`."
        )
    return [text]


def on_same_labels(result: Result, parent: Mapping[str, Any]) -> list[str]:
    """Accuracy on the labels that did not change, of the earlier run and now.

    The arguments are those of :func:`since_labels`.
    """
    before = parent.get("unchanged")
    now = result["held_out"].get("unchanged")
    if not before or not now:
        return []
    points = _by_chance(before["accuracy"], now["accuracy"], now["labels"])
    text = (
        f"Of these {result['held_out']['labels']:,} held-out labels, {now['labels']:,} did not"
        f" change: {parent['run']} predicted {100 * before['accuracy']:.1f} % of them right, and"
        f" this run {100 * now['accuracy']:.1f} %, {AS_KNOWN}. Chance alone may make a difference"
        f" of {points:.0f} points."
    )
    if now["accuracy"] >= before["low"]:
        return [text]
    return [
        text,
        "warning: The known classes seem to be predicted worse. Some of the new labels may be"
        " wrong, such as those of a named cluster with nodes of known classes. Check them. If every"
        " class has labels now, set `open_set=False`.",
    ]


def _by_chance(before: float, now: float, labels: int) -> float:
    """Difference of two shares of right labels, in points, that chance makes in 5 % of cases.

    References:
        Agresti and Caffo (The American Statistician 2000): one right and one wrong label more.
    """
    shares = [(share * labels + 1) / (labels + 2) for share in (before, now)]
    variance = sum(share * (1 - share) for share in shares) / (labels + 2)
    return 196 * variance**0.5


def better(result: Result) -> str:
    """The simpler model that is significantly better than the run; "" if none is."""
    found = result["held_out"]
    leads = {
        kind: one["accuracy"]
        for kind, one in found.get("alone", {}).items()
        if one["accuracy"] > found["accuracy"] and one["p_value"] < SIGNIFICANT
    }
    return max(leads, key=leads.__getitem__, default="")


def on_better(result: Result) -> str:
    """A warning if a simpler model is significantly better than the run, else empty."""
    kind = better(result)
    if not kind:
        return ""
    one = result["held_out"]["alone"][kind]
    text = (
        f"warning: {name_of(kind)} is significantly better on these labels (McNemar test,"
        f" p = {one['p_value']:.2g})."
    )
    if kind == FOREST:
        text += " Train it with scikit-learn on the columns of your table."
    return text


def alternatives(result: Result) -> list[Alternative]:
    """Runs that may suit the graph of a run better; empty if none is known."""
    found = []
    kind = better(result)
    settings = {}
    if kind and kind != FOREST:
        settings = {"train.mode": "erm", "gnn.layer_type": BACKBONES.get(kind, kind)}
    elif "homophily" in result["verdict"]["sentences"] and result["method"] != "srnc_plus":
        settings = {"train.mode": "srnc_plus"}
    if settings:
        ending = "-".join(settings.values())
        found.append(Alternative(settings, ending, "may suit this graph better"))
    if abstains(result):
        purpose = "predicts unknown nodes without a clear sign of them"
        found.append(Alternative({"srnc_plus.abstain": "False"}, "unknown", purpose))
    return found


def abstains(result: Result) -> bool:
    """Whether a run predicts no node as unknown since its labels show no clear sign of any."""
    tested = "no_unknown_p_value" in result["history"][0]["losses"]
    return tested and _unknown_share(result) == 0 and bool(result["config"]["srnc_plus"]["abstain"])
