"""No regular expression that reads text of callers backtracks: with nested repetition, it would take seconds."""

from __future__ import annotations

import importlib
import itertools
import pkgutil
import re
import time
from types import ModuleType

import pytest

from mizzen import access, gateway, kinds, manifests, patches, protocol, server, web

SIGNS = [
    "a", "0", "-", ".", "_", "/", ":", ",", "=", " ", "!", '"', "\\", "(", "[", "{", "a-", "a.", "a/", "a,", "0.",
    '\\"',
]  # fmt: skip
LENGTH, MOST_SECONDS = 2000, 0.02
"""A text of one sign that fails at its end. Linear work takes microseconds."""


def cpu(pattern: re.Pattern[str] | re.Pattern[bytes], text: str) -> float:
    given = text if isinstance(pattern.pattern, str) else text.encode()
    began = time.thread_time()
    pattern.match(given)  # type: ignore[arg-type]
    pattern.fullmatch(given)  # type: ignore[arg-type]
    return time.thread_time() - began


@pytest.mark.parametrize("package", [access, gateway, kinds, manifests, patches, protocol, server, web])
def test_a_match_takes_linear_time(package: ModuleType) -> None:
    for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        for pattern in vars(importlib.import_module(module.name)).values():
            if not isinstance(pattern, re.Pattern):
                continue
            for start, sign in itertools.product(("", "a", "3."), SIGNS):
                text = start + sign * (LENGTH // len(sign)) + "\0"
                spent = min(cpu(pattern, text) for _ in range(2))
                assert spent < MOST_SECONDS, (module.name, pattern.pattern, start, sign)
