"""Rules for vectorizers of text: they may open the file that a text names, call functions, and match any pattern."""

from __future__ import annotations

import re
from typing import Any, Final

import numpy as np

from mizzen.runtime.content.findings import Unproven, quote
from mizzen.runtime.content.skops.values import SavedObject

_VALUES: Final[dict[str, tuple[Any, ...]]] = {
    "input": ("content",),
    "analyzer": ("word", "char", "char_wb"),
    "preprocessor": (None,),
    "tokenizer": (None,),
    "encoding": ("utf-8", "utf8", "ascii", "latin-1"),
    "decode_error": ("strict", "ignore", "replace"),
    "strip_accents": (None, "ascii", "unicode"),
    "lowercase": (True, False),
}
_REQUIRED: Final = ("input", "analyzer", "preprocessor", "tokenizer")
_USUAL: Final = r"\b\w\w+\b"
_LONGEST_GRAM: Final = 20
_ATOM: Final = r"(?:\\[wWdDsS]|\\[-.'_@#+&]|\[[-\w.'@#+&]{1,40}\]|\[(?:\\[wd]|[-.'_@#+&])+\]|[A-Za-z0-9 _'@#&-])"
_WORDS: Final = rf"{_ATOM}{{1,21}}(?:\+|\*|\{{\d{{1,3}}(?:,\d{{0,3}})?\}})?"
_PATTERN: Final = re.compile(rf"(?:\(\?[aiu]\))?(?:{_WORDS}|\\b{_WORDS}(?:\\b)?)", re.ASCII)
"""Sequences with one repetition, at their end, so that matching takes little time: no alternatives, groups, or
lookaround. A boundary at the end needs one at the start, or each position would be tried up to the end."""


def check(part: SavedObject) -> None:
    state = part.attributes
    for name in _REQUIRED:
        if name not in state:
            raise Unproven(f"'{name}' of its {part.name} is missing")
    for name, allowed in _VALUES.items():
        value = state.get(name, allowed[0])
        if not isinstance(value, str | bool | None) or value not in allowed:
            listed = " or ".join(map(repr, allowed))
            raise Unproven(f"'{name}' of its {part.name} is {quote(value)}; expected {listed}")
    _check_pattern(part, state.get("token_pattern"))
    _check_grams(part, state.get("ngram_range", (1, 1)))
    _check_stop_words(part, state.get("stop_words"))
    for name in ("vocabulary", "vocabulary_"):
        _check_vocabulary(part, name, state.get(name))


def _check_pattern(part: SavedObject, pattern: Any) -> None:
    if pattern is not None and not (isinstance(pattern, str) and _PATTERN.fullmatch(pattern)):
        raise Unproven(f"'token_pattern' of its {part.name} is {quote(pattern)}; expected one like {quote(_USUAL)}")


def _check_grams(part: SavedObject, grams: Any) -> None:
    valid = isinstance(grams, list | tuple) and len(grams) == 2 and all(type(size) is int for size in grams)
    if not valid or not 1 <= grams[0] <= grams[1] <= _LONGEST_GRAM:
        raise Unproven(
            f"'ngram_range' of its {part.name} is {quote(grams)}; expected two numbers up to {_LONGEST_GRAM}"
        )


def _check_stop_words(part: SavedObject, words: Any) -> None:
    listed = isinstance(words, list | set | tuple) and all(isinstance(word, str) for word in words)
    if words is not None and words != "english" and not listed:
        raise Unproven(f"'stop_words' of its {part.name} is {quote(words)}; expected a list of words")


def _check_vocabulary(part: SavedObject, name: str, words: Any) -> None:
    """Its numbers are the columns of a sparse matrix, which native code does not check."""
    if words is None or (name == "vocabulary" and isinstance(words, list) and len(set(map(str, words))) == len(words)):
        return
    places = list(words.values()) if isinstance(words, dict) else []
    valid = bool(places) and all(isinstance(place, int | np.integer) for place in places)
    places = [int(place) if np.ndim(place) == 0 else -1 for place in places] if valid else []
    if not valid or sorted(places) != list(range(len(places))):
        raise Unproven(f"'{name}' of its {part.name} does not number its words from 0")
