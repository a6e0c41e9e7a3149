"""Rights beyond `write`: some fields decide what code runs, and which secrets it sees."""

from __future__ import annotations

from starlette.requests import Request

from mizzen.errors import Invalid
from mizzen.kinds.meta import Resource
from mizzen.kinds.parts.env import EnvVar
from mizzen.kinds.serving import InferenceModelSpec
from mizzen.kinds.training import TrainingJobSpec
from mizzen.server import auth, targets


def require(request: Request, resource: Resource) -> None:
    """Variables of a process can make it load anything, so they are for those who may vouch for code: the model's
    admins. A secret is lent only by those who may write it. Refused as by `auth.require`.
    """
    env = _env(resource)
    if env:
        auth.require(request, "admin", targets.of(resource))
    for secret in {variable.secret.name for variable in env if variable.secret is not None}:
        auth.require(request, "write", targets.secret(resource.meta.namespace, secret))


def _env(resource: Resource) -> tuple[EnvVar, ...]:
    try:
        match resource.kind:
            case "InferenceModel":
                return InferenceModelSpec.of(resource).env
            case "TrainingJob":
                return TrainingJobSpec.of(resource).env
    except Invalid:
        return ()  # it is refused for that
    return ()
