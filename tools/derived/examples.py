"""What people may send, for example: those who read the document try it first, and so does schemathesis."""

from __future__ import annotations

from typing import Any

PATHS = {
    "model": "iris",
    "version": "1",
    "alias": "prod",
    "server": "iris-1",
    "job": "iris-1-k2x9a",
    "checkpoint": "iris-1-k2x9a-0f3c9d21",
    "user": "ann",
    "subject": "ann",
    "secret": "keys",
}
BODIES: dict[str, Any] = {
    "NewModel": {"name": "iris", "framework": "sklearn", "labels": {"team": "a"}},
    "NewVersion": {"image": "registry.example.com/iris:1", "framework": "sklearn", "labels": {"stage": "test"}},
    "WhichVersion": {"version": 1},
    "WhichVersionOrPrevious": {"version": "1"},
    "NewServer": {"replicas": 2},
    "NewJob": {"hyperparameters": {"rate": 0.5}},
    "NewMonitor": {"tool": "scalars"},
    "NewUser": {"name": "ann"},
    "LimitValues": {"perSecond": 50, "burst": 100, "perDay": 100_000},
    "NewToken": {"expiresIn": "30d", "note": "for the laptop"},
    "SecretValues": {"data": {"API_KEY": "secret"}},
}
