"""Docstrings for terminals and editors, with formulas in Unicode instead of LaTeX."""

from __future__ import annotations

import re

NAMES = (
    "alpha beta gamma epsilon lambda theta rho tau sigma mu eta phi psi Phi nabla sum sqrt in ge "
    "le sim propto leftarrow Vert"
)
SIGNS = dict(zip(NAMES.split(), "αβγελθρτσμηφψΦ∇Σ√∈≥≤~∝←‖"))  # by their name in LaTeX
GROUP = r"\{((?:[^{}]|\{[^{}]*\})*)\}"

# Patterns in LaTeX and what replaces them, in this order.
LATEX = (
    (r"\\(mathcal|textstyle|left|right)(?![a-z]) ?", ""),
    (r"\\text\{([^{}]*)\}", r"\1"),
    (r" ?\\([,;]|q?quad\b) *", " "),
    (r"\\lVert | \\rVert", "‖"),
    (r"\^\\top", "ᵀ"),
    (r"\\hat (\w)", "\\1\u0302"),
    (r"\\tilde (\w)", "\\1\u0303"),
    (r"\\bar (\w)", "\\1\u0304"),
    (r"\\t?frac(\w)(\w)", r"\1/\2"),
    (rf"\\frac{GROUP}{GROUP}", r"(\1) / (\2)"),
    (r"\\([{}])", r"\1"),
)


def readable(doc: str) -> str:
    r"""A docstring without roles: ``:math:`\alpha``` is α, other roles are double backticks."""
    doc = re.sub(r"\.\. math:: *((?:.+\n?)+)", lambda found: f"    {formula(found[1])}", doc)
    doc = re.sub(r":math:`([^`]*)`", lambda found: formula(found[1]), doc)
    return re.sub(r":\w+:`(?:~[\w.]*\.)?([^`]*)`", r"``\1``", doc)


def formula(latex: str) -> str:
    """A formula in Unicode; names without a sign stand for themselves."""
    for pattern, text in LATEX:
        latex = re.sub(pattern, text, latex)
    return re.sub(r"\\([a-zA-Z]+)", lambda found: SIGNS.get(found[1], found[1]), latex)
