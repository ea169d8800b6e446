"""Pages of HTML from templates, with all text escaped."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jinja2


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
    return environment.get_template(template.name).render(words).encode("utf-8", "replace").decode()
