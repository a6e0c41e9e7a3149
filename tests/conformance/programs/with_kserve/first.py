"""KServe's client, speaking V1."""

from __future__ import annotations

import httpx

from tests.conformance.programs.with_kserve.session import PREDICTED, ROWS, client, url


async def health(_namespace: str) -> None:
    async with client("v1") as server:
        assert await server.is_server_live(url()) is True
        assert await server.is_model_ready(url(), "iris") is True


async def rows_and_columns(_namespace: str) -> None:
    async with client("v1") as server:
        for body, answer in (
            ({"instances": ROWS.tolist()}, {"predictions": PREDICTED}),
            ({"instances": [{"input": row} for row in ROWS.tolist()]}, {"predictions": PREDICTED}),
            ({"inputs": ROWS.tolist()}, {"outputs": PREDICTED}),
            ({"inputs": {"input": ROWS.tolist()}}, {"outputs": PREDICTED}),
        ):
            assert await server.infer(url(), body, model_name="iris") == answer


async def in_a_namespace(_namespace: str) -> None:
    async with client("v1") as server:
        answer = await server.infer(f"{url()}/ns/default", {"instances": ROWS.tolist()}, model_name="iris")
        assert answer == {"predictions": PREDICTED}


async def faults(_namespace: str) -> None:
    async with client("v1") as server:
        for model, body, code in (
            ("nobody", {"instances": ROWS.tolist()}, 404), ("iris", {}, 400), ("iris", {"instances": [[1]]}, 400),
        ):  # fmt: skip
            try:
                await server.infer(url(), body, model_name=model)
            except httpx.HTTPStatusError as error:
                assert error.response.status_code == code
            else:
                raise AssertionError(f"no error, where {code} was due")
