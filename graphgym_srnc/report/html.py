"""What a page of HTML is made of: templates with text escaped, and PNG files inside the page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jinja2

SIDE = 8192
"""Pixels of the longer side of a picture, since a small file may unpack to a huge one."""


def fill(template: Path, **words: Any) -> str:
    """A page from a template, which may extend ``base.html`` here; all text is escaped."""
    loader = jinja2.FileSystemLoader([template.parent, Path(__file__).parent])
    environment = jinja2.Environment(
        loader=loader,
        undefined=jinja2.StrictUndefined,
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    page = environment.get_template(template.name).render(words)
    return page.encode("utf-8", "replace").decode()


def png_size(content: bytes) -> tuple[int, int] | None:
    """Width and height of a whole PNG file of sane size, else None."""
    head, end = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", b"IEND\xaeB`\x82"
    if not content.startswith(head) or not content.endswith(end):
        return None
    width, height = (int.from_bytes(content[start : start + 4], "big") for start in (16, 20))
    return (width, height) if 0 < width <= SIDE and 0 < height <= SIDE else None
