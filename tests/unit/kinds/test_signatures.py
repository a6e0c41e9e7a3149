from __future__ import annotations

from typing import Any

import pytest

from mizzen.kinds.parts.signatures import Signature, differences


def tensor(name: str = "input", datatype: str = "FP64", *shape: int) -> dict[str, Any]:
    return {"name": name, "datatype": datatype, "shape": list(shape or (-1, 4))}


def signature(inputs: list[dict[str, Any]], outputs: list[dict[str, Any]]) -> Signature:
    return Signature.model_validate({"inputs": inputs, "outputs": outputs})


LABEL, PROBABILITY = tensor("predict", "INT64", -1), tensor("predict_proba", "FP64", -1, 3)
OLD = signature([tensor()], [LABEL])


@pytest.mark.parametrize(
    ("new", "said"),
    [
        (OLD, ()),
        (None, ()),
        (signature([], []), ()),
        (signature([tensor()], [LABEL, PROBABILITY]), ()),
        (signature([tensor("input", "FP64", -1, 5)], [LABEL]), ("input 'input' is FP64 [-1, 5], not FP64 [-1, 4]",)),
        (
            signature([tensor("rows")], [LABEL]),
            ("it has no input 'input'", "it needs an input 'rows', FP64 [-1, 4]"),
        ),
        (signature([tensor()], [PROBABILITY]), ("it has no output 'predict'",)),
        (
            signature([tensor()], [tensor("predict", "BYTES", -1)]),
            ("output 'predict' is BYTES [-1], not INT64 [-1]",),
        ),
    ],
)
def test_what_callers_of_one_could_not_do_with_another(new: Signature | None, said: tuple[str, ...]) -> None:
    assert differences(OLD, new) == said
    assert differences(None, new) == ()
