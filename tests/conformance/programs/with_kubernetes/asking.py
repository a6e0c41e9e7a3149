"""The official client asks for namespaces, events and rights, with its own types of them; also for who may little."""

from __future__ import annotations

from kubernetes import client
from kubernetes.client import AuthenticationV1Api, AuthorizationV1Api, CoreV1Api, V1Namespace, V1ObjectMeta

from tests.conformance.programs.with_kubernetes.session import api, at, custom, model, names, refused, server, until

SHARED = "shared"
"""What ann may read."""


def namespaces_come_and_go(namespace: str) -> None:
    core = CoreV1Api(api())
    body = V1Namespace(metadata=V1ObjectMeta(name=namespace, labels={"team": "a"}))
    made = core.create_namespace(body)
    assert (made.status.phase, made.spec.finalizers) == ("Active", ["kubernetes"])
    assert refused(409, lambda: core.create_namespace(body))["reason"] == "AlreadyExists"
    read = core.read_namespace(namespace)
    assert read.metadata.creation_timestamp.tzinfo is not None
    read.metadata.labels["team"] = "b"
    assert core.replace_namespace(namespace, read).metadata.labels["team"] == "b"
    patched = core.patch_namespace(namespace, {"metadata": {"labels": {"team": "c"}}})
    assert patched.metadata.labels["team"] == "c"
    assert [one.metadata.name for one in core.list_namespace(label_selector="team=c").items] == [namespace]
    first = core.list_namespace(limit=1)
    assert first.metadata._continue
    assert len(core.list_namespace(limit=1, _continue=first.metadata._continue).items) == 1
    custom().create_namespaced_custom_object(**at(namespace), body=model("iris"))
    core.delete_namespace(namespace)
    left = {"field_selector": f"metadata.name={namespace}"}
    until(lambda: not core.list_namespace(**left).items, "the namespace has gone")
    assert names(custom().list_namespaced_custom_object(**at(namespace))) == []


def events_tell_what_happened(namespace: str) -> None:
    core = CoreV1Api(api())
    custom().create_namespaced_custom_object(**at(namespace, "inferencemodels"), body=server("one"))
    of_it = "involvedObject.kind=InferenceModel,involvedObject.name=one"
    listed = until(lambda: core.list_namespaced_event(namespace, field_selector=of_it).items, "the event is there")
    told = listed[0]
    assert (told.type, told.reason, told.involved_object.namespace) == ("Warning", "ContainersUnsupported", namespace)
    assert core.read_namespaced_event(told.metadata.name, namespace).message == told.message
    assert told.metadata.name in {one.metadata.name for one in core.list_event_for_all_namespaces().items}
    assert core.list_namespaced_event(namespace, field_selector="type!=Warning").items == []


def it_is_told_what_somebody_may(namespace: str) -> None:
    assert _may("", "delete", namespace).allowed
    assert _may("ann", "list", SHARED).allowed
    answer = _may("ann", "create", SHARED)
    assert (answer.allowed, answer.denied) == (False, True)
    review = client.V1SelfSubjectRulesReview(spec=client.V1SelfSubjectRulesReviewSpec(namespace=SHARED))
    rules = AuthorizationV1Api(api("ann")).create_self_subject_rules_review(review).status
    assert any("models" in rule.resources and "get" in rule.verbs for rule in rules.resource_rules)
    assert not any("*" in rule.verbs for rule in rules.resource_rules)


def it_is_told_who_somebody_is(_namespace: str) -> None:
    for who, name in (("", "admin"), ("ann", "ann")):
        review = AuthenticationV1Api(api(who)).create_self_subject_review(client.V1SelfSubjectReview())
        assert review.status.user_info.username == name


def who_may_little_does_little(namespace: str) -> None:
    ours, anns = custom(), custom("ann")
    ours.create_namespaced_custom_object(**at(SHARED), body=model("iris"))
    assert names(anns.list_namespaced_custom_object(**at(SHARED))) == ["iris"]
    status = refused(403, lambda: anns.delete_namespaced_custom_object(**at(SHARED), name="iris"))
    assert (status["reason"], status["details"]["name"]) == ("Forbidden", "iris")
    refused(403, lambda: anns.create_namespaced_custom_object(**at(SHARED), body=model("wine")))
    refused(403, lambda: anns.list_namespaced_custom_object(**at(namespace)))
    assert [one.metadata.name for one in CoreV1Api(api("ann")).list_namespace().items] == [SHARED]


def a_wrong_token_opens_nothing(namespace: str) -> None:
    status = refused(401, lambda: custom("wrong").list_namespaced_custom_object(**at(namespace)))
    assert status["reason"] == "Unauthorized"


def _may(who: str, verb: str, namespace: str) -> client.V1SubjectAccessReviewStatus:
    asked = client.V1ResourceAttributes(verb=verb, group="mizzen.dev", resource="models", namespace=namespace)
    spec = client.V1SelfSubjectAccessReviewSpec(resource_attributes=asked)
    review = client.V1SelfSubjectAccessReview(spec=spec)
    return AuthorizationV1Api(api(who)).create_self_subject_access_review(review).status
