"""Markup in texts of nodes: what a reader sees of HTML, Markdown and reStructuredText."""

from __future__ import annotations

import pytest

from graphgym_srnc.core.markup import unmarked
from graphgym_srnc.data.names import Names
from graphgym_srnc.own.discover.words import shown_node


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("# Requests **Requests** is *so* `simple`.", "Requests Requests is so simple."),
        ("[![CI](https://a.org/b.svg)](https://a.org) [docs](https://b.org): more", "docs: more"),
        ("[![CI][badge]][build] See [the docs][1]. [1]: https://b.org", "See the docs."),
        ("[![Cut](https://a.org/very-lo", ""),
        ("```python\nimport a\n```", "import a"),
        ('<p align="center"><b>Fish</b> &amp; chips</p><!-- no --><img src="a', "Fish & chips"),
        ("<script>let a = 1</script>text<style>p {}</style>", "text"),
        ("====\nTitle\n====\n.. image:: https://a.org/b.svg\n   :alt: x", "Title x"),
        ("|build| See `the guide <https://a.org>`_, :ref:`index`.", "See the guide, index."),
    ],
)
def test_markup_is_left_out(text, shown):
    assert " ".join(unmarked(text).split()) == shown


@pytest.mark.parametrize(
    "text",
    [
        "a < b and c > d, 2 * 3 * 4 and 2**3",
        "snake_case __init__ Vec<T> x[0](y) array[1:2]",
        "born 1879 [O.S. 10 May], Comics # 2, C# and AT&T",
        "a - b -- c; |x| < 1",
    ],
)
def test_other_text_stays(text):
    assert unmarked(text) == text


def test_a_node_is_shown_without_markup():
    names = Names(["p"], ["**A** title\n## p: does `x`\n" + "word " * 9000])
    shown = shown_node(names, 0)
    assert (shown.title, shown.text[:16]) == ("A title", "p: does x word w") and len(
        shown.line
    ) == 160
