"""schemathesis asks all that /openapi.json declares beside the resource API, and compares the answers with it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conformance.schemathesis import EXAMPLES, Run, patient
from tests.support import planes

APART = "^/(apis?|openapi)(/|$)"
"""What clients of Kubernetes use."""

CONFIG = f"""
[phases.stateful]
generation.max-examples = {EXAMPLES or 15}  # a walk from one answer to the next is worth more than one question

# What they take has rules that no schema can say: files must be what is said of them, and have the digest that they are
# sent under; a server is checked as a whole; an alias is of a version that is there; a token does not last for ever;
# a secret has no more keys than it may have, however many come at once; a limit says something, a burst with a rate;
# a job set and a monitor are checked as a whole, and contradict their paths in nothing.
[[operations]]
include-operation-id = [
    "addNextVersion", "addVersion", "sendUpload", "serve", "pointAlias", "createToken", "changeSecret",
    "setLimit", "train", "startMonitor",
]
checks.positive_data_acceptance.enabled = false
"""


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[planes.TestPlane]:
    """For nobody else: everything in it may go. It takes no large files, wherever it is told to get them from."""
    data_dir = tmp_path_factory.mktemp("plane") / "data"
    data_dir.mkdir()
    (data_dir / "settings.toml").write_text("max_upload_bytes = 1_000_000\nmax_unpacked_bytes = 1_000_000\n")
    with planes.running_plane(data_dir) as running:
        yield running


@patient
def test_the_answers_are_as_declared(small: planes.TestPlane, tmp_path: Path) -> None:
    Run(examples=3, exclude=APART, config=CONFIG).against(small.control_url, small.token(), tmp_path / "home")
