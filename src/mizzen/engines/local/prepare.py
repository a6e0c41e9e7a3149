"""What a process needs beside its files before it can be started: the environment it runs in, and its secrets."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TypeAlias

from mizzen.engines.local.environments.lifecycle import Environments
from mizzen.engines.local.process_specs import Built, Obstacle
from mizzen.engines.local.runner_specs import DATASET_SECRETS
from mizzen.errors import MizzenError, NotFound
from mizzen.kinds.parts.env import SecretKeyRef
from mizzen.kinds.workload import WorkloadSpec

Reveal: TypeAlias = Callable[[str, str, str], Awaitable[str]]
"""The value of a secret by namespace, name and key. NotFound."""


@dataclass(frozen=True, slots=True)
class Prepared:
    built: Built | None = None
    """None: it runs in what the plane itself is installed with."""
    secrets: dict[str, str] = field(default_factory=dict, repr=False)
    """By the names of the variables."""


async def no_secrets(namespace: str, name: str, key: str) -> str:
    raise NotFound(f"there is no secret '{name}' in namespace {namespace}")


class Preparing:
    def __init__(self, environments: Environments, reveal: Reveal) -> None:
        self._environments = environments
        self._reveal = reveal

    async def of(self, uid: str, spec: WorkloadSpec, namespace: str) -> Prepared | Obstacle:
        """For a process that may have to be started now; or what is in its way."""
        built = await self._environments.of(uid, spec.environment) if spec.environment is not None else None
        if isinstance(built, Obstacle):
            return built
        secrets = {}
        for variable, ref in spec.secret_env.items():
            try:
                secrets[variable] = await self._reveal(namespace, ref.name, ref.key)
            except NotFound:
                makes = f"mizzen secret set {ref.name} {ref.key}"
                return Obstacle("waiting", f"{_needs(variable, ref)}, which is not there: {makes}", "SecretNotFound")
            except MizzenError as error:
                why = f"{_needs(variable, ref)}, which cannot be had: {error.message}"
                return Obstacle("waiting", why, "SecretUnreadable")
        return Prepared(built, secrets)


def _needs(variable: str, ref: SecretKeyRef) -> str:
    """People wrote of a dataset, and not of the variables that its secret becomes."""
    who = "the dataset" if variable.startswith(DATASET_SECRETS) else variable
    return f"{who} needs key '{ref.key}' of secret '{ref.name}'"
