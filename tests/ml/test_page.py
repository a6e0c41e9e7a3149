"""What docs/frameworks.md says is so: its commands are run in order, in an environment that has all of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conformance import test_readme
from tests.support.pages import walk

checkout = test_readme.checkout
PAGE = "docs/frameworks.md"


@pytest.mark.timeout(900)
def test_the_page(checkout: Path) -> None:
    test_readme.test_what_a_page_says_is_so(checkout, PAGE, len(walk(PAGE)))
