"""Rights beyond `write`: some fields decide what code runs, which secrets it sees, and whose calls it takes."""

from __future__ import annotations

from starlette.requests import Request

from mizzen.access.policy import Target
from mizzen.errors import Invalid, NotFound
from mizzen.kinds import catalog
from mizzen.kinds.meta import Ref, Resource
from mizzen.kinds.parts.env import EnvVar
from mizzen.kinds.serving import InferenceModelSpec
from mizzen.kinds.training import TrainingJobSpec
from mizzen.server import auth, targets
from mizzen.server.plane import plane_of


def require(request: Request, resource: Resource) -> None:
    """Variables of a process can make it load anything, so they are for those who may vouch for code: the model's
    admins. A secret is lent only by those who may write it. Refused as by `auth.require`.
    """
    env = _env(resource)
    if env:
        auth.require(request, "admin", targets.of(resource))
    for secret in {variable.secret.name for variable in env if variable.secret is not None}:
        auth.require(request, "write", targets.secret(resource.meta.namespace, secret))


async def require_names(request: Request, resource: Resource) -> None:
    """Whoever answers to a name takes its calls: so they need the right to change the model that answers to it now.

    Names that do not tell whose they are belong to the namespace: else a server could wait there for a model to come.
    """
    own = catalog.model_of(resource) or resource.meta.name
    for name in targets.names_taken(resource):
        if name != own and not name.startswith(f"{own}-"):
            auth.require(request, "write", Target(resource.meta.namespace, resource.kind, name))
        try:
            model = await plane_of(request).store.get(Ref("Model", name, resource.meta.namespace))
        except NotFound:
            continue
        auth.require(request, "write", targets.of(model))


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
