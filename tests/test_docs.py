"""The documentation stays short and plain, and the code that it names exists."""

from __future__ import annotations

import argparse
import re
from functools import cache
from pathlib import Path
from typing import Iterator

import pytest

from graphgym_srnc.cli.main import build_parser

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
LONG = ("docs/research/", "docs/results/")  # folders without a limit of words per page

COLUMNS = 100
README_WORDS = 900
PAGE_WORDS = 3000
ALL_WORDS = 28_000
RESEARCH_WORDS = 9_000

BANNED = {
    "of one's own": "your own",
    "anew": "again",
    "to be distrusted": "say what to do",
    "is worth its line": "say what it gains",
    "mend(?:s|ed)?": "fix",
    "rooms?": "package, module",
    "witness(?:es)?": "evidence, score",
    "level with": "no significant difference",
    "by turns": "alternately",
    "the cut": "unknown-class threshold",
    "lessons": "pseudo-labels",
    "is ahead on": "outperforms",
    "decisions that teach": "pseudo-labels",
}
"""Expressions that a reader has to decode, and what to write instead."""

ELSEWHERE = {"main.py", "setup.py", "agg_batch.py", "configs_gen.py"}
"""Files of other projects, or of the reader."""

FOLDERS = ("docs/", "tests/", "benchmarks/", "configs_gym/", ".ci/", ".github/")


def relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def words(path: Path) -> int:
    return len(path.read_text(encoding="utf-8").split())


def prose(path: Path) -> Iterator[tuple[int, str]]:
    """Numbered lines outside code blocks, tables, formulas, links and generated parts."""
    is_code = is_made = is_formula = False
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        if line.lstrip().startswith("```"):
            is_code = not is_code
        is_made = (is_made or line.startswith("<!-- table of")) and "<!-- end of" not in line
        is_formula ^= line.count("$$") % 2 == 1
        if not (
            is_code
            or is_made
            or is_formula
            or "$$" in line
            or line.lstrip().startswith(("|", "```", "<"))
            or line.startswith("    ")
        ):
            yield number, line


def quoted(path: Path) -> set[str]:
    """What stands between backticks in the text of a page, tables included."""
    text = re.sub(r"^ *```.*?^ *```", "", path.read_text(encoding="utf-8"), flags=re.M | re.S)
    return set(re.findall(r"`([^`\n]+)`", text))


@cache
def source() -> str:
    """The text of all code."""
    files = [
        file
        for folder in ("graphgym_srnc", "benchmarks", "tests")
        for file in sorted((ROOT / folder).rglob("*.py"))
        if file != Path(__file__)
    ]
    return "\n".join(file.read_text(encoding="utf-8") for file in files)


def is_dotted(name: str) -> bool:
    """Whether ``graphgym_srnc.a.b`` is a module, or a name in one, or a group of entry points."""
    place = ROOT
    parts = name.split(".")
    while parts and (place / parts[0]).is_dir():
        place /= parts.pop(0)
    if parts and (place / f"{parts[0]}.py").is_file():
        place /= f"{parts.pop(0)}.py"
    module = place / "__init__.py" if place.is_dir() else place
    return not parts or parts[0] in module.read_text(encoding="utf-8") or name in source()


def is_file(name: str) -> bool:
    """Whether a path, or the end of one, is there; ``*`` and ``<name>`` stand for anything."""
    pattern = re.sub(r"<[^>]*>|\{[^}]*\}", "*", name.split("::")[0].split(" ")[0].rstrip("/"))
    return (
        pattern in ELSEWHERE
        or any(ROOT.glob(pattern))
        or any(
            any((ROOT / folder).glob(f"**/{pattern}"))
            for folder in ("graphgym_srnc", "benchmarks", "tests", "docs")
        )
    )


def is_there(text: str) -> bool:
    """Whether code, or a file of this project, is there; other texts count as there."""
    if dotted := re.match(r"(?:from |import )?(graphgym_srnc(?:\.\w+)*)(?![\w/])", text):
        return is_dotted(dotted[1])
    if re.fullmatch(r"[\w./*<>-]+\.py", text) or text.startswith(FOLDERS):
        return is_file(text)
    if call := re.fullmatch(r"(?:[\w.]+\.)?(\w+)\([^()]*\)", text):
        return re.search(rf"\b{call[1]}\b", source()) is not None
    return True


@pytest.mark.parametrize("page", PAGES, ids=relative)
def test_a_page_is_short_and_its_lines_are(page):
    if not relative(page).startswith(LONG):
        assert words(page) <= PAGE_WORDS
    long = [number for number, line in prose(page) if len(line) > COLUMNS]
    assert not long, f"more than {COLUMNS} columns: lines {long}"


def test_the_documentation_as_a_whole_is_short():
    short = [page for page in PAGES[1:] if not relative(page).startswith(LONG)]
    assert words(PAGES[0]) <= README_WORDS and sum(map(words, short)) <= ALL_WORDS


def test_the_research_logs_as_a_whole_are_short():
    logs = [page for page in PAGES if relative(page).startswith("docs/research/")]
    assert 0 < sum(map(words, logs)) <= RESEARCH_WORDS


@pytest.mark.parametrize("page", [*PAGES, ROOT / "CONTRIBUTING.md"], ids=relative)
def test_what_a_page_names_is_there(page):
    examples = re.findall(r"^(?:class|def) (\w+)", page.read_text(encoding="utf-8"), re.M)
    gone = [text for text in quoted(page) if not is_there(text)]
    assert not [text for text in gone if not any(name in text for name in examples)]


def banned(text: str) -> dict[str, str]:
    """Expressions that a text should not have, and what to write instead."""
    text = " ".join(text.split())
    return {
        found[0]: better
        for phrase, better in BANNED.items()
        if (found := re.search(rf"\b{phrase}\b", text, re.I))
    }


@pytest.mark.parametrize(
    "page", [*PAGES, ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"], ids=relative
)
def test_a_page_is_in_plain_words(page):
    found = banned(page.read_text(encoding="utf-8"))
    assert not found


def parsers(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """A parser and those of its subcommands."""
    yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for child in action.choices.values():
                yield from parsers(child)


def test_help_and_meanings_of_options_are_in_plain_words(gym):
    helps = {parser.prog: parser.format_help() for parser in parsers(build_parser())}
    meanings = {
        f"{block}.{option.key}": option.doc
        for block, entries in gym.documented().items()
        for option in entries
    }
    found = {name: banned(text) for name, text in (helps | meanings).items()}
    assert not {name: phrases for name, phrases in found.items() if phrases}
