"""Rights beyond `write`: variables of the environment, and secrets in them."""

from __future__ import annotations

from pathlib import Path

from tests.unit.server.harness import HERE, serving
from tests.unit.server.test_resources import inference_model, model


def test_variables_and_secrets_are_for_those_who_may_vouch_for_code(tmp_path: Path) -> None:
    with serving(tmp_path, anonymous=False) as closed:
        admin = closed.client()
        admin.post(f"{HERE}/models", json=model("mine"))
        admin.put("/secret/db", json={"data": {"password": "hidden-value"}})
        ana = closed.client(closed.user("ana"))
        closed.permit("ana-writes", "write", subjects=["ana"], model="mine")
        plain = inference_model("mine-1", modelName="mine", env=[{"name": "LD_PRELOAD", "value": "/tmp/mine.so"}])
        secret = {"name": "DB", "valueFrom": {"secretKeyRef": {"name": "db", "key": "password"}}}
        lent = inference_model("mine-2", modelName="mine", env=[secret])
        assert ana.post(f"{HERE}/inferencemodels", json=plain).status_code == 403
        closed.permit("ana-admins", "admin", subjects=["ana"], model="mine")
        assert ana.post(f"{HERE}/inferencemodels", json=plain).status_code == 201
        assert ana.post(f"{HERE}/inferencemodels", json=lent).status_code == 403
        assert admin.post(f"{HERE}/inferencemodels", json=lent).status_code == 201
