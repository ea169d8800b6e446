"""Makes those pages of the site that are written elsewhere: README, every option, Python reference.

A hook of mkdocs: ``pip install -e ".[docs]" && mkdocs build --strict``.
"""
from __future__ import annotations

import html
import re
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages

from latex2mathml.converter import convert
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]

PARTS = {"api": "Estimators", "task": "The scenario", "shifts": "Shifts", "methods": "Methods",
         "train": "Training, selection, scores and the verdict", "losses": "Losses",
         "backbones": "Backbones", "data": "Data", "own": "A graph of one's own",
         "options": "Options", "errors": "Errors"}
"""Modules and folders of the Python reference, and their titles."""


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are made."""
    pages = {"index.md": readme(), "options.md": options(), **reference()}
    for name, text in pages.items():
        files.append(File.generated(config, name, content=text))
    return files


def readme() -> str:
    """The README, with links that start in ``docs``."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    # Files outside docs/ are no pages; they are named, not linked.
    return re.sub(r"\[([^\]]+)\]\((?!docs/|#|http)[^)]*\)", r"\1", text).replace("](docs/", "](")


def options() -> str:
    """A table for each block of the config."""
    from graphgym_srnc.gym import schema
    text = ("# Every option\n\nKeys that this package adds to GraphGym's config; "
            "`graphgym-srnc options` prints the same.\n")
    for block, entries in schema().items():
        text += f"\n## {block}\n\n| key | type | default | allowed | meaning |\n"
        text += "|---|---|---|---|---|\n"
        for option in entries:
            allowed = "" if option.allowed is None else cell(str(option.allowed))
            text += (f"| `{block}.{option.key}` | {option.type.__name__} | `{option.default!r}` | "
                     f"{allowed} | {cell(option.doc)} |\n")
    return text


def cell(text: str) -> str:
    """A docstring's words in a cell of a table."""
    text = re.sub(r":\w+:`~?([^`]*)`", r"`\1`", text).replace("``", "`")
    return html.escape(text, quote=False).replace("|", "\\|").replace("\n", " ")


def reference() -> dict[str, str]:
    """A page of each public module, and one that lists them in the order of ``PARTS``."""
    pages = {}
    text = ("# Python reference\n\n"
            "Signatures and docstrings. [From Python](python.md) is the guide.\n")
    for part, title in PARTS.items():
        text += f"\n## {title}\n\n"
        for name in modules(f"graphgym_srnc.{part}"):
            page = f"api/{name.removeprefix('graphgym_srnc.')}.md"
            pages[page] = f"::: {name}\n    options:\n      heading_level: 1\n"
            says = cell((import_module(name).__doc__ or "").split("\n\n")[0])
            text += f"- [{name.removeprefix('graphgym_srnc.')}]({page}): {says}\n"
    return {"api.md": text, **pages}


def modules(name: str) -> list[str]:
    """A module, or those of a package without the private ones."""
    module = import_module(name)
    if not hasattr(module, "__path__"):
        return [name]
    return [name, *(entry.name for entry in walk_packages(module.__path__, f"{name}.")
                    if not entry.name.rpartition(".")[2].startswith("_"))]


def on_page_content(content: str, **_: object) -> str:
    """Formulas as MathML, which browsers draw without a script, and Sphinx roles as plain code."""
    content = re.sub(r'<(span|div) class="arithmatex">\\[(\[](.*?)\\[)\]]</\1>',
                     lambda m: formula(m[2], m[1] == "div"), content,
                     flags=re.S)
    content = re.sub(r":math:<code>(.*?)</code>", lambda m: formula(m[1]), content, flags=re.S)
    return re.sub(r":(?:class|func|meth|mod|attr):<code>~?(.*?)</code>", r"<code>\1</code>",
                  content)


def formula(latex: str, block: bool = False) -> str:
    """MathML of a formula that stands in HTML."""
    return convert(html.unescape(latex).strip(), display="block" if block else "inline")
