"""Where data sets lie: in the data folder, or in the user's cache where that takes no files."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Iterator

from graphgym_srnc.io import atomic
from graphgym_srnc.io.cache import cache_folder


def data_folder(root: str = "") -> Path:
    """``root``, else the environment's ``GRAPHGYM_SRNC_DATA``, else ``./datasets``.

    GraphGym's default ``./datasets`` counts as no choice, so that the variable may replace it.
    """
    chosen = "" if os.path.normpath(root or "datasets") == "datasets" else root
    chosen = chosen or os.environ.get("GRAPHGYM_SRNC_DATA") or "datasets"
    return Path(chosen).expanduser().absolute()


def homes(family: str, root: str = "") -> list[Path]:
    """The folders that may hold the files of a family of data sets, the preferred one first."""
    return [folder / family.lower() for folder in (data_folder(root), cache_folder())]


def files_below(folder: Path) -> Iterator[Path]:
    """Whole raw files in a folder and its sub-folders, sorted; none of what PyG made of them."""
    for parent, folders, files in os.walk(folder, followlinks=True):
        folders[:] = sorted(set(folders) - {"processed"})
        # Another process is still writing a hidden file, and whoever opens a pipe waits for ever.
        paths = (Path(parent) / file for file in sorted(files) if not file.startswith("."))
        yield from filter(Path.is_file, paths)


def keep(staging: Path, homes: list[Path]) -> None:
    """Copy downloaded files to the first home that takes them; each appears whole or not at all.

    Links in ``staging`` are no downloads, nor is the mark that keeps ogb from asking questions.
    """
    fresh = [
        file
        for file in files_below(staging)
        if not file.is_symlink() and file.name != "RELEASE_v1.txt"
    ]
    for home in homes if fresh else ():
        try:
            for file in fresh:
                target = home / file.relative_to(staging)
                with atomic.replacing(target) as temporary:
                    shutil.copyfile(file, temporary)
            return
        except OSError:
            continue
