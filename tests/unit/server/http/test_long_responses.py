"""Long answers are written down beside the event loop."""

from __future__ import annotations

import asyncio
import json
import threading

from hypothesis import given
from hypothesis import strategies as st

from mizzen.server.http import list_responses

THREADS: set[int] = set()


def shown(number: int) -> dict[str, object]:
    THREADS.add(threading.get_ident())
    return {"number": number, "name": 'ü"]}'}


@given(st.lists(st.integers()), st.text(), st.booleans())
def test_a_long_list_is_written_in_threads(numbers: list[int], token: str, is_long: bool) -> None:
    THREADS.clear()
    if is_long:
        numbers = [*range(list_responses.PIECE), *numbers]
    answer = asyncio.run(
        list_responses.list_response(numbers, shown, {"continue": token.encode(errors="ignore").decode()}, kind="L")
    )
    said = json.loads(bytes(answer.body))
    assert list(said) == ["kind", "metadata", "items"]
    assert said["items"] == [{"number": number, "name": 'ü"]}'} for number in numbers]
    assert answer.headers["content-type"] == "application/json"
    if len(numbers) > list_responses.FEW:
        assert threading.get_ident() not in THREADS
