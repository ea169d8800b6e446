"""TensorBoard event files of runs and of means over runs."""

from __future__ import annotations

import io
import itertools
import os
import socket
import time
from pathlib import Path
from typing import Any, Iterable, Mapping

import numpy as np

from graphgym_srnc.errors import InputError
from graphgym_srnc.io import records
from graphgym_srnc.io.atomic import write_bytes

MEAN = "mean"  # subdirectory of an experiment for the events that aggregate all its runs

Summaries = Iterable[tuple[Any, int]]  # each with its step

_number = itertools.count()


class Events:
    """Event file of a run, to which each ``write`` appends.

    If ``start`` is above 0, viewers discard existing events of this step and later steps.
    ``SummaryWriter`` writes in a thread, which prints a traceback when the disk is full.
    """

    def __init__(self, directory: Path, start: int = 0) -> None:
        self.path = directory / new_name()
        directory.mkdir(parents=True, exist_ok=True)
        self.path.touch(exist_ok=False)  # so that it is no link to another file
        self.write([], head=True, start=start)

    def write(self, summaries: Summaries, head: bool = False, start: int = 0) -> None:
        """Append what ``encoded`` returns; an InputError if the file cannot be written."""
        content = encoded(summaries, head, start)
        try:
            with open(self.path, "ab") as file:
                file.write(content)
        except OSError as error:
            raise InputError.plain(
                "out_dir", f"{self.path.parent} cannot be written ({error.strerror})"
            ) from error


def new_name() -> str:
    """Name of an event file that no other one has."""
    unique = f"{int(time.time()):010}.{socket.gethostname()}.{os.getpid()}.{next(_number)}"
    return f"events.out.tfevents.{unique}"


def encoded(summaries: Summaries, head: bool = False, start: int = 0) -> bytes:
    """Content of an event file, with its head or as a part to append; see ``Events``."""
    from tensorboard.compat.proto.event_pb2 import Event, SessionLog
    from tensorboard.summary.writer.record_writer import RecordWriter

    content = io.BytesIO()
    fields: list[dict[str, Any]] = []
    if head:
        fields.append({"file_version": "brain.Event:2", "step": start})
    if start:
        fields.append({"session_log": SessionLog(status=SessionLog.START), "step": start})
    fields += [{"summary": summary, "step": step} for summary, step in summaries]
    for one in fields:
        RecordWriter(content).write(Event(wall_time=time.time(), **one).SerializeToString())
    return content.getvalue()


def write_aggregate(directory: Path, results: Mapping[int, records.Result]) -> Path | None:
    """Replace the events in ``mean/`` of an experiment by the mean of each scalar over runs.

    Tags equal those of the runs, so the mean appears in the same charts. A run that stopped early
    is extended with the values of its selected episode. Returns the file; None without runs.
    """
    from torch.utils.tensorboard.summary import scalar

    from graphgym_srnc.plots.charts import history

    if not results:
        return None
    episodes = [episode for result in results.values() for episode in result["history"]]
    summaries: list[tuple[Any, int]] = []
    for block in ("test", "val", "train", "losses"):
        for name in sorted(set().union(*(episode[block] for episode in episodes))):
            means = np.ma.masked_invalid(history(results, block, name)).mean(0)
            tag = f"{block}/{name}"
            steps = np.flatnonzero(~np.ma.getmaskarray(means))
            summaries += [(scalar(tag, means[step]), step) for step in steps.tolist()]
    old = list((directory / MEAN).glob("events.out.tfevents.*"))
    # An open viewer detects new content by file name. A crash leaves the old file, or both.
    path = directory / MEAN / new_name()
    path.parent.mkdir(parents=True, exist_ok=True)
    write_bytes(path, encoded(summaries, head=True))
    for file in old:
        file.unlink(missing_ok=True)
    return path


def image(tag: str, png: bytes) -> Any:
    """Summary with a PNG file, which is not compressed again as ``add_image`` would do."""
    from tensorboard.compat.proto.summary_pb2 import Summary

    width, height = (int.from_bytes(png[start : start + 4], "big") for start in (16, 20))
    value = Summary.Image(height=height, width=width, colorspace=4, encoded_image_string=png)
    return Summary(value=[Summary.Value(tag=tag, image=value)])
