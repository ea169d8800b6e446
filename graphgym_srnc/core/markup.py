"""Text without the marks of HTML, Markdown and reStructuredText, as it is shown to a reader."""

from __future__ import annotations

import html
import re

TAGS = (
    "a|abbr|b|big|blockquote|body|br|center|cite|code|dd|del|details|div|dl|dt|em|figure|font"
    "|footer|h[1-6]|head|header|hr|html|i|iframe|img|ins|kbd|li|link|meta|nav|ol|p|picture|pre|s"
    "|samp|section|small|source|span|strong|sub|summary|sup|svg|table|tbody|td|tfoot|th|thead|title"
    "|tr|tt|u|ul|var|video"
)
ADDRESS = r"\([^()\s]*\)?"  # of a link or picture; its end may be cut off
# Patterns, and what remains of each. Words such as ``snake_case``, ``a < b`` and ``2 * 3`` stay.
MARKS = [
    (re.compile(pattern, re.DOTALL), rest)
    for pattern, rest in (
        (r"<(script|style)\b.*?</\1>|<!--.*?-->", " "),
        (rf"</?(?:{TAGS})\b[^<>]*(?:>|$)", " "),
        (r"\.\.(?: \|[^|]+\|)? [\w-]+::(?:\s+https?://\S+)?", " "),  # directive
        (r"(?<!\S):(?:alt|target|width|height|align|scale|class):\s*(?:https?://\S+)?", " "),
        (r"(?<!\S)\|\w[\w .-]{2,}\|_*(?!\S)", " "),  # substitution
        (r":[\w-]+:(?=`)", ""),  # role
        (r"`([^`<]+?)\s*(?:<[^<>`]+>)?`__?(?!\w)", r"\1"),  # link of reStructuredText
        (rf"\[?!\[[^\]]*\](?:{ADDRESS}|\[[^\]]*\])?(?:\](?:{ADDRESS}|\[[^\]]*\]))?", " "),
        (r"(?<!\w)\[[^\[\]]+\]:\s*(?:https?://\S+)?", " "),  # address of a link
        (rf"(?<!\w)\[([^\[\]]*)\](?:{ADDRESS}|\[[^\[\]]*\])", r"\1"),  # link
        (r"`{3,}\w*|`+", ""),  # code
        (r"(?<![\w*])(\*{1,3})(?=[^\s*])([^*]+)(?<=\S)\1(?![\w*])", r"\2"),  # emphasis
        (r"(?<!\S)(?:#{1,6}(?=\s+[^\W\d])|[=~^\"*+_#-]{3,}(?!\S))", " "),  # heading, line
    )
]
MARKED = re.compile(r"[<&`*#|]|\]\s*[(:\[]|::|[=~^\"+_-]{3}")  # most texts have none of these
LETTERS = re.compile(r"[<&`*#|\]:=~^\"+_-]")  # one of them is in all that MARKED finds


def unmarked(text: str) -> str:
    """A text without tags, pictures, addresses of links, and marks of headings and emphasis."""
    if not LETTERS.search(text) or not MARKED.search(text):
        return text
    for pattern, rest in MARKS:
        text = pattern.sub(rest, text)
    return html.unescape(text)
