"""Who may do what, and what they are told."""

from __future__ import annotations

from typing import get_args

import pytest

from mizzen.access.policy import ANONYMOUS, Actor, Target, Verb, allowed

ADMIN = Actor("ann", admin=True)
MODEL = Target("default", "Model", "iris")
LOGS = Target("default", "InferenceModel", "iris-1", "logs")
VERBS: tuple[Verb, ...] = get_args(Verb)


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("target", [MODEL, LOGS, Target("default", "Model")], ids=str)
@pytest.mark.parametrize("loopback", [True, False])
def test_an_admin_may_do_all(verb: Verb, target: Target, loopback: bool) -> None:
    assert allowed(ADMIN, verb, target, loopback=loopback).allowed


@pytest.mark.parametrize(
    ("verb", "target", "loopback", "expected"),
    [
        ("read", MODEL, True, True),
        ("predict", MODEL, True, True),
        ("write", MODEL, True, False),
        ("admin", MODEL, True, False),
        ("read", LOGS, True, False),
        ("predict", LOGS, True, False),
        ("read", MODEL, False, False),
        ("predict", MODEL, False, False),
        ("write", MODEL, False, False),
        ("admin", MODEL, False, False),
        ("read", LOGS, False, False),
    ],
)
def test_without_a_token(verb: Verb, target: Target, loopback: bool, expected: bool) -> None:
    verdict = allowed(ANONYMOUS, verb, target, loopback=loopback)
    assert verdict.allowed is expected
    assert verdict.reason
    if not expected:
        assert "needs a token: set MIZZEN_TOKEN or use the data dir's admin-token" in verdict.reason


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("target", [MODEL, LOGS], ids=str)
@pytest.mark.parametrize("loopback", [True, False])
def test_a_name_alone_gives_no_rights(verb: Verb, target: Target, loopback: bool) -> None:
    """Whoever is known but no admin may do what anybody may; telling them to bring a token would not help them."""
    verdict = allowed(Actor("bob"), verb, target, loopback=loopback)
    assert verdict.allowed is allowed(ANONYMOUS, verb, target, loopback=loopback).allowed
    if not verdict.allowed:
        assert "token" not in verdict.reason
        assert verdict.reason.startswith("bob may not")


def test_calling_oneself_admin_is_not_being_one() -> None:
    assert not allowed(Actor("admin"), "write", MODEL, loopback=True).allowed


def test_a_refusal_says_what_was_refused() -> None:
    assert allowed(ANONYMOUS, "write", MODEL, loopback=True).reason.startswith(
        "to write Model/iris in namespace default needs a token"
    )
    assert allowed(ANONYMOUS, "admin", Target("", "Plane"), loopback=True).reason.startswith("to admin Plane needs")
    assert "InferenceModel/iris-1/logs" in allowed(ANONYMOUS, "read", LOGS, loopback=True).reason
    assert "others can reach" in allowed(ANONYMOUS, "read", MODEL, loopback=False).reason
