"""Who may do what, and what they are told."""

from __future__ import annotations

from itertools import product
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mizzen.access.policy import ANONYMOUS, Actor, Binding, Target, Verb, authorize, resolve_scope
from tests.support.access.reference import may
from tests.support.golden import Golden

VERBS: tuple[Verb, ...] = get_args(Verb)
ADMIN = Actor("ann", admin=True)
ANN = Actor("ann")
MODEL = Target("default", "Model", "iris", models=frozenset({"iris"}))
LOGS = Target(
    "default", "InferenceModel", "iris-1", "logs", models=frozenset({"iris"}), extra_names=frozenset({"iris-1"})
)

ACTORS = (
    ADMIN,
    ANONYMOUS,
    ANN,
    Actor("bob"),
    Actor("bob", frozenset({"lab"})),
    Actor("oidc:ann", frozenset({"lab", "ops"})),
    Actor("admin"),  # a name is no right
)
TARGETS = (
    MODEL,
    LOGS,
    Target("default", "Model"),
    Target("", "Model"),
    Target("other", "Model", "iris", models=frozenset({"iris"})),
    Target("default", "Model", "iris", models=frozenset({"iris"}), alias="prod"),
    Target("default", "Model", "iris", models=frozenset({"iris"}), alias="test"),
    Target("default", "Model", "rose", models=frozenset({"rose"})),
    Target("default", "InferenceModel", "rose", models=frozenset({"iris"}), extra_names=frozenset({"rose"})),
    Target("default", "InferenceModel", "rose", "monitor", frozenset({"iris"}), extra_names=frozenset({"rose"})),
    Target("default", "RoleBinding", "team"),
    Target("default", "RoleBinding", "of-iris", models=frozenset({"iris"})),
    Target("default", "Workload", "iris-1.1", models=frozenset({"iris"})),
    Target("default", "Revision", "model.iris.1", models=frozenset({"iris"}), involved_kind="Model"),
    Target("default", "Revision", "rolebinding.team.1", involved_kind="RoleBinding"),
    Target("default", "Secret", "keys"),
    Target("default", "Namespace", "default"),
    Target("other", "Namespace", "other"),
    Target("", "Plane"),
    Target("", "AuditEntry"),
    Target("default", "AuditEntry"),
    Target("", "User"),
    Target("", "User", "ann"),
    Target("", "User", "anonymous"),
)
PLACES = (("", ""), ("iris", ""), ("rose", ""), ("iris", "prod"))
BINDINGS = tuple(
    Binding("b", namespace, frozenset({subject}), frozenset({verb}), model, alias)
    for namespace, subject, verb, (model, alias) in product(
        ("default", "other"), ("ann", "group:lab", "*", "anonymous"), VERBS, PLACES
    )
)

some_bindings = st.lists(st.sampled_from(BINDINGS), max_size=6)


def test_every_single_binding_gives_what_the_reference_says() -> None:
    for actor, verb, target, anonymous in product(ACTORS, VERBS, TARGETS, (True, False)):
        for bindings in ([], *([binding] for binding in BINDINGS)):
            verdict = authorize(actor, verb, target, bindings, anonymous=anonymous)
            expected = may(actor, verb, target, bindings, anonymous=anonymous)
            assert verdict.allowed is expected, (actor, verb, target, bindings, anonymous)
            assert verdict.reason


@given(st.sampled_from(ACTORS), st.sampled_from(VERBS), st.sampled_from(TARGETS), some_bindings, st.booleans())
def test_several_bindings_give_what_the_reference_says(
    actor: Actor, verb: Verb, target: Target, bindings: list[Binding], anonymous: bool
) -> None:
    expected = may(actor, verb, target, bindings, anonymous=anonymous)
    assert authorize(actor, verb, target, bindings, anonymous=anonymous).allowed is expected


@given(st.sampled_from(ACTORS), st.sampled_from(VERBS), st.sampled_from(TARGETS), some_bindings, st.booleans())
def test_one_more_binding_never_takes_a_right_away(
    actor: Actor, verb: Verb, target: Target, bindings: list[Binding], anonymous: bool
) -> None:
    if authorize(actor, verb, target, bindings[1:], anonymous=anonymous).allowed:
        assert authorize(actor, verb, target, bindings, anonymous=anonymous).allowed


@given(st.sampled_from(ACTORS), st.sampled_from(VERBS), some_bindings, st.booleans(), st.sampled_from(["", "default"]))
def test_a_list_shows_exactly_what_may_be_read_one_by_one(
    actor: Actor, verb: Verb, bindings: list[Binding], anonymous: bool, namespace: str
) -> None:
    for kind, subresource in (
        ("Model", ""), ("InferenceModel", ""), ("InferenceModel", "logs"), ("Secret", ""), ("RoleBinding", ""),
        ("Workload", ""), ("Revision", ""), ("Namespace", ""),
    ):  # fmt: skip
        found = resolve_scope(actor, verb, namespace, kind, bindings, anonymous=anonymous, subresource=subresource)
        assert found.reason
        for target in TARGETS:
            listed = target.kind == kind and target.name and target.subresource == subresource and not target.alias
            if listed and namespace in ("", target.namespace):
                one = authorize(actor, verb, target, bindings, anonymous=anonymous).allowed
                assert found.covers(target) is one
                assert found.has_any or not one


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("anonymous", [True, False])
def test_whoever_has_no_binding_has_the_rights_of_a_stranger(verb: Verb, anonymous: bool) -> None:
    for target in (MODEL, LOGS, Target("default", "Secret", "keys")):
        verdict = authorize(ANN, verb, target, (), anonymous=anonymous)
        assert verdict.allowed is authorize(ANONYMOUS, verb, target, (), anonymous=anonymous).allowed
        if not verdict.allowed:  # a token would not help them: they have one
            assert "token" not in verdict.reason
            assert verdict.reason.startswith(f"ann may not {verb}")


def test_nobody_changes_a_model_by_owning_a_name_of_its_server() -> None:
    server = Target("default", "InferenceModel", "rose", models=frozenset({"iris"}), extra_names=frozenset({"rose"}))
    on_its_name = [Binding("b", "default", frozenset({"ann"}), frozenset({"admin"}), "rose")]
    assert authorize(ANN, "read", server, on_its_name, anonymous=False).allowed
    assert not authorize(ANN, "write", server, on_its_name, anonymous=False).allowed


def test_a_refusal_says_what_was_refused_and_what_to_do(golden: Golden) -> None:
    def refused(actor: Actor, verb: Verb, target: Target, *bindings: Binding) -> str:
        verdict = authorize(actor, verb, target, bindings, anonymous=False)
        assert not verdict.allowed
        return verdict.reason

    assert refused(ANONYMOUS, "write", MODEL).startswith("to write Model/iris in namespace default needs a token: set")
    assert "InferenceModel/iris-1/logs" in refused(ANONYMOUS, "read", LOGS)
    golden.check(refused(ANN, "write", MODEL))
    reader = Binding("b", "default", frozenset({"ann"}), frozenset({"read", "predict"}), "iris")
    assert "their RoleBindings grant only read and predict" in refused(ANN, "write", MODEL, reader)
    alias = Target("lab", "Model", "iris", models=frozenset({"iris"}), alias="prod")
    assert refused(ANN, "predict", alias).endswith("mizzen permit ann predict iris@prod --namespace lab")
    assert refused(ANN, "write", Target("lab", "Secret", "keys")).endswith("mizzen permit ann write namespace/lab")
    golden.check(refused(ANN, "admin", Target("", "User")))
    assert refused(ANONYMOUS, "admin", Target("", "User", "bob")).startswith("to manage user bob needs a token")
    audit = refused(ANN, "admin", Target("", "AuditEntry"))
    golden.check(audit)
    assert "may not read the audit of namespace lab: " in refused(ANN, "admin", Target("lab", "AuditEntry"))


@given(st.sampled_from((ANONYMOUS, ANN)), st.sampled_from(VERBS), some_bindings)
def test_who_may_not_read_something_cannot_tell_whether_it_is_there(
    actor: Actor, verb: Verb, bindings: list[Binding]
) -> None:
    """Nor what it belongs to: `rose` serves the model iris."""
    named = Target("default", "InferenceModel", "rose", models=frozenset({"rose"}))
    there = Target("default", "InferenceModel", "rose", models=frozenset({"iris"}), extra_names=frozenset({"rose"}))
    if authorize(actor, "read", there, bindings, anonymous=False).allowed:
        return
    verdict = authorize(actor, verb, there, bindings, anonymous=False, named=named)
    if not verdict.allowed:
        assert verdict == authorize(actor, verb, named, bindings, anonymous=False)
        assert "iris" not in verdict.reason


def test_who_may_read_something_is_told_what_else_they_need() -> None:
    there = Target("default", "InferenceModel", "rose", models=frozenset({"iris"}), extra_names=frozenset({"rose"}))
    reader = Binding("b", "default", frozenset({"ann"}), frozenset({"read"}), "iris")
    named = Target("default", "InferenceModel", "rose", models=frozenset({"rose"}))
    verdict = authorize(ANN, "write", there, [reader], anonymous=False, named=named)
    assert verdict.reason.endswith("mizzen permit ann write iris")


def test_a_refusal_does_not_repeat_names_of_any_length() -> None:
    verdict = authorize(ANONYMOUS, "read", Target("n" * 9999, "Model", "x" * 9999), (), anonymous=False)
    assert len(verdict.reason) < 512


def test_an_allowance_says_what_it_rests_on(golden: Golden) -> None:
    binding = Binding("team", "default", frozenset({"*"}), frozenset({"write"}), "iris")
    reason = authorize(ANN, "read", MODEL, [binding], anonymous=False).reason
    golden.check(reason)
    assert authorize(ADMIN, "admin", MODEL, (), anonymous=False).reason == "ann is an admin"
