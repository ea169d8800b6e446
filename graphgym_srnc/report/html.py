"""Pages of HTML from templates, with all text escaped."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jinja2

from graphgym_srnc.io import atomic

REPORT = b'<meta name="generator" content="graphgym-srnc report">'  # as in base.html


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


def is_report(path: Path) -> bool:
    """Whether a file is a page that ``report`` wrote."""
    return path.is_file() and REPORT in atomic.content(path)[:500]
