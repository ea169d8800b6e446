"""Reading a data set by PyG's or ogb's own class without writing beside its raw files."""

from __future__ import annotations

import sys
import tempfile
import warnings
from contextlib import redirect_stdout
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import torch_geometric.datasets
from torch_geometric.data import Data, Dataset
from torch_geometric.utils import index_to_mask

from graphgym_srnc.core.errors import InputError, reason
from graphgym_srnc.data import checksums, home, untrusted


def dataset_class(family: str) -> type[Dataset]:
    """The class that reads a family of data sets."""
    if family == "OGB":
        from ogb.nodeproppred import PygNodePropPredDataset  # slow to import

        return PygNodePropPredDataset
    return getattr(torch_geometric.datasets, family)


def read(base: type[Dataset], name: str, member: str, homes: list[Path], source: Path) -> Data:
    """The one graph of a data set, with the split of ogb as masks.

    PyG works on links in a temporary folder, so the data folder may be read-only, and parallel runs
    cannot meet. Only what had to be downloaded is kept, in the first of ``homes`` that takes it.

    Many of these classes unpickle what they find. So they read under :func:`untrusted.no_code`, but
    for Planetoid's pickles, which are compared with their public SHA-256.

    Args:
        base: what :func:`dataset_class` gave.
        name: the data set as the user calls it.
        member: the data set as the class calls it.
        homes: folders that may keep downloads.
        source: that one of them which holds the files, or should.

    Raises:
        InputError: files absent and no network; a wrong checksum; pickled code; not one graph with
            labels.
    """
    with tempfile.TemporaryDirectory(prefix="graphgym_srnc-") as folder:
        staging = Path(folder)
        for file in home.files_below(source):
            link = staging / file.relative_to(source)
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(file.resolve())
        is_ogb = base.__name__ == "PygNodePropPredDataset"
        if is_ogb and (staging / member.replace("-", "_")).is_dir():
            # Without this file ogb asks on the terminal.
            (staging / member.replace("-", "_") / "RELEASE_v1.txt").touch()

        reader = _staged_class(base, name, staging, source)
        arguments = {"name": member} if member else {}
        with (
            warnings.catch_warnings(),
            redirect_stdout(sys.stderr),
            untrusted.tensors_only(),
            untrusted.no_code(),
        ):
            warnings.simplefilter("ignore")
            try:
                dataset = reader(**arguments, root=str(staging))
                data, split = dataset[0], dataset.get_idx_split() if is_ogb else {}
            except InputError:
                raise
            except Exception as error:
                message = (
                    f"{base.__name__} cannot read {name!r} from {source} "
                    f"({type(error).__name__}: {reason(error)})"
                )
                hint = "Check the name and the files"
                if isinstance(error, UnpicklingError) and not untrusted.is_trusted():
                    hint = f"Pickles can run any code. {untrusted.HINT}"
                raise InputError.plain("name", message, hint) from error
            if len(dataset) != 1 or not hasattr(data, "edge_index") or data.y is None:
                raise InputError.plain("name", f"{name!r} is not one graph with node classes")
            for part, nodes in split.items():
                mask = "val_mask" if part == "valid" else f"{part}_mask"
                data[mask] = index_to_mask(nodes, data.num_nodes)
        home.keep(staging, homes)
    return data


def _by_hand(dataset: Any, raw: Path) -> str:
    """What a user without a network has to put into which folder."""
    if hasattr(dataset, "meta_info"):  # ogb's; its list of raw files is not complete
        return (
            f"unpack {dataset.meta_info['url']} and copy its folders raw and split into "
            f"{raw.parent}"
        )
    files = ", ".join(Path(path).name for path in dataset.raw_paths)
    return f"copy these files into {raw}: {files}"


def _staged_class(base: type[Dataset], name: str, staging: Path, source: Path) -> type[Dataset]:
    """``base`` with checksums, without its log, and with errors that name the user's folder."""

    def shown(path: str) -> Path:
        return source / Path(path).relative_to(staging)

    class Staged(base):
        def download(self) -> None:
            for path in Path(self.raw_dir).glob("*"):  # a link must not be written through
                path.unlink() if path.is_symlink() else None
            try:
                base.download(self)
            except UnpicklingError:
                raise
            except (Exception, SystemExit) as error:
                hint = f"Connect to a network, or {_by_hand(self, shown(self.raw_dir))}"
                raise InputError.plain(
                    "name", f"{name} could not be downloaded ({type(error).__name__})", hint
                ) from error

        def _process(self) -> None:
            self.log = False
            known, trusted = base is torch_geometric.datasets.Planetoid, untrusted.is_trusted()
            for path in self.raw_paths if known and not trusted else ():
                checksums.verify(Path(path), shown(path))
            with untrusted.trusted(known or trusted):
                base._process(self)

    return Staged
