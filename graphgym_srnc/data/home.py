"""The data folder: where files of data sets lie, and where downloads are kept."""

from __future__ import annotations

import contextlib
import os
import shutil
from pathlib import Path
from typing import Iterator

from graphgym_srnc.io import atomic


def data_folder(root: str = "") -> Path:
    """``root``, else the environment's ``GRAPHGYM_SRNC_DATA``, else ``./datasets``.

    GraphGym's default ``./datasets`` counts as no choice, so that the variable may replace it.
    """
    chosen = "" if os.path.normpath(root or "datasets") == "datasets" else root
    chosen = chosen or os.environ.get("GRAPHGYM_SRNC_DATA") or "datasets"
    return Path(chosen).expanduser().absolute()


def folder_of(family: str, root: str = "") -> Path:
    """The folder that holds the files of a family of data sets."""
    return data_folder(root) / family.lower()


def files_below(folder: Path) -> Iterator[Path]:
    """Whole raw files in a folder and its sub-folders, sorted; none of what PyG made of them."""
    for parent, folders, files in os.walk(folder, followlinks=True):
        folders[:] = sorted(set(folders) - {"processed"})
        # Another process is still writing a hidden file, and whoever opens a pipe waits for ever.
        paths = (Path(parent) / file for file in sorted(files) if not file.startswith("."))
        yield from filter(Path.is_file, paths)


def link(folder: Path, staging: Path) -> None:
    """Links to the raw files of a folder in another one."""
    for file in files_below(folder):
        link = staging / file.relative_to(folder)
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(file.resolve())


def keep(staging: Path, folder: Path) -> None:
    """Copy downloads, each whole or not at all; a folder that is read-only stays as it is.

    Links in ``staging`` are no downloads, nor is the mark that keeps ogb from asking questions.
    """
    with contextlib.suppress(OSError):
        for file in files_below(staging):
            if not file.is_symlink() and file.name != "RELEASE_v1.txt":
                with atomic.replacing(folder / file.relative_to(staging)) as temporary:
                    shutil.copyfile(file, temporary)
