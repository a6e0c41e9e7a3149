"""The inputs of a process in addition to its files: the environment it runs in, and its secrets."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TypeAlias

from mizzen.engines.local.environments.lifecycle import Environments
from mizzen.engines.local.process_specs import BuiltEnvironment, Obstacle
from mizzen.engines.local.runner_specs import DATASET_SECRETS
from mizzen.errors import MizzenError, NotFound
from mizzen.kinds.parts.env import SecretKeyRef
from mizzen.kinds.workload import WorkloadSpec

Reveal: TypeAlias = Callable[[str, str, str], Awaitable[str]]
"""Returns the value of a secret by namespace, name and key. Raises NotFound."""


@dataclass(frozen=True, slots=True)
class ProcessInputs:
    built: BuiltEnvironment | None = None
    """None: it runs in the plane's own environment."""
    secrets: dict[str, str] = field(default_factory=dict, repr=False)
    """By the names of the variables."""


async def no_secrets(namespace: str, name: str, key: str) -> str:
    raise NotFound(f"there is no secret '{name}' in namespace {namespace}")


class Preparer:
    def __init__(self, environments: Environments, reveal: Reveal) -> None:
        self._environments = environments
        self._reveal = reveal

    async def prepare(self, uid: str, spec: WorkloadSpec, namespace: str) -> ProcessInputs | Obstacle:
        """The inputs of a process that may have to be started now, or the obstacle to it."""
        built = await self._environments.ensure(uid, spec.environment) if spec.environment is not None else None
        if isinstance(built, Obstacle):
            return built
        secrets = {}
        for variable, ref in spec.secret_env.items():
            try:
                secrets[variable] = await self._reveal(namespace, ref.name, ref.key)
            except NotFound:
                why = f"{_describe_need(variable, ref)}, which does not exist: mizzen secret set {ref.name} {ref.key}"
                return Obstacle("waiting", why, "SecretNotFound")
            except MizzenError as error:
                why = f"{_describe_need(variable, ref)}, which cannot be read: {error.message}"
                return Obstacle("waiting", why, "SecretUnreadable")
        return ProcessInputs(built, secrets)


def _describe_need(variable: str, ref: SecretKeyRef) -> str:
    """Names the dataset instead of its variables: users wrote the former in their spec."""
    name = "the dataset" if variable.startswith(DATASET_SECRETS) else variable
    return f"{name} needs key '{ref.key}' of secret '{ref.name}'"
