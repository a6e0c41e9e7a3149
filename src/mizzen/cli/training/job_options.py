"""Options of `mizzen train start` for the job: what its code reads, and the replicas that run it."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass
from typing import Annotated, Any, Final

import typer

from mizzen.cli import object_arguments
from mizzen.cli.models.deploy import read_data
from mizzen.cli.parameters import option

_REPLICA_TYPES: Final = {name.lower(): name for name in ("Chief", "Master", "Worker", "PS", "Evaluator")}
_COUNT: Final = re.compile(r"\d{1,4}")


@dataclass(frozen=True)
class InputOptions:
    """Options for what the training code reads."""

    param: Annotated[list[str] | None, option("Hyperparameter; repeatable.", "--param", "-p", metavar="KEY=VALUE")] = (
        None
    )
    params: Annotated[str | None, option("Hyperparameters as a JSON object.", metavar="JSON|@FILE")] = None
    dataset: Annotated[
        str | None, option("Dataset to fetch before the command starts.", metavar="PATH|URL|s3://BUCKET/PREFIX")
    ] = None
    sha256: Annotated[str | None, option("SHA-256 of the file at the dataset's URL.")] = None
    secret: Annotated[str | None, option("Secret with the keys of the dataset's bucket.")] = None

    def keywords(self) -> dict[str, Any]:
        """The same as keywords of `train.spec_of`."""
        if self.dataset is None and (self.sha256 is not None or self.secret is not None):
            raise typer.BadParameter(f"{'--sha256' if self.sha256 is not None else '--secret'} needs --dataset")
        if self.dataset == "":
            raise typer.BadParameter("must not be empty", param_hint="'--dataset'")
        params = _parse_params(self.params, self.param or [])
        return {"params": params, "dataset": self.dataset, "sha256": self.sha256, "secret": self.secret}


@dataclass(frozen=True)
class ResourceOptions:
    """Options for the replicas of a job: their number, resources and environment, and when they end."""

    replicas: Annotated[
        str | None, option("Number of workers, or by type: chief=1,worker=2,ps=1.", metavar="N|TYPE=N,…")
    ] = None
    cpu: Annotated[str | None, option("CPU cores per replica: 2, 500m.")] = None
    memory: Annotated[str | None, option("Memory per replica: 4Gi.")] = None
    gpu: Annotated[float | None, option("GPUs per replica, or a fraction of one.")] = None
    priority: Annotated[int | None, option("Priority: higher ones start first if not all can.")] = None
    restart: Annotated[
        str | None, option("Restart policy: Never, OnFailure, Always, ExitCode [default: Never].", metavar="POLICY")
    ] = None
    deadline: Annotated[str | None, option("Maximum run time, after which it fails: 2h.", metavar="TIME")] = None
    keep: Annotated[int | None, option("Number of checkpoints to keep.", min=1)] = None
    env: Annotated[list[str] | None, option("Environment variable; repeatable.", metavar="KEY=VALUE")] = None

    def keywords(self) -> dict[str, Any]:
        """The same as keywords of `train.spec_of`."""
        return asdict(self) | {"replicas": _parse_replicas(self.replicas), "env": _parse_env(self.env or [])}


def _parse_params(whole: str | None, single: list[str]) -> dict[str, Any]:
    """Hyperparameters of --params and --param. Values are JSON if they parse as such, else text."""
    params = read_data(whole, "--params", '{"rate": 0.1}') if whole is not None else {}
    if not isinstance(params, dict):
        raise typer.BadParameter('must be a JSON object, such as {"rate": 0.1}', param_hint="'--params'")
    _refuse_nan(params, "--params")
    each = {key: _parse_value(text) for key, text in object_arguments.parse_pairs(single, "--param").items()}
    _refuse_nan(each, "--param")
    return {**params, **each}


def _parse_value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _refuse_nan(params: dict[str, Any], option: str) -> None:
    """Python's JSON parser reads NaN and infinity, which are not valid JSON."""
    for name, value in params.items():
        try:
            json.dumps(value, allow_nan=False)
        except ValueError:
            why = f"'{name}' is NaN or infinite, which is not valid JSON; write '\"NaN\"' for text"
            raise typer.BadParameter(why, param_hint=f"'{option}'") from None


def _parse_env(pairs: list[str]) -> dict[str, str]:
    found = object_arguments.parse_pairs(pairs, "--env")
    own = next((name for name in found if name.startswith("MIZZEN_")), None)
    if own is not None:
        raise typer.BadParameter(
            f"'{own}': names that start with MIZZEN_ are reserved for the plane", param_hint="'--env'"
        )
    return found


def _parse_replicas(text: str | None) -> int | dict[str, int] | None:
    if text is None:
        return None
    if _COUNT.fullmatch(text):
        return int(text)
    found = {}
    for pair in text.split(","):
        name, _, count = pair.partition("=")
        if name.lower() not in _REPLICA_TYPES or not _COUNT.fullmatch(count):
            known = ", ".join(_REPLICA_TYPES)
            raise typer.BadParameter(f"'{pair}' is not TYPE=N; types are {known}", param_hint="'--replicas'")
        found[_REPLICA_TYPES[name.lower()]] = int(count)
    return found
