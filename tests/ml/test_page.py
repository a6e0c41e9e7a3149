"""What docs/frameworks.md says is so: its commands are run in order, in an environment that has all of them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.conformance import test_readme
from tests.support.pages import walk

checkout = test_readme.checkout
PAGE = "docs/frameworks.md"


@pytest.mark.timeout(900)
def test_the_page(checkout: Path) -> None:
    for step in walk(PAGE):
        # The launcher takes the .venv of its own checkout, where the heavy frameworks are not.
        here = replace(step, code=step.code.replace("./mizzen", ".venv/bin/mizzen"))
        printed = test_readme.run(checkout, PAGE, here, {})
        at = 0
        for line in step.output:
            at = printed.find(line, at)
            assert at >= 0, f"{PAGE}:{step.line}: no '{line}' in what was printed:\n{printed}"
            at += len(line)
