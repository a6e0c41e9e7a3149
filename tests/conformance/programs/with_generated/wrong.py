"""A field and a type that are not so. Only looked at, never run."""

from __future__ import annotations

from mizzen_control_client.models import NewModel
from mizzen_inference_client.models import InputTensor, InputTensorDatatype

NewModel(name="iris", frameworks="sklearn")
InputTensor(name="input", shape="4", datatype=InputTensorDatatype.FP64, data=[])
