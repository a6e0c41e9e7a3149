"""The rules of who may do what, once more: slowly, from the words of the requirements, and with no code of ours."""

from __future__ import annotations

from mizzen.access.policy import Actor, Binding, Target

SUFFICES = {
    "read": ["read", "write", "admin"],
    "predict": ["predict", "admin"],
    "write": ["write", "admin"],
    "admin": ["admin"],
}


def may(actor: Actor, verb: str, target: Target, bindings: list[Binding], *, anonymous: bool) -> bool:
    if actor.admin:
        return True
    stranger_rights = set()
    hidden = ["User", "Secret", "AuditEntry", "RoleBinding", "Workload"]
    says_too_much = target.kind in hidden or target.involved_kind in hidden or target.subresource in ["logs", "monitor"]
    if anonymous and not says_too_much:
        stranger_rights = {"read", "predict"}
    if verb in stranger_rights:
        return True
    if actor.name == "anonymous":
        return False
    if (target.kind, target.namespace, target.name) == ("User", "", actor.name) and verb in ["read", "write"]:
        return True
    names = [actor.name, "*"] + ["group:" + group for group in actor.groups]
    mine = [binding for binding in bindings if any(subject in names for subject in binding.subjects)]
    if mine and target.kind == "Plane" and verb == "read":
        return True
    if target.kind == "Namespace" and verb == "read" and target.namespace in [binding.namespace for binding in mine]:
        return True
    for binding in mine:
        for given in binding.verbs:
            if given in SUFFICES[verb] and _is_about(binding, verb, target):
                return True
    return False


def _is_about(binding: Binding, verb: str, target: Target) -> bool:
    if binding.namespace != target.namespace:
        return False
    if binding.model == "":
        return True
    reached = binding.model in target.models
    if binding.model in target.extra_names and verb not in ["write", "admin"]:
        reached = True
    if binding.alias == "":
        return reached
    return reached and target.alias == binding.alias
