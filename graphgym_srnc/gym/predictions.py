"""What a saved model predicts for a graph: as a table in a file, in a few lines, with doubts."""

from __future__ import annotations

from typing import Any, Collection, Mapping, Sequence

import pandas
import torch
from torch import Tensor
from torch_geometric.data import Data

from graphgym_srnc.backbones.scaling import feature_warning
from graphgym_srnc.core.task import ENOUGH, ShiftTask
from graphgym_srnc.core.text import aligned, clean, columns_to_csv, counted, listed, short
from graphgym_srnc.data.edges import SMALL, component_sizes
from graphgym_srnc.data.labels import CHOSEN, SAMPLED
from graphgym_srnc.methods.shared.validation import OutOfFold
from graphgym_srnc.train.model import FEW_LINKS, UNKNOWN, Prediction, TrainedModel, links_per_node

BANDS = {  # lowest probability of each, and its name
    0.95: "0.95 or more",
    0.8: "0.8 to 0.95",
    0.5: "0.5 to 0.8",
    0.0: "below 0.5",
}
UNLIKELY = 0.02  # probability of a label below which it is often wrong
"""In six tables with 57 wrong labels, 37 of them were among the 105 labels below it."""
SHOWN = 3  # first labels that disagree in print, if few are very improbable
MOST = 10  # of them that are printed
PER_CLASS = 3  # nodes predicted as a class that are the next to label
FEW = 20  # labels below which further nodes may be of a class
MOST_LIKE = 10  # of these nodes that are the next to label
MAY_BE = "may_be"  # column of their class


def given_labels(model: TrainedModel, task: ShiftTask) -> list[str]:
    """Class name of each labelled target node, as in the data of the run; "" without a label."""
    names = model.class_names
    return [names[k] if k >= 0 else "" for k in task.target.y.tolist()]


def split(task: ShiftTask) -> list[str]:
    """What the run used the label of each target node for: train, val, test, or "" for nothing."""
    parts = [""] * task.target.num_nodes
    for part, graph in (("test", task.target), ("val", task.validation), ("train", task.source)):
        for node in getattr(task, part).tolist() if graph is task.target else ():
            parts[node] = part
    return parts


def table(
    model: TrainedModel,
    graph: Data,
    prediction: Prediction,
    ids: Sequence[str] | None,
    given: Sequence[str] | None = None,
    parts: Sequence[str] | None = None,
    probabilities: bool = False,
    titles: Sequence[str] | None = None,
    dates: Sequence[str] | None = None,
) -> pandas.DataFrame:
    """A row per node; see ``given_labels`` and ``split``."""
    label = prediction.label
    posterior = prediction.posterior
    names = model.class_names
    of_label = best = p_known = None
    if given is not None:
        place = {name: k for k, name in enumerate(names)}
        number = torch.tensor([place.get(name, -1) for name in given])
        found = posterior.gather(1, number.clamp(min=0)[:, None])[:, 0]
        of_label = found.where(number >= 0, torch.nan).tolist()
    if model.method.task.unknown is not None:
        p_known = (1 - posterior[:, -1]).tolist()
        best = [names[k] for k in posterior[:, :-1].argmax(1).tolist()]
    every = {
        "node": range(len(label)),
        "id": ids,
        "title": titles,
        "date": dates,
        "class": [names[k] for k in label.tolist()],
        "given_label": given,
        "split": parts,
        "probability": posterior.gather(1, label[:, None])[:, 0].tolist(),
        "p_given_label": of_label,
        "p_known": p_known,
        "best_known_class": best,
        "gnn_cluster": None if prediction.cluster is None else prediction.cluster.tolist(),
        "component_size": component_sizes(graph.edge_index.numpy(), len(label)),
    }
    columns: dict[str, Any] = {head: own for head, own in every.items() if own is not None}
    for name, p in zip(names, posterior.T) if probabilities else ():
        columns[f"p_class_{name}" if f"p_{name}" in columns else f"p_{name}"] = p.tolist()
    return pandas.DataFrame(columns)


def disagreements(frame: pandas.DataFrame) -> pandas.DataFrame:
    """The rows of a ``table`` whose class is not the given label, the least probable labels first.

    Nodes predicted as unknown follow after the others.

    References:
        Northcutt, Jiang and Chuang, "Confident Learning", JAIR 2021: ranking by self-confidence.
    """
    other = frame[(frame["given_label"] != "") & (frame["given_label"] != frame["class"])]
    other = other.sort_values("p_given_label", kind="stable")
    return other.sort_values("class", key=lambda name: name == UNKNOWN, kind="stable")


def uncertain(
    frame: pandas.DataFrame,
    posterior: Tensor,
    names: Sequence[str],
    unreadable: Collection[int] = (),
) -> pandas.DataFrame:
    """The rows of a ``table`` to label next.

    They are the least probable ones of each known class. Others may be of a class that has few
    labels, although another one is likelier.

    Args:
        frame: the table.
        posterior: probabilities of the classes, ``[V, C]``.
        names: names of the classes.
        unreadable: nodes that are left out, since the user cannot tell their class.
    """
    free = frame[(frame["given_label"] == "") & ~frame["node"].isin([*unreadable])]
    order = free[free["class"] != UNKNOWN].sort_values("probability", kind="stable")
    parts = [order.groupby("class", sort=False).head(PER_CLASS).assign(**{MAY_BE: ""})]
    count = frame["given_label"].value_counts()
    for name, p in zip(names, posterior.T.tolist()):
        if 0 < count.get(name, 0) < FEW:
            others = free[free["class"] != name]
            likely = pandas.Series(p)[others.index].nlargest(MOST_LIKE)
            parts.append(others.loc[likely.index].assign(**{MAY_BE: name}))
    every = ("node", "id", "title", "date", "class", "probability", MAY_BE)
    rows = pandas.concat(parts).drop_duplicates("node")
    wanted = every if (rows[MAY_BE] != "").any() else every[:-1]
    return rows[[name for name in wanted if name in rows]]


def held_out(prediction: Prediction, out_of_fold: OutOfFold) -> Prediction:
    """A prediction, with those of models that did not learn the label for held-out nodes."""
    posterior = prediction.posterior.clone()
    known = out_of_fold.log_p.size(1)
    posterior[out_of_fold.nodes] = 0.0
    posterior[out_of_fold.nodes, :known] = out_of_fold.log_p.exp().to(posterior)
    label = prediction.label.clone()
    label[out_of_fold.nodes] = out_of_fold.log_p.argmax(1)
    return prediction._replace(label=label, posterior=posterior)


def judged(given: Sequence[str], parts: Sequence[str], out_of_fold: OutOfFold) -> list[str]:
    """Given labels of nodes that were held out or not learned; "" for the other nodes.

    ``given`` and ``parts`` are those of :func:`given_labels` and :func:`split`.
    """
    held = {*out_of_fold.nodes.tolist()}
    return [
        label if part != "train" or node in held else ""
        for node, (label, part) in enumerate(zip(given, parts))
    ]


def on_disagreements(
    frame: pandas.DataFrame,
    other: pandas.DataFrame,
    out_of_fold: bool,
    from_clusters: Collection[int] = (),
) -> list[str]:
    """How many given labels of a ``table`` disagree, and the first rows; a line each.

    Args:
        frame: the table.
        other: its ``disagreements``.
        out_of_fold: whether its models did not learn these labels.
        from_clusters: nodes whose labels are names of clusters.
    """
    labelled = frame.loc[frame["given_label"] != "", "split"]
    counts = [
        f"{(other['split'] == part).sum():,} of {count:,} {part or 'unused'}"
        for part, count in labelled.value_counts().items()
    ]
    text = "Models that were not trained on the label disagree"
    text = f"{text if out_of_fold else 'The model disagrees'} with {len(other):,} of"
    text += f" {len(labelled):,} given labels ({100 * len(other) / len(labelled):.1f} %):"
    text += f" {listed(counts)}."
    text += _on_doubts(other, from_clusters)
    if "train" in set(labelled) and not out_of_fold:
        text += " The model has learned the training labels, so wrong ones among them may be"
        text += " missing here. --folds 3 finds more of them."
    if out_of_fold and "" in set(frame.loc[frame["split"] != "", "given_label"]):
        text += " --folds 5 compares the other labels, too."
    if other.empty:
        return [text]
    id = "id" if "id" in other else "node"
    titles = ["title"] if "title" in other else []
    lines = [["  node", "given label", "its probability", "predicted", *titles]]
    wanted = [id, "given_label", "class", "p_given_label", *titles]
    shown = min(max(SHOWN, _number_of_unlikely(other)), MOST)
    for row in other[wanted].head(shown).values.tolist():
        node, label, predicted = (short(cell, 24) for cell in row[:3])
        rest = [short(cell, 50) for cell in row[4:]]
        lines.append([f"  {node}", label, f"{row[3]:.2f}", predicted, *rest])
    return [f"{text} The first ones are:", *aligned(lines).splitlines()]


def _number_of_unlikely(other: pandas.DataFrame) -> int:
    """Number of ``disagreements`` whose label is very improbable; they come first."""
    is_known = other["class"] != UNKNOWN
    return int(((other["p_given_label"] < UNLIKELY) & is_known).sum())


def _on_doubts(other: pandas.DataFrame, from_clusters: Collection[int]) -> str:
    """What ``disagreements`` may be, as sentences after another one; "" if there are none."""
    if other.empty:
        return ""
    is_unknown = other["class"] == UNKNOWN
    unknown = int(is_unknown.sum())
    unlikely = _number_of_unlikely(other)
    discovered = int(other["node"].isin([*from_clusters]).sum())
    text = ""
    if unknown:
        text += f" Of these nodes, {unknown:,} are predicted as unknown."
    text += " The label or the model may be wrong."
    if unlikely:
        first = f"the first {unlikely:,}" if unlikely > 1 else "the first"
        text += f" Check {first}, whose label has a probability below {UNLIKELY}: in six tables, 15"
        text += " to 60 % of such labels were wrong, of later ones few."
    if discovered:
        text += f" {counted(discovered, 'label')} came from names of clusters."
    return text


def encode(file: str, columns: pandas.DataFrame | Mapping[str, list[Any]]) -> bytes:
    """Content of a ``.csv`` (four decimals) or ``.parquet`` file, by the suffix of its name."""
    frame = pandas.DataFrame(columns)
    if file.lower().endswith(".parquet"):
        return frame.to_parquet(None, engine="pyarrow", index=False)
    columns = frame.round(4).items()
    return columns_to_csv([name, *cells.tolist()] for name, cells in columns).encode()


def summary(model: TrainedModel, frame: pandas.DataFrame) -> list[str]:
    """How many nodes of a ``table`` are of each class, how sure the model is, and whose component
    is small; a line each."""
    heads = ["class", "nodes", "share", "mean probability"]
    lines = [[*heads, f"in components of at most {SMALL} nodes"]]
    groups = [(name, frame[frame["class"] == name]) for name in model.class_names]
    for name, own in [*groups, ("all", frame)]:
        share = "" if own is frame else f"{100 * len(own) / len(frame):.1f} %"
        mean = f"{own['probability'].mean():.3f}" if len(own) else "-"
        small = (own["component_size"] <= SMALL).sum()
        lines.append([clean(name), f"{len(own):,}", share, mean, f"{small:,}"])
    shown = len(heads) + bool(small)
    return aligned([line[:shown] for line in lines]).splitlines()


def by_probability(frame: pandas.DataFrame, origins: Mapping[int, str]) -> list[str]:
    """How many held-out labels are right where the models were how sure; a line each.

    Args:
        frame: a ``table`` with the columns ``class_without_label`` and
            ``probability_without_label`` of models that did not learn the label.
        origins: where labels came from, by node. Those chosen for what a model predicts are not
            counted. If enough nodes drawn at random were held out, only they are counted, since
            they represent the nodes without a label best.
    """
    is_held_out = ~frame["class_without_label"].isin(["", UNKNOWN])
    origin = frame["node"].map(origins)
    is_held_out &= ~origin.isin(CHOSEN)
    is_sampled = is_held_out & (origin == SAMPLED)
    uses_sample = is_sampled.sum() >= ENOUGH
    if uses_sample:
        is_held_out = is_sampled
    is_free = (frame["given_label"] == "") & (frame["class"] != UNKNOWN)
    is_right = is_held_out & (frame["class_without_label"] == frame["given_label"])
    judged = "labels of nodes drawn at random right" if uses_sample else "held-out labels right"
    lines = [["  probability", "nodes without a label", judged]]
    upper = float("inf")
    for lower, name in BANDS.items():
        free = int((is_free & frame["probability"].between(lower, upper, "left")).sum())
        band = frame["probability_without_label"].between(lower, upper, "left")
        held = int((is_held_out & band).sum())
        right = int((is_right & band).sum())
        share = f"{right:,} of {held:,} ({100 * right / held:.0f} %)" if held else "none"
        lines.append([f"  {name}", f"{free:,}", share])
        upper = lower
    head = "Predictions of known classes by their probability"
    if "p_known" in frame and not uses_sample:
        head += " (fewer are right where nodes of unknown classes are among them)"
    return [f"{head}:", *aligned(lines).splitlines()]


def beside_training(model: TrainedModel, graph: Data, frame: pandas.DataFrame) -> list[str]:
    """How another graph, with the predictions of a ``table``, differs from that of training.

    What an earlier version or an estimator did not record is left out.
    """
    lines = [["", "this graph", "graph of training"]]
    share = model.result.get("verdict", {}).get("figures", {}).get("unknown_share")
    if share is not None:
        here = (frame["class"] == UNKNOWN).mean()
        lines.append(["  predicted as unknown", f"{100 * here:.1f} %", f"{100 * share:.1f} %"])
    then = model.facts.get("links_per_node")
    now = links_per_node(graph)
    if then is not None:
        lines.append(["  links per node", f"{now:.1f}", f"{then:.1f}"])
    held = model.result.get("held_out")
    if held:
        right = f"{100 * held['as_known']['accuracy']:.1f} %"
        lines.append(["  labels right that were not learned", "not known", right])
    told = aligned(lines).splitlines() if len(lines) > 1 else []
    if model.lacks_links(now):
        told.append(f"warning: {FEW_LINKS}")
    return told


def notes(model: TrainedModel, graph: Data, frame: pandas.DataFrame | None = None) -> list[str]:
    """Warnings about features, which this model scales, and about unknown nodes of a ``table``."""
    text = feature_warning(graph.x, model.method.encoder.features)
    found = on_unknown(frame)
    return [text[0].upper() + text[1:], *found] if text else found


def on_unknown(frame: pandas.DataFrame | None) -> list[str]:
    """A sentence on nodes of a ``table`` predicted as unknown that are likely of a known class."""
    if frame is None or "p_known" not in frame:
        return []
    p_known = frame.loc[frame["class"] == UNKNOWN, "p_known"]
    doubtful = int((p_known > 0.5).sum())
    if not doubtful:
        return []
    count = f"{counted(len(p_known), 'node')} predicted as {UNKNOWN}"
    # SRNC+ sets a mean of 0.5 where labels do not tell it.
    mean = round(1 - p_known.mean(), 2)
    text = f"{doubtful:,} of {count} are more likely of some known class (p_known above 0.5)"
    if mean < 0.5:
        text = f"{count}: P({UNKNOWN}) is {mean:.2f} on average, so most are probably of"
        text += " known classes"
    return [
        f"{text}. {UNKNOWN.capitalize()} is likelier than each known class, but not than all"
        " together. Treat these nodes as uncertain; best_known_class has the likeliest class."
    ]
