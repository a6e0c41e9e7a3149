"""schemathesis, as somebody runs it against a plane: it reads a document, asks what that declares, and compares.

With `MIZZEN_EXAMPLES=200` and `MIZZEN_SEED=7` it asks more, and other things, for as long as that takes.
"""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.conformance.kubectl import CHECKOUT

CHECKS = (
    "not_a_server_error", "status_code_conformance", "content_type_conformance", "response_headers_conformance",
    "response_schema_conformance", "negative_data_rejection", "positive_data_acceptance", "missing_required_header",
    "unsupported_method", "allow_header_conformance", "ignored_auth", "use_after_free", "ensure_resource_availability",
)  # fmt: skip
PHASES = ("examples", "coverage", "fuzzing", "stateful")
HOOKS = CHECKOUT / "tests" / "conformance" / "programs" / "with_schemathesis" / "hooks.py"
SEED = 1
EXAMPLES = os.environ.get("MIZZEN_EXAMPLES", "")
LIMIT = 0 if EXAMPLES else 290
"""Seconds, so that one that hangs fails its test; who asks for more examples waits for them."""

patient = pytest.mark.timeout(LIMIT + 10 if LIMIT else 0)
"""For tests that run it."""


@dataclass(frozen=True, slots=True)
class Run:
    """What to ask. Patterns are regular expressions for paths, searched, not matched."""

    examples: int
    """Most per operation and phase."""
    include: str = ""
    exclude: str = ""
    checks: tuple[str, ...] = CHECKS
    phases: tuple[str, ...] = PHASES
    mode: str = "all"
    """Or only `positive`, what the document allows, or only `negative`, what it does not."""
    config: str = ""
    """More of a schemathesis.toml, such as what holds for single operations."""
    flags: tuple[str, ...] = field(default=())
    hooks: Path = HOOKS
    """A module that tells it what no document can."""

    def against(self, url: str, token: str, home: Path, document: str = "/openapi.json") -> str:
        """What it said at the end; fails with all of it unless it found nothing. `home` is a folder for its files."""
        home.mkdir(exist_ok=True)
        file = home / "schemathesis.toml"
        bearer = f"[auth.openapi]\nbearer = {{ bearer = {json.dumps(token)} }}"
        checks = "\n".join(f"{name}.enabled = {json.dumps(name in self.checks)}" for name in CHECKS)
        file.write_text(f"hooks = {json.dumps(str(self.hooks))}\n{bearer}\n[checks]\n{checks}\n{self.config}\n")
        file.chmod(0o600)
        done = subprocess.run(
            [_program(), "--config-file", str(file), "run", f"{url}{document}", *self._flags()],
            cwd=home, env=_environ(home), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True, timeout=LIMIT or None, check=False,
        )  # fmt: skip
        assert done.returncode == 0, f"schemathesis exited {done.returncode}\n{done.stdout}"
        return done.stdout

    def _flags(self) -> list[str]:
        return [
            "--no-color", "--max-examples", EXAMPLES or str(self.examples),
            "--seed", os.environ.get("MIZZEN_SEED", str(SEED)), "--generation-database", "none",
            "--mode", self.mode, "--phases", ",".join(self.phases),
            *(("--include-path-regex", self.include) if self.include else ()),
            *(("--exclude-path-regex", self.exclude) if self.exclude else ()),
            *self.flags,
        ]  # fmt: skip


def _program() -> str:
    program = CHECKOUT / ".venvs" / "schemathesis" / "bin" / "schemathesis"
    assert program.is_file(), "make test-conformance sets up the clients"
    return str(program)


def _environ(home: Path) -> dict[str, str]:
    return {"PATH": os.environ["PATH"], "HOME": str(home), "TMPDIR": str(home), "COLUMNS": "160"}
