"""Names of data sets: families of PyG and OGB, their members, and where raw files lie."""

from __future__ import annotations

import contextlib
import inspect
import re
from typing import Any, Mapping, get_args

from graphgym_srnc.core.text import listed
from graphgym_srnc.errors import InputError, did_you_mean

# Families and their members.
FAMILIES = {
    "Planetoid": ("Cora", "CiteSeer", "PubMed"),
    "CitationFull": ("Cora", "Cora_ML", "CiteSeer", "DBLP", "PubMed"),
    "Amazon": ("Computers", "Photo"),
    "Coauthor": ("CS", "Physics"),
    "WikiCS": ("",),
    "Airports": ("USA", "Brazil", "Europe"),
    "Twitch": ("DE", "EN", "ES", "FR", "PT", "RU"),
    "EllipticBitcoinDataset": ("",),
    "OGB": ("ogbn-arxiv", "ogbn-products"),
}

# Networks of the shifts ``cross_graph`` and ``ocnnc``, by the folder of their files.
NETWORKS = {
    "citation": ("acmv9", "citationv1", "dblpv7"),
    "blog": ("Blog1", "Blog2"),
    "mag": ("MAG_CN", "MAG_DE", "MAG_FR", "MAG_JP", "MAG_RU", "MAG_US"),
    "ocnnc": ("citation-v1", "dblp-v4", "acm-v8"),
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


SET_BY_US = ("self", "root", "name", "transform", "pre_transform", "pre_filter", "force_reload")
"""Arguments of a class of PyG that no name may set."""


def with_arguments(name: str, given: Mapping[str, str]) -> str:
    """The name with more arguments of its class, for example ``Class/Member?split=TH``."""
    base, arguments = _parts(name)
    words = "&".join(f"{key}={value}" for key, value in {**arguments, **given}.items())
    return f"{base}?{words}" if words else base


def arguments(name: str, made_by: Any) -> dict[str, Any]:
    """The arguments in a name, in the types of the signature of the class that it names.

    Raises:
        InputError: the class has no such argument, it is of another type, or one is missing.
    """
    _, given = _parts(name)
    known = {
        key: one
        for key, one in inspect.signature(made_by.__init__, eval_str=True).parameters.items()
        if key not in SET_BY_US and one.kind is one.POSITIONAL_OR_KEYWORD
    }
    needed = {key for key, one in known.items() if one.default is one.empty}
    if not needed <= {*given} <= {*known}:
        raise InputError.plain(
            "name",
            f"the arguments of PyG's {made_by.__name__} are {listed([*known]) or 'none'}",
            f"Give {listed(sorted(needed)) or 'them'} in the name, as in Class/Member?KEY=VALUE",
            "arguments",
        )
    return {key: _typed(key, value, known[key].annotation) for key, value in given.items()}


def _parts(name: str) -> tuple[str, dict[str, str]]:
    """A name without its arguments, and the arguments."""
    base, _, query = name.partition("?")
    return base, dict(part.partition("=")[::2] for part in query.split("&") if part)


def _typed(key: str, text: str, annotation: Any) -> Any:
    """A text as a value of an annotation: text, a number, true or false, or none."""
    kinds = get_args(annotation) or (annotation,)
    words = {"true": True, "false": False, "none": None}
    if text.lower() in words and type(words[text.lower()]) in kinds:
        return words[text.lower()]
    for kind in [kind for kind in (int, float, str) if kind in kinds]:
        with contextlib.suppress(ValueError):
            return kind(text)
    names = listed([kind.__name__ for kind in kinds])
    raise InputError.plain("name", f"the argument {key} is {text!r}", f"Its type is {names}")


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
    ``Class`` or ``Class/Member``, e.g. ``WebKB/Cornell``. :func:`arguments` may follow.
    """
    name = name.partition("?")[0]
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
    hint = "Use Class/Member of torch_geometric.datasets, or `shift='file'` for your own graph"
    hint = f"{did_you_mean(name, [*known_names(), *table])} {hint}".strip()
    raise InputError.plain("name", f"there is no data set {name!r}", hint, "no_data_set")


def raw_folder(family: str, member: str) -> str:
    """Where a member's raw files lie below the folder of its family."""
    is_lower = family in ("CitationFull", "Airports")
    folder = member.lower() if is_lower else member.replace("-", "_")
    return f"{folder}/raw".removeprefix("/")


def network_file(family: str, name: str) -> str:
    """The file of one of :data:`NETWORKS`."""
    return f"{name}_labels_20.pt" if family == "mag" else f"{name}.mat"


def _join(family: str, member: str) -> str:
    return f"{family}/{member}" if member else family
