"""Credentials and endpoint of an object store."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

PATIENCE: Mapping[str, Any] = {
    "client_options": {"connect_timeout": timedelta(seconds=5), "timeout": timedelta(seconds=60)},
    "retry_config": {
        "max_retries": 4,
        "retry_timeout": timedelta(seconds=20),
        "backoff": {"init_backoff": timedelta(milliseconds=100), "max_backoff": timedelta(seconds=2), "base": 2},
    },
}
"""An unreachable store is reported within a minute at most; one that refuses, within seconds."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """Empty fields come from the environment: `AWS_ACCESS_KEY_ID`, `AWS_ENDPOINT_URL` and so on."""

    endpoint: str = ""
    region: str = ""
    access_key_id: str = ""
    secret_access_key: str = field(default="", repr=False)

    def config(self) -> dict[str, str]:
        """Returns the configuration for obstore."""
        given = {
            "endpoint": self.endpoint,
            "region": self.region,
            "access_key_id": self.access_key_id,
            "secret_access_key": self.secret_access_key,
        }
        return {name: value for name, value in given.items() if value}
