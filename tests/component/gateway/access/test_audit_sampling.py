"""Predictions that are chosen for the audit: which, and what is written down of them."""

from __future__ import annotations

import hashlib
import itertools
import json
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from mizzen.access.refusal_lines import Refusal
from mizzen.gateway.access.audit_sampling import LARGE_BYTES, AuditSampler
from mizzen.gateway.access.refusal_log import RefusalLog
from tests.support.gateway.guarded import noted
from tests.support.gateway.harness import Gateway, Runtime, body_of, publish, table_of, until


@pytest.fixture
def sampling(folder: Path, runtime: Runtime, start_gateway: Callable[..., Gateway]) -> Gateway:
    publish(folder / "table.json", table_of(runtime.address))
    gateway = start_gateway(sampled=1.0)
    gateway.wait_ready()
    return gateway


@pytest.mark.parametrize("path", ["/v2/models/m/infer", "/v2/models/m/infer?by=asgi"])
def test_an_entry_says_who_what_and_how_much_and_none_of_it(sampling: Gateway, folder: Path, path: str) -> None:
    body = body_of([1.0, 2.0], id="what-it-is-called")
    answer = sampling.ask("POST", path, body)
    (entry,) = until(lambda: entries(folder))
    assert (entry.allowed, entry.actor, entry.verb, entry.name, entry.code) == (True, "anonymous", "predict", "m", 200)
    came, went = (f"{len(data)} bytes sha256:{hashlib.sha256(data).hexdigest()}" for data in (body, answer.body))
    version = json.loads(answer.body)["model_version"]
    assert entry.reason == f"sampled: version {version}, request what-it-is-called, in {came}, out {went}"
    assert "2.0" not in json.dumps(entry.reason)


def test_what_fails_and_what_is_large_leaves_one_too(sampling: Gateway, folder: Path) -> None:
    large = body_of([1.0], parameters={"more": "x" * LARGE_BYTES})
    codes = [sampling.ask("POST", "/v2/models/m/infer", body).status for body in (b"{", large)]
    until(lambda: len(entries(folder)) == 2)
    assert sorted(entry.code for entry in entries(folder)) == sorted(codes)
    assert all("sha256:" in entry.reason for entry in entries(folder))


def test_what_is_read_leaves_none(sampling: Gateway, folder: Path) -> None:
    assert sampling.ask("GET", "/v2/models/m").status == 200
    assert entries(folder) == []


def test_about_the_share_is_chosen_and_nobody_can_tell_which() -> None:
    samples = AuditSampler(
        0.05,
        RefusalLog(Path("nowhere"), "g", wall=lambda: 0.0, call_later=lambda *_: None),
        wall=lambda: 0.0,
        rng=random.Random(1),
        run_in_thread=lambda _: pytest.fail("nothing is large"),
    )
    chosen = [number for number in range(100_000) if samples.should_sample()]
    assert 4_500 < len(chosen) < 5_500
    gaps = {after - before for before, after in itertools.pairwise(chosen)}
    assert min(gaps) == 1
    assert len(gaps) > 50, "not every twentieth"


def entries(folder: Path) -> list[Refusal]:
    return noted(folder)
