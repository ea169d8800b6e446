"""SHA-256 of Planetoid's raw files: they are pickles, and a foreign pickle can run any code."""

from __future__ import annotations

import hashlib
from pathlib import Path

from graphgym_srnc.core.errors import InputError
from graphgym_srnc.data import untrusted

PLANETOID = Path(__file__).with_name("planetoid.sha256")
"""Digests and names as ``sha256sum`` writes them.

The second one of ``ind.pubmed.allx`` is of a copy rebuilt from text with 6 significant digits; a
GCN scores the same on it.
"""


def verify(file: Path, shown: Path) -> None:
    """Refuse a file of Planetoid, which the user knows as ``shown``, unless its SHA-256 is public.

    Raises:
        InputError: the digest is another, or none is known for a file of that name.
    """
    lines = PLANETOID.read_text(encoding="utf-8").splitlines()
    expected = [digest for digest, name in map(str.split, lines) if name == file.name]
    found = hashlib.sha256(file.read_bytes()).hexdigest()
    if found not in expected:
        message = (
            f"the file is not the published one: its SHA-256 is {found}, not "
            f"{' or '.join(expected)}"
        )
        hint = f"Download the file again. {untrusted.HINT}"
        raise InputError.plain(str(shown), message, hint)
