"""Names of data sets: families of PyG and OGB, their members, and where raw files lie."""

from __future__ import annotations

import re
from pathlib import Path

from graphgym_srnc.errors import InputError, did_you_mean

# Family, members, and a member's folder of raw files below ``<root>/<family in lower case>``.
FAMILIES: dict[str, dict[str, str]] = {
    "Planetoid": {"Cora": "Cora/raw", "CiteSeer": "CiteSeer/raw", "PubMed": "PubMed/raw"},
    "CitationFull": {
        name: f"{name.lower()}/raw" for name in ("Cora", "Cora_ML", "CiteSeer", "DBLP", "PubMed")
    },
    "Amazon": {"Computers": "Computers/raw", "Photo": "Photo/raw"},
    "Coauthor": {"CS": "CS/raw", "Physics": "Physics/raw"},
    "WikiCS": {"": "raw"},
    "Airports": {"USA": "usa/raw", "Brazil": "brazil/raw", "Europe": "europe/raw"},
    "Twitch": {name: f"{name}/raw" for name in ("DE", "EN", "ES", "FR", "PT", "RU")},
    "EllipticBitcoinDataset": {"": "raw"},
    "OGB": {"ogbn-arxiv": "ogbn_arxiv/raw", "ogbn-products": "ogbn_products/raw"},
}

# Names of the classes of a data set, in the order of their numbers, by its full name.
CLASS_NAMES = {
    "Planetoid/Cora": (
        "Theory, Reinforcement Learning, Genetic Algorithms, Neural Networks, "
        "Probabilistic Methods, Case Based, Rule Learning"
    ).split(", "),
    "Planetoid/CiteSeer": ("AI", "ML", "IR", "DB", "Agents", "HCI"),
    "Planetoid/PubMed": ("Experimental", "Type 1", "Type 2"),
}


def known_names() -> list[str]:
    """Full names of the data sets that work out of the box."""
    return [_join(family, member) for family in FAMILIES for member in FAMILIES[family]]


def full_name(name: str) -> str:
    """The name with its family, e.g. ``Planetoid/Cora`` for ``cora``; see ``resolve``."""
    return _join(*resolve(name))


def resolve(name: str) -> tuple[str, str]:
    """Family and member of a name.

    ``Family/Member``, or the member alone, which means the first family that has it: ``Cora`` is
    ``Planetoid/Cora``. Case does not matter. Any other PyG class that holds one graph works as
    ``Class`` or ``Class/Member``, e.g. ``WebKB/Cornell``.
    """
    table = {"corafull": ("CitationFull", "Cora"), "elliptic": ("EllipticBitcoinDataset", "")}
    for family, members in FAMILIES.items():
        for member in members:
            table[_join(family, member).lower()] = (family, member)
            table.setdefault(member.lower() or family.lower(), (family, member))
    if name.lower() in table:
        return table[name.lower()]

    family, _, member = name.partition("/")
    plain = re.fullmatch(r"(\w[\w.+ -]*)?", member)  # PyG makes a folder of that name
    import torch_geometric.datasets
    from torch_geometric.data import Dataset

    kind = getattr(torch_geometric.datasets, family, None)
    is_dataset = isinstance(kind, type) and issubclass(kind, Dataset)
    if family not in FAMILIES and is_dataset and plain:
        return family, member
    short = (member for members in FAMILIES.values() for member in members)
    near = did_you_mean(name, [*short, *known_names(), *table])
    hint = "Use a name of graphgym-srnc data list, or Class/Member of torch_geometric.datasets"
    if Path(name).exists():
        near = ""
        hint = "If it is your own graph, set dataset.format to file"
    raise InputError.plain("name", f"there is no data set {name!r}", f"{near} {hint}".strip())


def raw_folder(family: str, member: str) -> str:
    """Where a member's raw files lie below the folder of its family."""
    return FAMILIES.get(family, {}).get(member, member)


def _join(family: str, member: str) -> str:
    return f"{family}/{member}" if member else family
