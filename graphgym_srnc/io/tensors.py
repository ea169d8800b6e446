"""Files of tensors and plain values: trained models, checkpoints and parsed graphs.

A file has the format of safetensors, so that reading it runs no code. Its header contains a JSON
text with the plain values and the SHA-256 of the file.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Mapping

from graphgym_srnc.io import atomic, checksums

if TYPE_CHECKING:
    from torch import Tensor

KEY = "graphgym-srnc"  # key of the JSON text in the metadata of the header
BLANK = "0" * 64  # in place of the digest while it is computed


def dump(about: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> bytes:
    """The bytes of a file of plain values and of dense tensors, which are moved to the CPU."""
    from safetensors.torch import save

    text = json.dumps({"sha256": BLANK, **about}, default=float)
    plain = {name: value.detach().cpu().contiguous().clone() for name, value in tensors.items()}
    content = save(plain, {KEY: text})
    return content.replace(BLANK.encode(), checksums.of(content).encode(), 1)


def write(path: Path, about: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> None:
    """Write a file, whole or not at all, see ``dump``."""
    atomic.write_bytes(path, dump(about, tensors))


def read(path: str | os.PathLike[str]) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """The plain values and the tensors of a file, see ``parse``."""
    return parse(atomic.content(Path(path)))


def parse(content: bytes) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """The plain values and the tensors in the bytes of a file; a ValueError if it is damaged."""
    from safetensors.torch import load

    try:
        header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
        about = json.loads(header["__metadata__"][KEY])
        digest = about.pop("sha256")
        known = content.replace(digest.encode(), BLANK.encode(), 1)
    except Exception as error:  # a foreign file may have anything in the place of the header
        raise ValueError("it is damaged, or another kind of file") from error
    if checksums.of(known) != digest:
        raise ValueError("it is damaged: its checksum is wrong")
    return about, load(content)


def split(value: Any, tensors: dict[str, Tensor]) -> Any:
    """Dictionaries, lists and tuples as plain values; their tensors are put into ``tensors``."""
    import torch

    if isinstance(value, torch.Tensor):
        name = str(len(tensors))
        tensors[name] = value
        return {"tensor": name, "device": str(value.device)}
    if isinstance(value, Mapping):
        return {"dict": [[key, split(part, tensors)] for key, part in value.items()]}
    if isinstance(value, tuple):
        return {"tuple": [split(part, tensors) for part in value]}
    if isinstance(value, list):
        return [split(part, tensors) for part in value]
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise TypeError(f"a state cannot contain a {type(value).__name__}")


def join(value: Any, tensors: Mapping[str, Tensor]) -> Any:
    """The nested state that ``split`` took apart."""
    if isinstance(value, list):
        return [join(part, tensors) for part in value]
    if not isinstance(value, dict):
        return value
    if "tensor" in value:
        return tensors[value["tensor"]].to(value["device"])
    if "tuple" in value:
        return tuple(join(part, tensors) for part in value["tuple"])
    return {key: join(part, tensors) for key, part in value["dict"]}
