"""PyG's and ogb's node-classification data sets by name, each in the one form that methods see."""

from __future__ import annotations

import sys
import tempfile
import warnings
from contextlib import redirect_stdout
from functools import lru_cache
from pathlib import Path
from typing import Any

import pandas
import torch
import torch_geometric.datasets
from torch.nn import functional as F
from torch_geometric.data import Data
from torch_geometric.utils import degree, index_to_mask

from graphgym_srnc.data import catalogue, cleaning, home, untrusted
from graphgym_srnc.errors import InputError, reading
from graphgym_srnc.io import checksums

# Families that are read without ``--trust``. Their readers evaluate no text, and open arrays or
# text, or Planetoid's pickles of known SHA-256.
SAFE = set(
    "Actor Airports Amazon CitationFull Coauthor DeezerEurope EllipticBitcoinDataset "
    "FacebookPagePage Flickr GemsecDeezer GitHub GraphLandDataset HeterophilousGraphDataset "
    "LastFMAsia OGB "
    "Planetoid Reddit Reddit2 Twitch WebKB WikiCS WikipediaNetwork".split()
)
TEXT = (
    ".csv",
    ".csv.gz",
    ".edgelist",
    ".json",
    ".txt",
    ".yaml",
)  # raw files that are parsed as text

# Digests and names of Planetoid's pickles, as ``sha256sum`` writes them. The second one of
# ``ind.pubmed.allx`` is of a copy rebuilt from text with 6 significant digits; a GCN scores the
# same on it.
PLANETOID = Path(__file__).with_name("planetoid.sha256")

MOST_DEGREE = 240  # degree of an airport that has a feature of its own; larger ones share it


@lru_cache(maxsize=2)
def load(name: str, root: str = "") -> Data:
    """One graph: ``x`` ``[V, F]``, ``edge_index`` ``[2, E]``, ``y`` ``[V]``, and public masks.

    A node without a label has ``y`` -1. Nothing is written beside the raw files, and they run no
    code unless ``untrusted.trusted``. The result is shared between calls: do not change it.
    """
    graphs = load_all(name, root)
    if len(graphs) != 1:
        raise InputError.plain(
            "name",
            f"{name!r} has {len(graphs)} graphs, which are states of one that grows",
            "Use `shift='own_split'`",
        )
    return graphs[0]


@lru_cache(maxsize=2)
def load_all(name: str, root: str = "") -> tuple[Data, ...]:
    """The graph of a data set, see :func:`load`, or the states of one that grows.

    States have a mask of their labelled nodes each, ``train_mask``, ``val_mask`` and ``test_mask``,
    and ``node_year`` is the number of the state in which a node appears.
    """
    family, member = catalogue.resolve(name)
    graphs = _read(family, member, name, home.folder_of(family, root))
    return tuple(_cleaned(data, family, member, name) for data in graphs)


def _cleaned(data: Data, family: str, member: str, name: str) -> Data:
    """A graph of a data set in the one form, with what its files lack."""
    if (family, member) == ("Planetoid", "CiteSeer"):
        # 15 papers are missing in the raw files; PyG fills them in without features, edges or a
        # label and calls them class 0.
        data.y = data.y.masked_fill(data.x.abs().sum(1) == 0, -1)
    if family == "EllipticBitcoinDataset":
        data.y = data.y.masked_fill(data.y == 2, -1)  # PyG's class for transactions of no class
    data = cleaning.clean(data, name)
    if family == "Airports":
        # PyG numbers the nodes as features, which another network cannot share.
        count = degree(data.edge_index[0], data.num_nodes).long().clamp(max=MOST_DEGREE)
        data.x = F.one_hot(count, MOST_DEGREE + 1).float()
    return data


def _read(family: str, member: str, name: str, source: Path) -> list[Data]:
    """The graphs of a data set, with the split of ogb as masks, and times as ``node_year``.

    PyG works on links in a temporary folder, so the data folder may be read-only, parallel runs
    cannot meet, and processed files in the data folder are not read. Only downloads are kept.
    """
    if family not in SAFE and not untrusted.is_trusted():
        raise InputError.plain(
            "name",
            f"PyG's reader of {family} may run code that the files of {name!r} contain",
            untrusted.HINT,
        )
    base = _class_of(family)
    is_ogb = family == "OGB"
    with tempfile.TemporaryDirectory(prefix="graphgym_srnc-") as folder:
        staging = Path(folder)
        home.link(source, staging)
        if is_ogb and (staging / member.replace("-", "_")).is_dir():
            # Without this file ogb asks on the terminal.
            (staging / member.replace("-", "_") / "RELEASE_v1.txt").touch()

        reader = _staged_class(base, name, staging, source)
        arguments = catalogue.arguments(name, base) | ({"name": member} if member else {})
        with warnings.catch_warnings(), redirect_stdout(sys.stderr), untrusted.tensors_only():
            warnings.simplefilter("ignore")
            with reading(source, f"a folder from which PyG's {base.__name__} reads {name}", "name"):
                dataset = reader(**arguments, root=str(staging))
                data = dataset[0]
                split = dataset.get_idx_split() if is_ogb else {}
            graphs = _states(dataset) if "snapshot" in data else [data]
            if len(dataset) != len(graphs) or not hasattr(data, "edge_index") or data.y is None:
                raise InputError.plain("name", f"{name!r} is not one graph with node classes")
            for part, nodes in split.items():
                mask = "val_mask" if part == "valid" else f"{part}_mask"
                data[mask] = index_to_mask(nodes, data.num_nodes)
            if family == "EllipticBitcoinDataset":  # PyG reads their steps, and drops them
                steps = pandas.read_csv(dataset.raw_paths[0], header=None, usecols=[1])
                data.node_year = torch.tensor(steps[1].to_numpy())
        home.keep(staging, source)
    return graphs


def _class_of(family: str) -> Any:
    """The class that reads a family of data sets."""
    if family == "OGB":
        from ogb.nodeproppred import PygNodePropPredDataset  # slow to import

        return PygNodePropPredDataset
    return getattr(torch_geometric.datasets, family)


def _states(dataset: Any) -> list[Data]:
    """The states of a graph that grows, see :func:`load_all`, as GraphLand's split THI has them."""
    states: list[Data] = []
    for number, data in enumerate(dataset):
        node = data.cross_snapshot_node_id
        data.node_year = torch.full((len(node),), number)
        for earlier in reversed(range(number)):
            data.node_year[torch.isin(node, states[earlier].cross_snapshot_node_id)] = earlier
        data[f"{data['snapshot']}_mask"] = data.mask
        states.append(data)
    return states


def _verify(file: Path, shown: Path) -> None:
    """Refuse a file of Planetoid, which a user knows as ``shown``, unless its SHA-256 is public."""
    lines = PLANETOID.read_text(encoding="utf-8").splitlines()
    expected = [digest for digest, name in map(str.split, lines) if name == file.name]
    if (found := checksums.of_file(file)) not in expected:
        raise InputError.plain(
            str(shown),
            f"its SHA-256 is {found}, and not the published {' or '.join(expected)}",
            f"Download the file again. {untrusted.HINT}",
        )


def _check_arrays(file: Path) -> None:
    """Refuse a file of arrays that holds code, and remove one that is neither arrays nor text."""
    if file.suffix == ".npz":  # some readers open arrays by allow_pickle
        untrusted.arrays(file.resolve())
    elif file.suffix == ".npy":
        untrusted.array(file.resolve(), mapped=True)
    elif not file.name.endswith(TEXT):
        file.unlink()  # for example a split_dict.pt, which ogb would unpickle


def _staged_class(base: Any, name: str, staging: Path, source: Path) -> Any:
    """``base`` with checks of its files, without its log, and with errors that name ``source``."""

    def shown(path: str | Path) -> Path:
        return source / Path(path).relative_to(staging)

    class Staged(base):
        def download(self) -> None:
            for path in Path(self.raw_dir).glob("*"):  # a link must not be written through
                path.unlink() if path.is_symlink() else None
            try:
                base.download(self)
            except (Exception, SystemExit) as error:
                files = [Path(path).name for path in self.raw_paths]
                hint = f"put these files into {shown(self.raw_dir)}: {', '.join(files)}"
                if hasattr(self, "meta_info"):  # ogb's; its list of raw files is not complete
                    hint = f"unpack {self.meta_info['url']} and copy its folders raw and split"
                    hint += f" into {shown(self.root)}"
                raise InputError.plain(
                    "name",
                    f"{name} could not be downloaded ({type(error).__name__})",
                    f"Connect to a network, or {hint}",
                ) from error

        def _process(self) -> None:
            self.log = False
            pickles = self.raw_paths if base is torch_geometric.datasets.Planetoid else ()
            for path in () if untrusted.is_trusted() else list(home.files_below(staging)):
                with reading(path, "a file of plain arrays", str(shown(path)), untrusted.HINT):
                    if str(path) in pickles:
                        _verify(path, shown(path))
                    else:
                        _check_arrays(path)
            base._process(self)

    return Staged
