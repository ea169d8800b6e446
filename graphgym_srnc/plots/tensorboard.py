"""TensorBoard callback of the trainer.

It writes scalars after each episode, and at the end figures and embeddings of the selected episode.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Iterable, Mapping, NamedTuple

import numpy as np
import pandas
import torch
from torch import Tensor

from graphgym_srnc.core import environment
from graphgym_srnc.core.task import ShiftTask
from graphgym_srnc.core.text import plain
from graphgym_srnc.data.describe import known_names, unseen_names
from graphgym_srnc.io.atomic import write_bytes, write_text
from graphgym_srnc.methods.shared.base import Method
from graphgym_srnc.plots.events import Events, Summaries, image
from graphgym_srnc.train.metrics import confusion_matrix
from graphgym_srnc.train.trainer import Episode, RunRecord

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# TensorBoard sorts groups of tags by name and opens the first two. These should be curves, losses
# and scores, so the group of single values has a name that is last.
SELECTED = "view_selected"
MAX_AXES = 32  # maximum number of principal axes of an embedding in the projector
Arrays = tuple[np.ndarray, ...]
MAX_DRAWN = 1000  # maximum number of nodes in a figure, for which t-SNE takes about 2 seconds


class Extras(NamedTuple):
    """What a run leaves behind beside its record; it changes no number.

    Args:
        tensorboard: whether to write TensorBoard events.
        figures: whether to draw the confusion matrix and the map of the selected classifier.
        full: whether to draw a map of each embedding and the reliability too.
        pdf: whether to write figures as PDF too.
    """

    tensorboard: bool = True
    figures: bool = False
    full: bool = False
    pdf: bool = False


@dataclass(eq=False)
class TensorBoard:
    """Callback that writes TensorBoard events and figures.

    Args:
        directory: directory of the run, for events; figures are also written to ``figures/``.
        extras: what to write.
        start: first episode that will be recorded. Existing events of this episode and later ones,
            from an interrupted run, are discarded.
    """

    directory: Path
    extras: Extras
    start: int = 0

    def __post_init__(self) -> None:
        self.writer = Events(self.directory, self.start) if self.extras.tensorboard else None

    def __call__(self, episode: Episode, method: Method, task: ShiftTask) -> None:
        """Write the losses, scores and seconds of an episode."""
        if self.writer is None:
            return
        from torch.utils.tensorboard.summary import scalar

        summaries = [scalar("time/seconds", episode.seconds)]
        for block in ("losses", "val", "test"):
            for name, value in getattr(episode, block).items():
                summaries.append(scalar(f"{block}/{name}", value))
        self._write([(summary, episode.number) for summary in summaries])

    def finish(
        self, record: RunRecord, method: Method, task: ShiftTask, settings: Mapping[str, Any]
    ) -> None:
        """Draw the selected episode, and write settings, final scores, warnings and embeddings.

        The dashboard HParams shows the ``settings`` of the run, by config key.
        """
        if self.extras.figures:
            self._draw(record, method, task)
        if self.writer is None:
            return
        from torch.utils.tensorboard.summary import hparams, scalar, text

        final = record.history[record.best]
        scores = {
            f"{SELECTED}/{split}_{name}": value
            for split in ("val", "test")
            for name, value in getattr(final, split).items()
        }
        shown = {
            key: value if isinstance(value, (bool, int, float)) else str(value)
            for key, value in settings.items()
        }
        # The first summary of hparams lists the keys of all runs, which one run does not know.
        _, begin, end = hparams(shown, scores)
        self._write([(begin, 0), (end, 0)])
        self._write([(scalar(tag, value), final.number) for tag, value in scores.items()])
        sentences = record.verdict.get("sentences", {})
        for tag, told in (("warnings", record.warnings), ("verdict", sentences)):
            self._write([(text(tag, one), number) for number, one in enumerate(told.values())])

    def _write(self, summaries: Summaries) -> None:
        if self.writer is not None:
            self.writer.write(summaries)

    @torch.no_grad()
    def _draw(self, record: RunRecord, method: Method, task: ShiftTask) -> None:
        """Draw the figures, and write the files of the projector."""
        held = getattr(method, "task", None)  # with its caches
        target = (held if isinstance(held, ShiftTask) else task.blind()).target
        decision = method.decide(method.predict(target)).cpu()
        self._draw_scores(record, task, decision)
        if task.target.num_nodes >= 3:
            views = method.views()
            if not self.extras.full:
                views = {"classifier": views["classifier"]}
            arrays = {
                name: tuple(part.cpu().numpy() for part in view(target))
                for name, view in views.items()
            }
            self._draw_maps(record, task, decision.numpy(), arrays)

    def _draw_scores(self, record: RunRecord, task: ShiftTask, decision: Tensor) -> None:
        """Draw the confusion matrix and the reliability, by predicted classes ``[V]``."""
        with environment.uncollected():
            from graphgym_srnc.plots import charts

        about = f"selected episode {record.best}"
        test = task.test.cpu()
        if len(test):
            counts = confusion_matrix(
                decision[test], task.target.y.cpu()[test], task.num_outputs
            ).numpy()
            figure = charts.confusion_figure(
                counts, known_names(task), f"{task.name}, test nodes, {about}"
            )
            self._picture("confusion-selected", figure, record.best)
        curves = record.verdict.get("reliability", {})
        curves = {part: curve for part, curve in curves.items() if curve}
        if self.extras.full and curves:
            figure = charts.reliability_figure(curves, f"{task.name}, {about}")
            self._picture("reliability", figure, record.best)

    def _draw_maps(
        self, record: RunRecord, task: ShiftTask, decision: np.ndarray, views: Mapping[str, Arrays]
    ) -> None:
        """Draw a map of each view, ``[V, H]`` and groups ``[V]``, by predicted classes ``[V]``."""
        with environment.uncollected():
            from graphgym_srnc.plots import embedding

        outputs = known_names(task)
        label, names, unseen = classes(task)
        total = task.target.num_nodes
        nodes = embedding.sample(total)
        shown = nodes[embedding.sample(len(nodes), MAX_DRAWN)]
        of_all = "" if len(shown) == total else f" of {len(shown):,} random nodes of {total:,}"
        how = embedding.projection("auto", len(names))
        columns: dict[str, Iterable[Any]] = {
            "node": nodes,
            "class": [[*names, embedding.NO_LABEL][index] for index in label[nodes]],
            "predicted": [outputs[index] for index in decision[nodes]],
        }
        axes: dict[str, np.ndarray] = {}
        for name, (vectors, group) in views.items():
            vectors = vectors.astype(np.float64)
            axes[name] = embedding.principal(vectors[nodes], MAX_AXES)
            colour = decision[shown]
            by = "by prediction"
            if name != "classifier":
                by = "by cluster: its most frequent class"
                colour = _most_frequent(task.target.y.cpu().numpy()[shown], group[shown])
                columns[name.replace("_gnn", "")] = group[nodes]
            called = f"{task.name}, {name.replace('_gnn', ' GNN')}, selected episode {record.best}"
            title = f"{called} ({embedding.MAPS[how]}{of_all})"
            figure = embedding.embedding_figure(
                embedding.map_2d(vectors[shown], how),
                colour,
                label[shown],
                outputs,
                names,
                title,
                unseen,
                by,
            )
            self._picture(f"{name}-selected", figure, record.best)
        if self.writer is not None and axes:
            write_projector(self.directory, axes, columns)

    def _picture(self, stem: str, figure: Figure, step: int) -> None:
        from graphgym_srnc.plots.style import encode

        content = encode(figure)
        write_bytes(self.directory / "figures" / f"{stem}.png", content)
        if self.extras.pdf:
            write_bytes(self.directory / "figures" / f"{stem}.pdf", encode(figure, "pdf"))
        self._write([(image(f"{SELECTED}/{stem.removesuffix('-selected')}", content), step)])


def _most_frequent(label: np.ndarray, group: np.ndarray) -> np.ndarray:
    """The most frequent label of each node's group ``[n]``; -1 for a group without labels."""
    given = pandas.Series(label).where(lambda index: index >= 0)
    most = given.groupby(group).transform(lambda own: own.mode().min())
    return most.fillna(-1).astype(int).to_numpy()


def write_projector(
    directory: Path, embeddings: Mapping[str, np.ndarray], columns: Mapping[str, Iterable[Any]]
) -> None:
    """Write embeddings ``[n, H]`` of the same nodes to the files of TensorBoard's projector.

    ``columns`` are properties ``[n]`` of the nodes by name, at least two.
    """
    tables = {name: [[f"{x:.4g}" for x in row] for row in of] for name, of in embeddings.items()}
    rows = (columns, *zip(*columns.values()))
    tables["nodes"] = [[plain(value) or "-" for value in row] for row in rows]
    for name, table in tables.items():
        write_text(
            directory / "projector" / f"{name}.tsv", "".join("\t".join(row) + "\n" for row in table)
        )
    config = "".join(
        f'embeddings {{\n  tensor_name: "{name}"\n  tensor_path: "projector/{name}.tsv"\n'
        '  metadata_path: "projector/nodes.tsv"\n}\n'
        for name in embeddings
    )
    # The index is written last, so that it never refers to missing files.
    write_text(directory / "projector_config.pbtxt", config)


def classes(task: ShiftTask) -> tuple[np.ndarray, list[str], list[int]]:
    """Class of each target node ``[V]``, names of the classes, and numbers of the unseen ones.

    Unseen classes are separate if ``y_true`` is available.
    """
    label = task.target.y.cpu().numpy().copy()
    names = known_names(task)
    true = getattr(task.target, "y_true", None)
    unseen = label == task.num_known
    if task.open_set and true is not None and unseen.any():
        originals, index = np.unique(true.cpu().numpy()[unseen], return_inverse=True)
        label[unseen] = task.num_known + index
        names[-1:] = unseen_names(task, originals.tolist())
    return label, names, list(range(task.num_known, len(names)))
