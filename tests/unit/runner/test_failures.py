"""What exit records say of errors."""

from __future__ import annotations

import pytest

from mizzen.errors import Fault, Invalid, NotFound
from mizzen.runner.failures import describe


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (NotFound("there is no such bucket", hint="look at its name"), "there is no such bucket; look at its name"),
        (NotFound("there is no such bucket."), "there is no such bucket."),
        (Invalid("not so", hint="but so", faults=(Fault("a", "is odd"),)), "not so a: is odd; but so"),
        (OSError(2, "No such file\nor directory"), "[Errno 2] No such file or directory"),
        (ValueError(), "ValueError"),
    ],
)
def test_an_error_is_told_in_one_line_with_what_to_do(error: Exception, words: str) -> None:
    assert describe(error) == words
