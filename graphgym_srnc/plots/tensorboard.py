"""TensorBoard callback of the trainer.

It writes scalars after each episode, figures of selected episodes, and at the end settings, final
scores and embeddings.
"""

from __future__ import annotations

import contextlib
import random
from pathlib import Path
from typing import Any, Iterator, Mapping, NamedTuple

import numpy as np
import torch

from graphgym_srnc.core.task import ShiftTask
from graphgym_srnc.data.describe import known_names, unseen_names
from graphgym_srnc.io import atomic
from graphgym_srnc.methods.shared.base import Method
from graphgym_srnc.plots.events import Events, final, identity, image
from graphgym_srnc.train.metrics import confusion_matrix
from graphgym_srnc.train.trainer import Episode, RunRecord


class Snapshot(NamedTuple):
    """Predictions and embeddings of a method on the target graph.

    Args:
        confusion: confusion matrix on the test nodes, ``[C, C]``, one row per true class.
        decision: predicted class of each node, ``[V]``.
        nodes: ids of a sample of labelled nodes, ``[n]``.
        views: embedding ``[n, H]`` and group ``[n]`` of the sample, by name.
    """

    confusion: np.ndarray  # counts [C, C] on test nodes, a row for each true class
    decision: np.ndarray  # the predicted class of each node, [V]
    nodes: np.ndarray  # ids of a sample of labelled nodes, [n]
    views: dict[str, tuple[np.ndarray, np.ndarray]]  # their embedding [n, H] and group [n]


class TensorBoard:
    """Callback that writes TensorBoard events and figures without changing the results of a run.

    Args:
        directory: directory of the run. Events are written there, and figures also to ``figures/``.
        events: whether to write TensorBoard events.
        figures: whether to draw the first episode, every k-th episode and the selected one.
        every: k; 0 = draw no episode between the first and the selected one.
        how: projection of embeddings, ``pca`` or ``tsne``.
        projector: whether to write the selected episode's embeddings for the projector; None = the
            value of ``figures``.
        start: first episode that will be recorded. Existing events of this episode and later ones,
            from an interrupted run, are discarded.
    """

    def __init__(
        self,
        directory: Path,
        events: bool = True,
        figures: bool = True,
        every: int = 0,
        how: str = "pca",
        projector: bool | None = None,
        start: int = 0,
    ) -> None:
        self.directory, self.figures, self.every, self.how = Path(directory), figures, every, how
        self.projector = events and (figures if projector is None else projector)
        self.maps: dict[str, dict[int, tuple[np.ndarray, np.ndarray]]] = {}
        self.writer = None
        if events:
            self.writer = Events(self.directory, start)

    def __call__(self, episode: Episode, method: Method, task: ShiftTask) -> None:
        """Write the scalars of an episode, and draw the episode if it is selected for drawing.

        Args:
            episode: record of the episode.
            method: the method after the episode.
            task: the task on which the method is scored.
        """
        number = episode.number
        if self.writer is not None:
            from torch.utils.tensorboard.summary import scalar

            for block in ("losses", "val", "test"):
                for name, value in getattr(episode, block).items():
                    self.writer.add(scalar(f"{block}/{name}", value), number)
            self.writer.add(scalar("seconds", episode.seconds), number)
            self.writer.flush()
        chosen = number == 0 or self.every and number % self.every == 0
        # SRNC finds the unknown class in episode 1, so the figure of all episodes always has it.
        if self.figures and (chosen or number == 1 and method.views()):
            seen = snapshot(method, task)
            self._map(seen, number, task)
            if chosen:
                self._draw(seen, f"episode-{number:03d}", "", f"episode {number}", number, task)

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
        if self.figures or self.projector:
            seen = snapshot(method, task)
        if self.figures:
            self._map(seen, record.best, task)
            self._draw(
                seen, "selected", "selected/", f"selected episode {record.best}", record.best, task
            )
            self._draw_episodes(record.best, task)
            self._draw_reliability(record, task)
        if self.writer is None:
            return
        from torch.utils.tensorboard.summary import text as text_summary

        if self.projector and seen.views:
            from graphgym_srnc.plots.embedding import principal
            from graphgym_srnc.plots.projector import MAX_AXES, write_projector

            vectors = {
                name: principal(points, MAX_AXES) for name, (points, _) in seen.views.items()
            }
            write_projector(self.directory, vectors, columns(seen, task))
        sentences = record.verdict.get("sentences", {}).values()
        for tag, texts in (("warnings", record.warnings), ("verdict", sentences)):
            for number, text in enumerate(texts):
                self.writer.add(text_summary(tag, text), number)
        name = settings.get("method", type(method).__name__.lower())
        known = identity(name, method.encoder.kind, task.name, task.info)
        for summary, step in final({**settings, **known}, record.val, record.test, record.best):
            self.writer.add(summary, step)

    def checkpoint(self) -> dict[str, Any]:
        """Flush the events, and return the maps so far as tensors for :meth:`restore`."""
        if self.writer is not None:
            self.writer.flush()
        return {
            name: {number: tuple(map(torch.as_tensor, pair)) for number, pair in maps.items()}
            for name, maps in self.maps.items()
        }

    def restore(self, maps: Mapping[str, Any]) -> None:
        """Restore the maps of a :meth:`checkpoint`."""
        self.maps = {
            name: {number: tuple(part.numpy() for part in pair) for number, pair in pairs.items()}
            for name, pairs in maps.items()
        }

    def close(self) -> None:
        """Write remaining events; may be called more than once."""
        if self.writer is not None:
            self.writer.flush()

    def _map(self, seen: Snapshot, number: int, task: ShiftTask) -> None:
        """Store the maps of an episode with the class that colours each node."""
        from graphgym_srnc.plots.embedding import majority, map_2d

        label = task.target.y.cpu().numpy()[seen.nodes]
        for name, (points, group) in seen.views.items():
            # Clusters are coloured by majority class, predictions of the classifier directly.
            colour = seen.decision[seen.nodes] if name == "classifier" else majority(group, label)
            self.maps.setdefault(name, {})[number] = map_2d(points, self.how), colour

    def _draw(
        self, seen: Snapshot, stem: str, prefix: str, title: str, step: int, task: ShiftTask
    ) -> None:
        from graphgym_srnc.plots.charts import confusion_figure
        from graphgym_srnc.plots.embedding import embedding_figure

        outputs = known_names(task)
        figure = confusion_figure(seen.confusion, outputs, f"{task.name}, test nodes, {title}")
        self._picture(f"{prefix}confusion", f"confusion-{stem}", figure, step)
        label, names, unseen = classes(task)
        for name, (_, group) in seen.views.items():
            by_class = name == "classifier"
            figure = embedding_figure(
                self.maps[name][step][0],
                seen.decision[seen.nodes] if by_class else group,
                label[seen.nodes],
                names,
                f"{task.name}, {name.replace('_gnn', ' GNN')}, {title} ({self._how})",
                unseen,
                outputs if by_class else (),
            )
            self._picture(f"{prefix}{name}", f"{name}-{stem}", figure, step)

    def _draw_episodes(self, best: int, task: ShiftTask) -> None:
        from graphgym_srnc.plots.embedding import episodes_figure

        if self.maps:
            title = f"{task.name}, by episode ({self._how})"
            figure = episodes_figure(self.maps, known_names(task), title, best)
            self._picture("selected/episodes", "episodes", figure, best)

    def _draw_reliability(self, record: RunRecord, task: ShiftTask) -> None:
        from graphgym_srnc.plots.charts import reliability_figure

        found = record.verdict.get("reliability", {})
        curves = {
            name: found[part]
            for part, name in (("val", "validation"), ("test", "test"))
            if found.get(part)
        }
        if curves:
            figure = reliability_figure(curves, f"{task.name}, selected episode {record.best}")
            self._picture("selected/reliability", "reliability", figure, record.best)

    @property
    def _how(self) -> str:
        return "t-SNE" if self.how == "tsne" else "PCA"

    def _picture(self, tag: str, stem: str, figure: Any, step: int) -> None:
        from graphgym_srnc.plots.style import encode

        content = encode(figure)
        atomic.write_bytes(self.directory / "figures" / f"{stem}.png", content)
        if tag.startswith("selected/"):  # for publications
            atomic.write_bytes(self.directory / "figures" / f"{stem}.pdf", encode(figure, "pdf"))
        if self.writer is not None:
            self.writer.add(image(tag, content), step)


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
    graphs = {
        "pool": task.target,
        "test": task.target,
        "val": task.validation,
        "train": task.source,
    }
    for part, graph in graphs.items():
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
