"""TensorBoard event files of runs and of aggregates over runs."""

from __future__ import annotations

import io
import itertools
import os
import socket
import tempfile
import time
from math import isfinite
from pathlib import Path
from typing import Any, Iterable, Mapping

from graphgym_srnc.core.text import LAYERS, method_name
from graphgym_srnc.errors import InputError
from graphgym_srnc.io import records

SAID = ("train.mode", "gnn.layer_type", "dataset.format", "dataset.name")
"""Config keys whose values are already contained in method, backbone and data."""

MEAN = "mean"
"""Subdirectory of an experiment for the events that aggregate all its runs."""

FIRST = ("macro_recall", "micro_f1", "unknown_auroc")
"""Scores that HParams shows initially: five columns in alphabetical order."""

_number = itertools.count()


class Events:
    """Event file of a running experiment, written to disk at each :meth:`flush`.

    ``SummaryWriter`` writes in a thread, which prints a traceback when the disk is full.

    Args:
        directory: directory of the run.
        start: if above 0, existing events of this step and later steps are discarded.
    """

    def __init__(self, directory: Path, start: int = 0) -> None:
        from tensorboard.compat.proto.event_pb2 import SessionLog
        from tensorboard.summary.writer.record_writer import RecordWriter

        name = f"{int(time.time()):010}.{socket.gethostname()}.{os.getpid()}.{next(_number)}"
        self.path = directory / f"events.out.tfevents.{name}"
        directory.mkdir(parents=True, exist_ok=True)
        self.path.touch(exist_ok=False)  # so that it is no link to another file
        self.waiting = io.BytesIO()
        self.records = RecordWriter(self.waiting)
        self.add(step=start, file_version="brain.Event:2")
        if start:
            self.add(step=start, session_log=SessionLog(status=SessionLog.START))
        self.flush()

    def add(self, summary: Any = None, step: int = 0, **fields: Any) -> None:
        """Add a summary, or an event with other fields."""
        from tensorboard.compat.proto.event_pb2 import Event

        event = Event(wall_time=time.time(), step=step, summary=summary, **fields)
        self.records.write(event.SerializeToString())

    def flush(self) -> None:
        """Write the added summaries to disk.

        Raises:
            InputError: the file cannot be written.
        """
        content = self.waiting.getvalue()
        self.waiting.seek(0)
        self.waiting.truncate()
        try:
            with open(self.path, "ab") as file:
                file.write(content)
        except OSError as error:
            message = f"{self.path.parent} cannot be written ({error.strerror})"
            raise InputError.plain("out_dir", message) from error


def write_aggregate(directory: Path, results: Mapping[int, records.Result]) -> Path | None:
    """Write the mean and standard deviation of each scalar over runs to ``mean/`` of an experiment.

    A layout for the dashboard Custom Scalars shows them as a curve with a band. Tags equal those of
    the runs, so the mean appears in the same charts. A run that stopped early is extended with the
    values of its selected episode.

    Args:
        directory: directory of the experiment.
        results: finished runs by seed.

    Returns:
        The event file; None if there are no runs.
    """
    from torch.utils.tensorboard.summary import custom_scalars, scalar

    from graphgym_srnc.plots.charts import band, history

    if not results:
        return None
    episodes = [episode for result in results.values() for episode in result["history"]]
    layout: dict[str, dict[str, list[Any]]] = {}
    summaries: list[tuple[Any, int]] = []
    for block in ("test", "val", "train", "losses"):
        # The dashboard shows the last chart first.
        for name in sorted(set().union(*(episode[block] for episode in episodes)), reverse=True):
            tag = f"{block}/{name}"
            mean, low, high = band(history(results, block, name))
            # The band has a mean of its own: the dashboard shows no band for the tags of runs.
            bands = [f"within_std/{tag}/{side}" for side in ("mean", "lower", "upper")]
            layout.setdefault(block, {})[tag] = ["Margin", bands]
            for side, values in zip([tag, *bands], (mean, mean, low, high)):
                summaries += [(scalar(side, v), n) for n, v in enumerate(values) if isfinite(v)]
    return write_events(directory / MEAN, [(custom_scalars(layout), 0), *summaries])


def scalars(episode: Mapping[str, Any]) -> list[tuple[Any, int]]:
    """Summaries of an episode with its number: losses, scores and seconds."""
    from torch.utils.tensorboard.summary import scalar

    values = {
        f"{block}/{name}": value
        for block in ("losses", "val", "test")
        for name, value in episode[block].items()
    } | {"seconds": episode["seconds"]}
    return [(scalar(tag, value), episode["number"]) for tag, value in values.items()]


def final(result: Mapping[str, Any], settings: Mapping[str, Any]) -> list[tuple[Any, int]]:
    """Summaries at the end of a run with their steps: hyper-parameters and final scores.

    Args:
        result: ``method``, ``backbone``, ``task``, ``val``, ``test`` and ``selected`` of a run.
        settings: the seed and other settings, by config key.
    """
    from torch.utils.tensorboard.summary import hparams, scalar

    # An oracle has the data of the runs that it bounds.
    shown = {**settings, "data": result["task"].removesuffix("/oracle")}
    shown["method"] = method_name(result["method"], result["backbone"])
    shown["backbone"] = LAYERS.get(result["backbone"], result["backbone"])
    scores = {
        f"{'final' if name in FIRST else 'final_more'}/{split}_{name}": value
        for split in ("val", "test")
        for name, value in result[split].items()
    }
    values = {
        key: value if isinstance(value, (bool, int, float)) else str(value or "none")
        for key, value in shown.items()
        if key not in SAID
    }
    # The first summary lists the keys of a whole folder. The viewer would apply that of one run to
    # all runs and hide keys that only other runs have.
    _, begin, end = hparams(values, scores)
    step, last = result["selected"], [(begin, 0), (end, 0)]
    return [*last, *((scalar(tag, value), step) for tag, value in scores.items())]


def write_events(directory: Path, summaries: Iterable[tuple[Any, int]]) -> Path:
    """Replace the event file of a directory. A crash leaves the old file, or both, each whole."""
    old = list(directory.glob("events.out.tfevents.*"))
    directory.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".", dir=directory) as folder:
        events = Events(Path(folder))
        for summary, step in summaries:
            events.add(summary, step)
        events.flush()
        # An open viewer detects new content by file name, so the file keeps its new name.
        path = directory / events.path.name
        os.replace(events.path, path)
    for file in old:
        file.unlink(missing_ok=True)
    return path


def image(tag: str, png: bytes) -> Any:
    """Summary with a PNG file, which is not compressed again as ``add_image`` would do."""
    from tensorboard.compat.proto.summary_pb2 import Summary

    width, height = (int.from_bytes(png[start : start + 4], "big") for start in (16, 20))
    value = Summary.Image(height=height, width=width, colorspace=4, encoded_image_string=png)
    return Summary(value=[Summary.Value(tag=tag, image=value)])
