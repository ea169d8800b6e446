"""MkDocs hook that writes the generated pages: methods, configs, options, API and notebook.

Usage: ``pip install -e ".[docs]" && mkdocs build --strict``.
"""

from __future__ import annotations

import argparse
import base64
import html
import inspect
import json
import re
from importlib import import_module
from pathlib import Path
from typing import Any, Iterable

import griffe
import yaml
from latex2mathml.converter import convert
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from graphgym_srnc.cli.parser import build_parser
from graphgym_srnc.core.options import docs, sections
from graphgym_srnc.core.options import options as list_options

ROOT = Path(__file__).parents[1]
DOCS = Path(__file__).parent

NOTEBOOK = "tutorials/python.ipynb"
"""The tutorial that is a notebook; its page has the suffix ``.md``."""

SHIFTS = {
    "any": "erm iid srnc srnc_plus",
    "open-set": "pgl doc openwgl g2pxy nodesafe",
    "close-set": "dann grade cmd mmd coral srgnn strurw a2gnn adalign udagcn pairalign",
    "open-set between two graphs": "uaga",
}
"""Methods by the kind of shift that they were designed for, in the order of the table."""

WITHOUT_TARGET = ("erm", "doc", "g2pxy", "nodesafe")
"""Methods that do not read the target graph in training."""

FOLDERS = {
    "": "Start here",
    "paper/open_set": "Open-set shift: classes are masked in one graph (Table 1 of the paper)",
    "paper/close_set/arxiv": "Shift over time: the real ogbn-arxiv",
    "paper/close_set/citation": "Shift between two citation networks",
    "paper/clustering": "Clusters of the unknown class",
    "paper/clusters": "The number of clusters",
    "paper/universal": "A second network with unknown classes (OCNNC)",
    "close_set": "Close-set shift between two synthetic graphs",
    "close_set/arxiv_like": "Shift over time: a synthetic growing graph",
    "close_set/public": "Shift between networks and over time: other public data sets",
    "reproduction": "Protocols of other papers",
    "testing": "Tiny runs of every method, for tests",
}
"""Folders of the shipped configs, and what they are for."""

PUBLIC = {
    "Your graph and trained models": "OnNodes load from_frames from_networkx discover results",
    "What estimators take and return": "Estimator ShiftTask InputError ShiftWarning "
    "train.trainer.RunRecord train.trainer.Episode",
    "Plots and shifts": "plot shifts.find",
    "To write a method": "methods.shared.base.Method methods.shared.supervised.Supervised",
}
"""Public names of the package that are no estimators, by the heading of their list."""

PLACE = re.compile(r"^\*The site lists .*\*\n(?:\n(?:\|.*\n)+)?", re.M)
"""Line of a page of the repository in whose place the site has a generated list."""

FOUND_FIRST = "---\ntitle: {}\nsearch:\n  boost: 20\n---\n\n"
"""Head of the pages that the search lists first."""


# Hooks of MkDocs


def on_config(config: MkDocsConfig) -> None:
    """List the pages of the Python API in the navigation."""
    (section,) = (part["Reference"] for part in config.nav if "Reference" in part)
    (entry,) = (part for part in section if "Python API" in part)
    pages = [{Path(page).stem: page} for page in reference() if page.startswith("reference/api/")]
    entry["Python API"] = [{"Overview": "reference/api.md"}, *pages]


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the generated pages."""
    pages = {
        "reference/commands.md": commands(),
        "reference/options.md": options(),
        "reference/methods.md": methods(),
        "reference/configs.md": configs(),
        **reference(),
        **notebook(),
    }
    for name, content in pages.items():
        if (own := files.get_file_from_path(name)) is not None:
            files.remove(own)
        files.append(File.generated(config, name, content=content))
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Link to the page of the notebook, not to its file, except on that page itself."""
    if page.file.src_uri == NOTEBOOK.replace(".ipynb", ".md"):
        return markdown
    return re.sub(r"(\]\([^)\s]*)\.ipynb(#[^)]*)?\)", r"\1.md\2)", markdown)


def on_page_content(content: str, **_: Any) -> str:
    """Render formulas as MathML, which browsers display without a script."""
    return re.sub(
        r'<(span|div) class="arithmatex">\\[(\[](.*?)\\[)\]]</\1>',
        lambda m: formula(m[2], m[1] == "div"),
        content,
        flags=re.S,
    )


class Markup(griffe.Extension):
    """Converts the markup of docstrings before mkdocstrings renders them."""

    def on_package(self, *, pkg: griffe.Module, **_: Any) -> None:
        """Convert all docstrings of a package."""
        self._convert(pkg)

    def _convert(self, part: griffe.Object) -> None:
        if part.docstring:
            part.docstring.value = markdown(part.docstring.value)
        for member in part.members.values():
            if not member.is_alias:
                self._convert(member)


# Markup


def markdown(text: str) -> str:
    """Markdown of a docstring with Sphinx roles."""
    text = re.sub(
        r"^( *)\.\. math::\s*((?:.+\n?)(?:\1 +\S.*\n?)*)",
        lambda m: f"{m[1]}$${' '.join(m[2].split())}$$\n",
        text,
        flags=re.M,
    )
    text = re.sub(r":math:`([^`]*)`", lambda m: f"${' '.join(m[1].split())}$", text)
    return re.sub(r":\w+:`~?([^`]*)`", r"`\1`", text).replace("``", "`")


def cell(text: str) -> str:
    """A docstring's sentence in a cell of a Markdown table."""

    def escaped(part: str) -> str:
        if not part.startswith("`"):
            part = html.escape(part, quote=False)
        return part.replace("|", "\\vert " if part.startswith("$") else "\\|")

    parts = re.split(r"(`[^`]*`|\$[^$]*\$)", " ".join(markdown(text).split()))
    return "".join(map(escaped, parts))


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A Markdown table of cells."""
    lines = [list(head), *map(list, rows)]
    lines.insert(1, ["---"] * len(lines[0]))
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def formula(latex: str, block: bool = False) -> str:
    """MathML of a formula in HTML."""
    latex = re.sub(r"\\arg(?![a-zA-Z])", r"\\text{arg}", html.unescape(latex).strip())
    return convert(latex, display="block" if block else "inline")


def summary(documented: Any) -> str:
    """The first paragraph of a docstring, in one line of Markdown."""
    return " ".join(markdown(sections(documented)[""].partition("\n\n")[0]).split())


# Pages


def with_list(name: str, text: str) -> str:
    """A page of the reference with its generated list."""
    head, rest = PLACE.split((DOCS / f"reference/{name}.md").read_text(encoding="utf-8"))
    return head + text + rest


def commands() -> str:
    """The arguments of each command, in the groups of its ``--help``."""
    text, parsers = "", {"": build_parser()}
    while parsers:
        (path, parser), *others = parsers.items()
        parsers = dict(others)
        for action in parser._actions:
            if isinstance(action, argparse._SubParsersAction):
                parsers |= {f"{path} {name}".strip(): own for name, own in action.choices.items()}
        if path and not parser._subparsers:
            text += f"\n## {path}\n\n{parser.description}\n"
            for group in parser._action_groups:
                actions = (action for action in group._group_actions if action.dest != "help")
                rows = [*map(argument, actions)]
                title = {"positional arguments": "arguments"}.get(group.title, group.title)
                text += f"\n{table((title, 'what it does'), rows)}" if rows else ""
            text += f"\n```text\n{parser.epilog}\n```\n" if parser.epilog else ""
    return with_list("commands", text)


def argument(action: argparse.Action) -> tuple[str, str]:
    """The name of an argument with its value, and its help."""
    value = "" if action.nargs == 0 else action.metavar or "|".join(action.choices or ())
    names = ", ".join(action.option_strings)
    return f"`{f'{names} {value}'.strip()}`".replace("|", "\\|"), cell(action.help or "")


def options() -> str:
    """A table for each block of the config."""
    from graphgym_srnc.gym import documented

    text = ""
    for block, entries in documented().items():
        text += f"\n## {block}\n\n{option_table(entries, block + '.')}"
    return with_list("options", text)


def option_table(entries: Iterable[Any], prefix: str = "") -> str:
    """A table of options: key, default, meaning and allowed values."""
    rows = []
    for option in entries:
        allowed = "" if option.allowed is None else f" Allowed: {cell(str(option.allowed))}."
        kind = "" if option.allowed is not None else f" Type: {option.type.__name__}."
        meaning = cell(option.doc)
        stop = "" if meaning.endswith(".") else "."
        rows.append(
            (f"`{prefix}{option.key}`", f"`{option.default!r}`", f"{meaning}{stop}{allowed}{kind}")
        )
    return stacked(table(("key", "default", "meaning"), rows))


def stacked(text: str) -> str:
    """A table of options whose cells are shown below each other on a phone."""
    return f'<div class="options" markdown="1">\n\n{text}\n</div>\n'


def methods() -> str:
    """The page of methods, with a table of all."""
    from graphgym_srnc import methods as found

    rows = []
    listed = {name: kind for kind, names in SHIFTS.items() for name in names.split()}
    for name in [*listed, *sorted({*found.own_names()} - {*listed})]:
        method = found.find(name)
        reads = "no" if name in WITHOUT_TARGET else "its labels" if method.oracle else "yes"
        link = f"[`{name}`](api/{method.__name__}.md)"
        rows.append((link, listed.get(name, "any"), reads, cell(summary(method))))
    head = ("`train.mode`", "designed for", "reads the target graph", "what it does")
    return with_list("methods", table(head, rows))


def estimator_page(cls: Any) -> str:
    """The page of an estimator, from the signature and the docstring of its method."""
    method, parts = cls._method, sections(cls._method)
    name, key = cls.__name__, method.key()
    theory = markdown(parts[""].partition("\n\n")[2])
    theory = re.sub(r"^(Differences from [\w' ]+|When to use):", r"**\1:**", theory, flags=re.M)
    uses = [
        (f"[`{use}`](Estimator.md#graphgym_srnc.Estimator.{use})", cell(summary(getattr(cls, use))))
        for use in ("fit", "predict", "predict_proba", "score", "transform", "save")
    ]
    return (
        f"{FOUND_FIRST.format(name)}# {name}\n\n{summary(method)}\n\n"
        f"```python\nfrom graphgym_srnc import {name}\n\nmodel = {name}().fit(graph)\n```\n\n"
        f"In a config it is `train.mode {key}`, and a parameter below is the key `{key}.PARAMETER`."
        f"\n\n## Parameters\n\n{option_table(list_options(method))}\n"
        "[Shared parameters](Estimator.md#shared-parameters) such as `backbone` and `hidden` "
        "exist in every estimator.\n\n"
        f"## Methods\n\n{table(('method', 'what it does'), uses)}\n"
        f"## How it works\n\n{theory}\n\n"
        f"Source: `graphgym_srnc/methods/{key}.py`. {references(parts)}\n"
    )


def references(parts: dict[str, str]) -> str:
    """The references of a docstring in one line."""
    text = " ".join(markdown(parts.get("References", "")).split())
    return text and f"References: {text}"


def shipped(path: Path) -> tuple[str, ...]:
    """Name, method, shift, data and comment of a shipped config."""
    root = ROOT / "configs_gym"
    default, config = (
        yaml.safe_load(file.read_text(encoding="utf-8")) or {}
        for file in (root / "default.yaml", path)
    )
    dataset = default["dataset"] | config.get("dataset", {})
    mode = (default["train"] | config.get("train", {}))["mode"]
    shift, data = dataset["format"], str(dataset["name"])
    if "source" in (ends := config.get(shift, {})):
        data = f"{ends['source']} to {ends['target']}"
    elif shift == "file":
        data = "your graph"
    name = path.relative_to(root).with_suffix("").as_posix()
    return f"`{name}`", f"`{mode}`", f"`{shift}`", cell(data), cell(comment(path))


def comment(path: Path) -> str:
    """The first sentence of the first comment of a file."""
    found = re.search(r"(?:^ *#.*\n?)+", path.read_text(encoding="utf-8"), re.M)
    words = re.sub(r"^ *#+ ?", "", found[0], flags=re.M).split() if found else []
    return re.split(r"(?<=[.])\s", " ".join(words))[0]


def configs() -> str:
    """A table of the shipped configs of each folder, and of the grids."""
    text = ""
    for folder, title in FOLDERS.items():
        paths = sorted((ROOT / "configs_gym" / folder).glob("*.yaml"))
        head = ("name", "method", "shift", "data", "comment")
        text += f"\n## {title}\n\n" + table(head, map(shipped, paths))
    grids = [
        (f"`grids/{path.stem}`", cell(comment(path)))
        for path in sorted((ROOT / "configs_gym/grids").glob("*.txt"))
    ]
    text += "\n## Grids\n\nPass a name to `graphgym-srnc grid --grid NAME`, see "
    text += "[Grids and tuning](../how-to/grids.md).\n\n" + table(("name", "comment"), grids)
    return with_list("configs", text)


def reference() -> dict[str, str]:
    """The pages of the Python API: an index, and a page for each public name."""
    import graphgym_srnc
    from graphgym_srnc import api
    from graphgym_srnc import methods as found

    lists: dict[str, list[tuple[str, str]]] = {"Estimators": []}
    pages = {}
    own = {cls.__name__: cls for cls in map(api.estimator, found.own_names())}
    for name, cls in sorted(own.items()):
        pages[f"reference/api/{name}.md"] = estimator_page(cls)
        lists["Estimators"].append((f"[`{name}`](api/{name}.md)", cell(summary(cls))))
    for title, names in PUBLIC.items():
        lists[title] = []
        for path in names.split():
            place, _, name = path.rpartition(".")
            home = import_module(f"graphgym_srnc.{place}") if place else graphgym_srnc
            text = f"{FOUND_FIRST.format(name)}::: graphgym_srnc.{path}\n"
            text += "    options:\n      heading_level: 1\n"
            if name == "Estimator":
                text += f"\n## Shared parameters\n\n{shared_parameters()}"
            pages[f"reference/api/{name}.md"] = text
            documented = getattr(home, name, None) or import_module(f"graphgym_srnc.{path}")
            lists[title].append((f"[`{name}`](api/{name}.md)", cell(summary(documented))))
    text = ""
    for title, rows in lists.items():
        text += f"\n## {title}\n\n{table(('name', 'what it does'), rows)}"
    return {"reference/api.md": with_list("api", text), **pages}


def shared_parameters() -> str:
    """A table of the parameters that all estimators have."""
    from graphgym_srnc.api import parameters

    texts = docs(parameters.shared)
    given = {option.key: option for option in list_options(parameters.shared)}
    rows = []
    for name, parameter in inspect.signature(parameters.shared).parameters.items():
        allowed = given[name].allowed if name in given else None
        choice = "" if allowed is None else f" Allowed: {cell(str(allowed))}."
        rows.append((f"`{name}`", f"`{parameter.default!r}`", cell(texts[name]) + choice))
    return stacked(table(("parameter", "default", "meaning"), rows))


def notebook() -> dict[str, str | bytes]:
    """The page of the notebook, with its outputs, and its figures."""
    path = DOCS / NOTEBOOK
    if not path.is_file():
        return {}
    page, stem = [], NOTEBOOK.removesuffix(".ipynb")
    files: dict[str, str | bytes] = {}
    for cell_ in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        source = "".join(cell_["source"])
        if cell_["cell_type"] == "markdown":
            page.append(source)
            continue
        page.append(f"```python\n{source}\n```")
        for output in cell_["outputs"]:
            data = output.get("data", {})
            if "image/png" in data:
                name = f"{stem}-{len(files)}.png"
                files[name] = base64.b64decode("".join(data["image/png"]))
                page.append(f"![Output of the cell above]({Path(name).name})")
            elif shown := "".join(output.get("text", data.get("text/plain", ""))).rstrip():
                page.append(f"```text\n{shown}\n```")
    title, *rest = page
    note = f"[Download this page as a Jupyter notebook]({Path(NOTEBOOK).name})."
    return {f"{stem}.md": "\n\n".join([title, note, *rest]) + "\n", **files}
