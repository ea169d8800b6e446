"""TensorBoard as a callback of the trainer: scalars of each episode, pictures at chosen ones, settings and final scores once."""
from __future__ import annotations

import contextlib
import random
from pathlib import Path
from typing import Any, Iterator, Mapping

import numpy as np
import torch

from graphgym_srnc.methods.base import Method
from graphgym_srnc.metrics import confusion_matrix
from graphgym_srnc.store import write_bytes
from graphgym_srnc.task import ShiftTask
from graphgym_srnc.trainer import Episode, RunRecord


class TensorBoard:
    """Call it after each episode, then :meth:`close` it; the numbers of the run stay what they are without it.

    Args:
        directory: the directory of the run; events go there, pictures also to ``figures/`` in it.
        events: whether to write TensorBoard events.
        figures: whether to draw the first episode, every k-th, and the selected one.
        every: k; 0 = none between the first and the selected one.
        how: the map of embeddings, ``pca`` or ``tsne``.
    """

    def __init__(self, directory: Path, events: bool = True, figures: bool = True, every: int = 0, how: str = "pca") -> None:
        self.directory, self.figures, self.every, self.how = Path(directory), figures, every, how
        self.writer = None
        if events:
            from torch.utils.tensorboard import SummaryWriter
            self.writer = SummaryWriter(str(self.directory))

    def __call__(self, episode: Episode, method: Method, task: ShiftTask) -> None:
        if self.writer is not None:
            for block in ("losses", "val", "test"):
                for name, value in getattr(episode, block).items():
                    self.writer.add_scalar(f"{block}/{name}", value, episode.number)
            self.writer.add_scalar("seconds", episode.seconds, episode.number)
        if self.figures and (episode.number == 0 or self.every and episode.number % self.every == 0):
            self._draw(f"episode-{episode.number:03d}", "", f"episode {episode.number}", episode.number, method, task)

    def finish(self, record: RunRecord, method: Method, task: ShiftTask, settings: Mapping[str, Any]) -> None:
        """Draw the selected episode, and write warnings, settings and final scores."""
        if self.figures:
            self._draw("selected", "selected/", f"selected episode {record.best}", record.best, method, task)
        if self.writer is None:
            return
        for number, warning in enumerate(record.warnings):
            self.writer.add_text("warnings", warning, number)
        from torch.utils.tensorboard.summary import hparams
        final = {f"final/{split}_{name}": value for split in ("val", "test") for name, value in getattr(record, split).items()}
        plain = {key: value if isinstance(value, (bool, int, float, str)) else str(value) for key, value in settings.items()}
        for summary in hparams(plain, final):
            self.writer.file_writer.add_summary(summary)
        for name, value in final.items():
            self.writer.add_scalar(name, value, record.best)

    def close(self) -> None:
        """Flush what there is; safe to call twice."""
        if self.writer is not None:
            self.writer.close()

    def _draw(self, stem: str, prefix: str, title: str, step: int, method: Method, task: ShiftTask) -> None:
        from graphgym_srnc.report.figures import confusion_figure, embedding_figure, map_2d, png, sample
        with untouched(method), torch.no_grad():
            target = blind(method, task).target
            prediction = method.decide(method.predict(target)[task.test]).cpu()
            counts = confusion_matrix(prediction, task.target.y[task.test].cpu(), task.num_outputs).numpy()
            pictures = {"confusion": confusion_figure(counts, known_names(task), f"{task.name}, test nodes, {title}")}
            label, names, unseen = classes(task)
            nodes = sample(task.target.num_nodes)
            nodes = nodes[label[nodes] >= 0]
            for name, view in method.views().items() if len(nodes) > 2 else ():
                embedding, group = (part.detach().cpu().numpy() for part in view(target))
                pictures[name] = embedding_figure(map_2d(embedding[nodes].astype(np.float64), self.how), group[nodes], label[nodes], names,
                                                  f"{task.name}, {name}, {title} ({'t-SNE' if self.how == 'tsne' else 'PCA'})", unseen)
        for name, figure in pictures.items():
            image = png(figure)
            write_bytes(self.directory / "figures" / f"{name}-{stem}.png", image)
            if self.writer is not None:
                self.writer.file_writer.add_summary(_image(f"{prefix}{name}", image, figure), step)


def blind(method: Method, task: ShiftTask) -> ShiftTask:
    """The task as the method holds it, so that what it cached for its graph objects serves again."""
    held = getattr(method, "task", None)
    return held if isinstance(held, ShiftTask) else task.blind()


def known_names(task: ShiftTask) -> list[str]:
    """One name per output: the known classes, by their original number where they have no name, then ``unknown``."""
    names = list(task.class_names[:task.num_known])
    if not names:
        label, true = task.target.y, getattr(task.target, "y_true", task.target.y)
        first = [true[label == index][:1].tolist() for index in range(task.num_known)]
        names = [str(original[0] if original else index) for index, original in enumerate(first)]
    return names + ["unknown"] * int(task.open_set)


def classes(task: ShiftTask) -> tuple[np.ndarray, list[str], list[int]]:
    """Class of each target node ``[V]`` with unseen classes told apart where ``y_true`` says which, their names, the unseen ones."""
    label, names = task.target.y.cpu().numpy().copy(), known_names(task)
    true = getattr(task.target, "y_true", None)
    if not task.open_set:
        return label, names, []
    unseen = label == task.num_known
    if true is not None and unseen.any():
        true = true.cpu().numpy()
        originals, index = np.unique(true[unseen], return_inverse=True)
        label[unseen] = task.num_known + index
        every = dict(zip(np.unique(true[true >= 0]).tolist(), task.oracle.class_names if task.oracle is not None else ()))
        names = names[:-1] + [f"unseen {every.get(original, original)}" for original in originals.tolist()]
    return label, names, list(range(task.num_known, len(names)))


@contextlib.contextmanager
def untouched(method: Method) -> Iterator[None]:
    """Put back every random generator and the training mode of each module on leaving."""
    modes = {module: module.training for module in method.modules()}
    python, numpy = random.getstate(), np.random.get_state()
    try:
        with torch.random.fork_rng():
            yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)
        for module, mode in modes.items():
            module.training = mode


def _image(tag: str, png: bytes, figure: Any) -> Any:
    # The writer's own add_image takes pixels and compresses them a second time.
    from tensorboard.compat.proto.summary_pb2 import Summary
    width, height = figure.canvas.get_width_height()
    picture = Summary.Image(height=height, width=width, colorspace=4, encoded_image_string=png)
    return Summary(value=[Summary.Value(tag=tag, image=picture)])
