from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mizzen.access.safe_text import sanitize


@given(st.text(), st.integers(0, 40))
def test_one_visible_line_of_bounded_length(text: str, longest: int) -> None:
    told = sanitize(text, longest)
    assert told.isprintable()
    assert len(told) <= longest


@given(st.text(st.characters(categories=["L", "N", "P", "S"]), max_size=30).filter(lambda text: "mzn_" not in text))
def test_what_can_be_seen_stays(text: str) -> None:
    assert sanitize(text, 30) == text


def test_lines_directions_and_tokens() -> None:
    assert sanitize("a\n2026-01-01 INFO forged\r\0", 100) == r"a\n2026-01-01 INFO forged\r\x00"
    assert sanitize("abc\u202edef", 100) == r"abc\u202edef"
    token = "mzn_" + "aB3-_" * 9
    assert sanitize(f"/user/{token}", 100) == "/user/mzn_..."
    assert token not in sanitize("x" * 90 + token, 100)
