"""Whether pictures and event files are as they were written, by the checksums of their formats."""

from __future__ import annotations

import zlib
from typing import Callable

SIGNATURE = b"\x89PNG\r\n\x1a\n"

TORN = "is incomplete: its end is missing"
"""What a process that was killed may leave of an event file."""


def picture(content: bytes) -> str:
    """What is wrong with a PNG file, empty if nothing: each of its chunks ends with a CRC-32."""
    if not content.startswith(SIGNATURE):
        return "is not a PNG file"
    place, kind = len(SIGNATURE), b""
    while place < len(content) and kind != b"IEND":
        end = place + 8 + int.from_bytes(content[place : place + 4], "big")
        kind, chunk = content[place + 4 : place + 8], content[place + 4 : end]
        if end + 4 > len(content):
            return TORN
        if zlib.crc32(chunk) != int.from_bytes(content[end : end + 4], "big"):
            return "is damaged: a checksum is wrong"
        place = end + 4
    if kind != b"IEND":
        return TORN
    return "" if place == len(content) else "is damaged: it has data after its end"


def events(content: bytes) -> str:
    """What is wrong with a file of TensorBoard events, empty if nothing.

    A record is its length, a checksum of that, its bytes and a checksum of these.
    """
    from tensorboard.compat.tensorflow_stub.pywrap_tensorflow import masked_crc32c

    place = 0
    while place < len(content):
        size = int.from_bytes(content[place : place + 8], "little")
        end = place + 12 + size
        if len(content) < place + 12:
            return TORN
        if not _holds(masked_crc32c, content, place, place + 8):
            return "is damaged: a checksum is wrong"
        if len(content) < end + 4:
            return TORN
        if not _holds(masked_crc32c, content, place + 12, end):
            return "is damaged: a checksum is wrong"
        place = end + 4
    return ""


def _holds(checksum: Callable[[bytes], int], content: bytes, begin: int, end: int) -> bool:
    """Whether the checksum of some bytes is the one that follows them."""
    return checksum(content[begin:end]) == int.from_bytes(content[end : end + 4], "little")
