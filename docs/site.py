"""MkDocs hook that writes the generated pages: README, methods, configs, options, API, notebook.

Usage: ``pip install -e ".[docs]" && mkdocs build --strict``.
"""

from __future__ import annotations

import base64
import html
import inspect
import json
import re
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages
from typing import Any, Iterable

import griffe
import yaml
from latex2mathml.converter import convert
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

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

PARTS = {
    "api": "Estimators and your own graph in memory",
    "plot": "Plots",
    "report.frame": "Results",
    "errors": "Errors",
    "core.task": "Tasks",
    "shifts": "Shifts",
    "methods": "Methods",
    "train": "Training, model selection, metrics and diagnostics",
    "losses": "Losses",
    "backbones": "Backbones",
    "data": "Data",
    "own": "Your own graph",
    "core.options": "Options",
}
"""Modules and packages of the API reference, and their titles."""


# Hooks of MkDocs


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the generated pages."""
    pages = {
        "index.md": readme(),
        "reference/options.md": options(),
        "reference/methods.md": methods(),
        "reference/configs.md": configs(),
        **reference(),
        **notebook(),
    }
    for name, content in pages.items():
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


class Docstring:
    """The parts of a docstring in Google style: ``summary``, ``text`` and ``references``."""

    def __init__(self, documented: Any) -> None:
        doc = inspect.getdoc(documented) or ""
        doc, _, references = doc.partition("References:\n")
        self.text = markdown(doc.partition("Args:\n")[0].strip())
        self.summary = " ".join(self.text.partition("\n\n")[0].split())
        self.references = " ".join(markdown(references).split())

    @property
    def body(self) -> str:
        """The text with the words that begin its paragraphs in bold."""
        return re.sub(
            r"^(Differences from [\w' ]+|When to use):", r"**\1:**", self.text, flags=re.M
        )


# Pages


def readme() -> str:
    """The README as the home page, with links relative to ``docs``."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    # Files outside docs/ are not part of the site, so their links become text.
    text = re.sub(r"(?<!!)\[([^\]]+)\]\((?!docs/|#|http)[^)]*\)", r"\1", text)
    return text.replace("](docs/", "](").replace('src="docs/', 'src="')


def options() -> str:
    """A table for each block of the config."""
    from graphgym_srnc.gym import schema

    text = (
        "# Options\n\nConfig keys that this package adds to GraphGym's own. "
        "`graphgym-srnc options` prints the same list, and `graphgym-srnc options dann` one "
        "block of it.\n"
    )
    for block, entries in schema().items():
        text += f"\n## {block}\n\n{option_table(entries, block + '.')}"
    return text


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
    """A table of all methods, the introduction, and a section for each method."""
    from graphgym_srnc import methods as found

    rows, sections = [], []
    listed = {name: kind for kind, names in SHIFTS.items() for name in names.split()}
    for name in [*listed, *sorted({*found.own_names()} - {*listed})]:
        method = found.find(name)
        doc, kind = Docstring(method), listed.get(name, "any")
        reads = "no" if name in WITHOUT_TARGET else "its labels" if method.oracle else "yes"
        rows.append((f"[`{name}`](#{name})", kind, reads, cell(doc.summary)))
        sections.append(method_section(name, method, doc))
    intro = (DOCS / "reference/_methods-intro.md").read_text(encoding="utf-8")
    head = ("`train.mode`", "designed for", "reads the target graph", "what it does")
    return intro.replace("<!-- table -->\n", table(head, rows)) + "".join(sections)


def method_section(name: str, method: type, doc: Docstring) -> str:
    """The section of one method, from its docstring."""
    from graphgym_srnc.core.options import options

    own = inspect.signature(method.__init__).parameters if "__init__" in vars(method) else {}
    entries = [option for option in options(method) if option.key in own]
    found = option_table(entries, f"{name}.") if entries else "There are no options of its own.\n"
    references = f"\nReferences: {doc.references}\n" if doc.references else ""
    return (
        f"\n## {name}\n\nEstimator: `graphgym_srnc.{method.__name__}`. "
        f"Source: `graphgym_srnc/methods/{name}.py`.\n\n{doc.body}\n\n{found}{references}"
    )


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
    text = (
        "# Configs\n\nPass a name to `graphgym-srnc run --cfg NAME`. A key after the name "
        "changes the config, for example `gnn.dim_inner 64`. Each config contains only what "
        "differs from `default`.\n"
    )
    for folder, title in FOLDERS.items():
        paths = sorted((ROOT / "configs_gym" / folder).glob("*.yaml"))
        head = ("name", "method", "shift", "data", "comment")
        text += f"\n## {title}\n\n" + table(head, map(shipped, paths))
    grids = [
        (f"`grids/{path.stem}`", cell(comment(path)))
        for path in sorted((ROOT / "configs_gym/grids").glob("*.txt"))
    ]
    return text + (
        "\n## Grids\n\nPass a name to `graphgym-srnc grid --grid NAME`, see "
        "[Grids and tuning](../how-to/grids.md).\n\n" + table(("name", "comment"), grids)
    )


def reference() -> dict[str, str]:
    """The pages of the Python API: estimators, and a page for each module."""
    from graphgym_srnc import api
    from graphgym_srnc.api import make

    shown = [
        (f"[`{name}`](methods.md#{estimator._method.key()})", cell(Docstring(estimator).summary))
        for name, estimator in sorted(api.estimators().items())
    ]
    fitted = [(f"`{attribute}`", cell(meaning)) for attribute, meaning in make.ATTRIBUTES.items()]
    text = (
        "# Python API\n\nImport estimators, `OnNodes`, `load`, `from_frames`, `from_networkx`, "
        "`results` and `plot` from `graphgym_srnc`. The [tutorial](../tutorials/python.ipynb) and "
        "the [guide](../how-to/python.md) show how to use them.\n"
        "\n## Estimators\n\nThe parameters of an estimator are the options of its method.\n\n"
        f"{table(('class', 'what it does'), shown)}"
        f"\n## Parameters of all estimators\n\n{common_parameters(api.estimators()['SRNC'])}"
        f"\n## Attributes of a fitted model\n\n{table(('attribute', 'meaning'), fitted)}"
        "\n## Modules\n"
    )
    pages = {}
    for part, title in PARTS.items():
        text += f"\n### {title}\n\n"
        for name in modules(f"graphgym_srnc.{part}"):
            short = name.removeprefix("graphgym_srnc.")
            options = f"heading_level: 1\n      heading: {name}"
            pages[f"reference/api/{short}.md"] = f"::: {name}\n    options:\n      {options}\n"
            text += (
                f"- [`{short}`](api/{short}.md): {cell(Docstring(import_module(name)).summary)}\n"
            )
    return {"reference/api.md": text, **pages}


def common_parameters(estimator: Any) -> str:
    """A table of the parameters of an estimator that are no options of its method."""
    from graphgym_srnc.core.options import docs, options

    own, texts = {option.key for option in options(estimator._method)}, docs(estimator)
    rows = [
        (f"`{parameter.name}`", f"`{parameter.default!r}`", cell(texts.get(parameter.name, "")))
        for parameter in inspect.signature(estimator).parameters.values()
        if parameter.name not in own
    ]
    return stacked(table(("parameter", "default", "meaning"), rows))


def modules(name: str) -> list[str]:
    """A module, or a package and its public modules."""
    paths = getattr(import_module(name), "__path__", ())
    found = (entry.name for entry in walk_packages(paths, f"{name}."))
    return [name, *(one for one in found if not one.rpartition(".")[2].startswith("_"))]


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
