"""TensorBoard callback of the trainer.

It writes scalars after each episode, figures of selected episodes, and at the end settings, final
scores and embeddings.
"""

from __future__ import annotations

import contextlib
import random
from pathlib import Path
from typing import TYPE_CHECKING, Any, Iterable, Iterator, Mapping, NamedTuple, Sequence

import numpy as np
import torch
from torch import Tensor

from graphgym_srnc.core.task import ShiftTask
from graphgym_srnc.core.text import plain
from graphgym_srnc.data.describe import known_names, unseen_names
from graphgym_srnc.io.atomic import write_bytes, write_text
from graphgym_srnc.methods.shared.base import Method
from graphgym_srnc.plots.events import Events, final, image, scalars
from graphgym_srnc.train.metrics import confusion_matrix
from graphgym_srnc.train.trainer import Episode, RunRecord

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MAX_AXES = 32
"""Maximum number of principal axes of an embedding in the projector."""

MAX_DRAWN = 1000
"""Maximum number of nodes in a figure, for which t-SNE takes about 4 seconds."""


class Snapshot(NamedTuple):
    """Predictions and embeddings of a method on the target graph.

    Args:
        confusion: confusion matrix on the test nodes, ``[C, C]``, one row per true class.
        decision: predicted class of each node, ``[V]``.
        nodes: ids of a sample of labelled nodes, ``[n]``.
        views: embedding ``[n, H]`` and group ``[n]`` of the sample, by name.
    """

    confusion: np.ndarray
    decision: np.ndarray
    nodes: np.ndarray
    views: dict[str, tuple[np.ndarray, np.ndarray]]


class TensorBoard:
    """Callback that writes TensorBoard events and figures without changing the results of a run.

    Args:
        directory: directory of the run. Events are written there, and figures also to ``figures/``.
        events: whether to write TensorBoard events.
        figures: whether to draw the confusion matrix and the classifier's map of the selected
            episode.
        full: whether to draw the other figures too: further views, all episodes, reliability.
        how: projection of embeddings, ``pca``, ``tsne``, or ``auto`` by the number of classes.
        pdf: whether to write figures of the selected episode as PDF too.
        start: first episode that will be recorded. Existing events of this episode and later ones,
            from an interrupted run, are discarded.
    """

    def __init__(
        self,
        directory: Path,
        events: bool = True,
        figures: bool = True,
        full: bool = False,
        how: str = "auto",
        pdf: bool = False,
        start: int = 0,
    ) -> None:
        self.directory, self.figures, self.full = Path(directory), figures, figures and full
        self.how, self.pdf = how, pdf
        self.maps: dict[str, dict[int, tuple[Tensor, Tensor]]] = {}
        self.writer = Events(self.directory, start) if events else None

    def __call__(self, episode: Episode, method: Method, task: ShiftTask) -> None:
        """Write the scalars of an episode, and map its embeddings for the figure of all episodes.

        Args:
            episode: record of the episode.
            method: the method after the episode.
            task: the task on which the method is scored.
        """
        self._write(scalars(vars(episode)))
        self.close()
        if self.full:
            self._map(snapshot(method, task), episode.number, task)

    def finish(
        self, record: RunRecord, method: Method, task: ShiftTask, settings: Mapping[str, Any]
    ) -> None:
        """Draw the selected episode, and write warnings, settings, final scores and embeddings.

        Args:
            record: record of the run.
            method, task: as for the episodes.
            settings: the seed and other settings that distinguish this run from others, by config
                key.
        """
        from graphgym_srnc.plots.embedding import principal

        if self.figures:
            seen = snapshot(method, task)
            self._draw(seen, record, task)
            if self.writer is not None and seen.views:
                views = {name: principal(of, MAX_AXES) for name, (of, _) in seen.views.items()}
                write_projector(self.directory, views, columns(seen, task))
        if self.writer is None:
            return
        from torch.utils.tensorboard.summary import text as text_summary

        sentences = record.verdict.get("sentences", {}).values()
        for tag, texts in (("warnings", record.warnings), ("verdict", sentences)):
            self._write((text_summary(tag, text), number) for number, text in enumerate(texts))
        names = {"task": task.name, "backbone": method.encoder.kind}
        names["method"] = settings.get("method", type(method).__name__.lower())
        scores = {"val": record.val, "test": record.test, "selected": record.best}
        self._write(final(names | scores, settings))

    def checkpoint(self) -> dict[str, Any]:
        """Flush the events, and return the maps so far, which a later run sets as ``maps``."""
        self.close()
        return self.maps

    def close(self) -> None:
        """Write remaining events; may be called more than once."""
        if self.writer is not None:
            self.writer.flush()

    def _write(self, summaries: Iterable[tuple[Any, int]]) -> None:
        if self.writer is not None:
            for summary, step in summaries:
                self.writer.add(summary, step)

    def _map(self, seen: Snapshot, step: int, task: ShiftTask) -> np.ndarray:
        """Map the views of an episode with the class that colours each node; returns the nodes."""
        from graphgym_srnc.plots.embedding import majority, map_2d, projection, sample

        shown = sample(len(seen.nodes), MAX_DRAWN)
        nodes, target = seen.nodes[shown], task.target.y.cpu().numpy()
        self.how = projection(self.how, len(classes(task)[1]))
        for name, (embedding, group) in seen.views.items():
            if name == "classifier":
                colour = seen.decision[nodes]
            elif self.full:
                colour = majority(group[shown], target[nodes])
            else:
                continue
            points = map_2d(embedding[shown], self.how)
            self.maps.setdefault(name, {})[step] = torch.from_numpy(points), torch.tensor(colour)
        return nodes

    def _draw(self, seen: Snapshot, record: RunRecord, task: ShiftTask) -> None:
        """Draw the selected episode, and if asked for all episodes and the reliability."""
        from graphgym_srnc.plots.charts import confusion_figure, reliability_figure
        from graphgym_srnc.plots.embedding import MAPS, embedding_figure, episodes_figure

        best, outputs, (label, names, unseen) = record.best, known_names(task), classes(task)
        title = f"selected episode {best}"
        figure = confusion_figure(seen.confusion, outputs, f"{task.name}, test nodes, {title}")
        self._picture("confusion-selected", figure, best)
        nodes = self._map(seen, best, task)
        how = MAPS[self.how]
        for name, maps in self.maps.items():
            points, colour = (part.numpy() for part in maps[best])
            by = "by prediction" if name == "classifier" else "by cluster: its most frequent class"
            text = f"{task.name}, {name.replace('_gnn', ' GNN')}, {title} ({how})"
            own = label[nodes]
            figure = embedding_figure(points, colour, own, outputs, names, text, unseen, by)
            self._picture(f"{name}-selected", figure, best)
        if self.full and self.maps:
            figure = episodes_figure(self.maps, outputs, f"{task.name}, by episode ({how})", best)
            self._picture("episodes", figure, best)
        found = record.verdict.get("reliability", {})
        parts = {"validation": found.get("val"), "test": found.get("test")}
        curves = {name: curve for name, curve in parts.items() if curve}
        if self.full and curves:
            figure = reliability_figure(curves, f"{task.name}, {title}")
            self._picture("reliability", figure, best)

    def _picture(self, stem: str, figure: Figure, step: int) -> None:
        from graphgym_srnc.plots.style import encode

        content = encode(figure)
        write_bytes(self.directory / "figures" / f"{stem}.png", content)
        if self.pdf:
            write_bytes(self.directory / "figures" / f"{stem}.pdf", encode(figure, "pdf"))
        self._write([(image(f"selected/{stem.removesuffix('-selected')}", content), step)])


def snapshot(method: Method, task: ShiftTask) -> Snapshot:
    """Snapshot of a method, which leaves random generators and the training mode unchanged."""
    from graphgym_srnc.plots.embedding import sample

    with untouched(method), torch.no_grad():
        target = blind(method, task).target
        decision = method.decide(method.predict(target)).cpu()
        label = task.target.y.cpu()
        nodes = sample(task.target.num_nodes)
        nodes = nodes[label.numpy()[nodes] >= 0]
        views = {}
        for name, view in method.views().items() if len(nodes) > 2 else ():
            points, group = (part.detach().cpu().numpy()[nodes] for part in view(target))
            views[name] = points.astype(np.float64), group
    test = task.test.cpu()
    confusion = confusion_matrix(decision[test], label[test], task.num_outputs)
    return Snapshot(confusion.numpy(), decision.numpy(), nodes, views)


def columns(seen: Snapshot, task: ShiftTask) -> dict[str, Any]:
    """Properties of the nodes of a snapshot for the projector, each ``[n]``."""
    label, names, unseen = classes(task)
    split = np.full(task.target.num_nodes, "other", dtype=object)
    parts = (("pool", task.target), ("test", task.target), ("val", task.validation))
    for part, graph in (*parts, ("train", task.source)):
        if graph is task.target:
            split[getattr(task, part).cpu().numpy()] = part
    outputs, nodes = known_names(task), seen.nodes
    groups = {
        name.replace("_gnn", ""): group.tolist()
        for name, (_, group) in seen.views.items()
        if name != "classifier"
    }
    return {
        "node": nodes.tolist(),
        "class": [names[index] for index in label[nodes]],
        "known": ["unknown" if index in unseen else "known" for index in label[nodes]],
        "predicted": [outputs[index] for index in seen.decision[nodes]],
        **groups,
        "split": split[nodes].tolist(),
    }


def write_projector(
    directory: Path, embeddings: Mapping[str, np.ndarray], columns: Mapping[str, Sequence[Any]]
) -> None:
    """Write embeddings of the same nodes to the files that TensorBoard's projector reads.

    Args:
        directory: directory of a run that has events.
        embeddings: vectors ``[n, H]`` by name; names have no slashes or quotes.
        columns: properties ``[n]`` of the nodes by name, at least two.
    """

    def write(name: str, rows: Iterable[Iterable[str]]) -> None:
        text = "".join("\t".join(row) + "\n" for row in rows)
        write_text(directory / "projector" / f"{name}.tsv", text)

    rows = (columns, *zip(*columns.values()))
    write("nodes", ([plain(value) or "-" for value in row] for row in rows))
    config = ""
    for name, vectors in embeddings.items():
        write(name, ([f"{value:.4g}" for value in row] for row in vectors.tolist()))
        config += (
            f'embeddings {{\n  tensor_name: "{name}"\n  tensor_path: "projector/{name}.tsv"\n'
            '  metadata_path: "projector/nodes.tsv"\n}\n'
        )
    # The index is written last, so that it never refers to missing files.
    write_text(directory / "projector_config.pbtxt", config)


def blind(method: Method, task: ShiftTask) -> ShiftTask:
    """The task as the method sees it: the method's own task with its caches, or a new one."""
    held = getattr(method, "task", None)
    return held if isinstance(held, ShiftTask) else task.blind()


def classes(task: ShiftTask) -> tuple[np.ndarray, list[str], list[int]]:
    """Classes of the target, with separate unseen classes if ``y_true`` is available.

    Returns:
        The class of each node ``[V]``, the name of each class, and the numbers of the unseen
        classes.
    """
    label, names = task.target.y.cpu().numpy().copy(), known_names(task)
    true, unseen = getattr(task.target, "y_true", None), label == task.num_known
    if task.open_set and true is not None and unseen.any():
        originals, index = np.unique(true.cpu().numpy()[unseen], return_inverse=True)
        label[unseen] = task.num_known + index
        names[-1:] = unseen_names(task, originals.tolist())
    return label, names, list(range(task.num_known, len(names)))


@contextlib.contextmanager
def untouched(method: Method) -> Iterator[None]:
    """Restore all random generators and the training mode of each module on exit."""
    modes = {module: module.training for module in method.modules()}
    python, numpy = random.getstate(), np.random.get_state()
    try:
        with torch.random.fork_rng([method.threshold.device] if method.threshold.is_cuda else []):
            yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)
        for module, mode in modes.items():
            module.training = mode
