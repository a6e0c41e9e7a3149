"""lightkube asks for namespaces, events and rights, with its own types of them; and for people who may little."""

from __future__ import annotations

from httpx2 import HTTPStatusError
from lightkube import ALL_NS, Client
from lightkube.models.authorization_v1 import (
    ResourceAttributes,
    SelfSubjectAccessReviewSpec,
    SelfSubjectRulesReviewSpec,
)
from lightkube.models.meta_v1 import ObjectMeta
from lightkube.resources.authentication_v1 import SelfSubjectReview
from lightkube.resources.authorization_v1 import SelfSubjectAccessReview, SelfSubjectRulesReview
from lightkube.resources.core_v1 import Event, Namespace

from tests.conformance.programs.with_lightkube.session import Model, client, model, refused, server, until

SHARED = "shared"
"""What ann may read."""


def namespaces_come_and_go(namespace: str) -> None:
    with client(namespace) as ours:
        made = ours.create(Namespace(metadata=ObjectMeta(name=namespace, labels={"team": "a"})))
        assert (made.status.phase, made.spec.finalizers) == ("Active", ["kubernetes"])
        assert refused(409, lambda: ours.create(Namespace(metadata=ObjectMeta(name=namespace)))).reason == (
            "AlreadyExists"
        )
        assert ours.get(Namespace, namespace).metadata.labels["team"] == "a"
        assert {"default", namespace} <= {one.metadata.name for one in ours.list(Namespace, chunk_size=1)}
        assert [one.metadata.name for one in ours.list(Namespace, labels={"team": "a"})] == [namespace]
        patched = ours.patch(Namespace, namespace, {"metadata": {"labels": {"team": "b"}}})
        assert patched.metadata.labels["team"] == "b"
        applied = ours.apply(Namespace(metadata=ObjectMeta(name=namespace, annotations={"a": "1"})))
        assert applied.metadata.annotations["a"] == "1"
        ours.create(model("iris"))
        ours.delete(Namespace, namespace)
        until(lambda: not list(ours.list(Namespace, fields={"metadata.name": namespace})), "the namespace has gone")
        assert list(ours.list(Model)) == []


def events_tell_what_happened(namespace: str) -> None:
    with client(namespace) as ours:
        ours.create(server("one"))
        of_it = {"involvedObject.kind": "InferenceModel", "involvedObject.name": "one"}
        (told, *_) = until(lambda: list(ours.list(Event, fields=of_it)), "the event is there")
        assert (told.type, told.reason, told.count) == ("Warning", "ContainersUnsupported", 1)
        assert (told.involvedObject.name, told.involvedObject.namespace) == ("one", namespace)
        assert told.lastTimestamp.tzinfo is not None
        assert ours.get(Event, told.metadata.name).message == told.message
        assert told.metadata.name in {one.metadata.name for one in ours.list(Event, namespace=ALL_NS)}
        kind, first = next(ours.watch(Event))
        assert (kind, first.involvedObject.name) == ("ADDED", "one")


def it_is_told_what_somebody_may(namespace: str) -> None:
    with client(namespace) as ours, client(SHARED, who="ann") as anns:
        assert _may(ours, "delete", namespace).allowed
        assert _may(anns, "list", SHARED).allowed
        answer = _may(anns, "create", SHARED)
        assert (answer.allowed, answer.denied) == (False, True)
        assert answer.reason.startswith("ann ")
        rules = anns.create(SelfSubjectRulesReview(spec=SelfSubjectRulesReviewSpec(namespace=SHARED))).status
        assert any("models" in rule.resources and "get" in rule.verbs for rule in rules.resourceRules)
        assert not any("*" in rule.verbs for rule in rules.resourceRules)


def it_is_told_who_somebody_is(namespace: str) -> None:
    with client(namespace) as ours, client(namespace, who="ann") as anns:
        assert ours.create(SelfSubjectReview()).status.userInfo.username == "admin"
        assert anns.create(SelfSubjectReview()).status.userInfo.username == "ann"


def who_may_little_does_little(namespace: str) -> None:
    with client(SHARED) as ours, client(SHARED, who="ann") as anns:
        ours.create(model("iris"))
        assert [one.metadata.name for one in anns.list(Model)] == ["iris"]
        status = refused(403, lambda: anns.delete(Model, "iris"))
        assert (status.reason, status.details.name) == ("Forbidden", "iris")
        assert refused(403, lambda: anns.create(model("wine"))).reason == "Forbidden"
        refused(403, lambda: list(anns.list(Model, namespace=namespace)))


def a_wrong_token_opens_nothing(namespace: str) -> None:
    with client(namespace, who="wrong") as nobody:
        assert refused(401, lambda: list(nobody.list(Model))).reason == "Unauthorized"
        try:
            next(nobody.watch(Model))
        except HTTPStatusError as error:
            assert error.response.status_code == 401
        else:
            raise AssertionError("somebody without a token watches")


def _may(somebody: Client, verb: str, namespace: str) -> SelfSubjectAccessReview:
    asked = ResourceAttributes(verb=verb, group="mizzen.dev", resource="models", namespace=namespace)
    review = SelfSubjectAccessReview(spec=SelfSubjectAccessReviewSpec(resourceAttributes=asked))
    return somebody.create(review).status
