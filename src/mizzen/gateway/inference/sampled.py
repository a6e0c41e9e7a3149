"""Predictions that are sampled for the audit."""

from __future__ import annotations

from typing import Any

from mizzen.gateway.access.audit_sampling import SampledPrediction
from mizzen.gateway.inference.endpoint import Endpoint
from mizzen.gateway.inference.inference import Inference, InferenceContext
from mizzen.gateway.inference.protocols import JSON
from mizzen.gateway.request.head import RequestHead


class AuditedInference(Inference):
    """A prediction that was sampled. A subclass also derives from a class that delivers the answer."""

    __slots__ = ()

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.sample: SampledPrediction | None = None
        """None before the start, and once its audit entry was written."""

    def start(self, service: InferenceContext, endpoint: Endpoint, body: bytes, head: RequestHead) -> None:
        assert service.samples is not None
        self.sample = SampledPrediction(
            service.samples, endpoint.target, endpoint.version, body, head.actor, head.method, head.path
        )
        super().start(service, endpoint, body, head)

    def reply(self, code: int, body: bytes, kind: bytes = JSON) -> None:
        super().reply(code, body, kind)
        prediction, self.sample = self.sample, None
        if prediction is not None:
            prediction.samples.note(prediction, self.id, code, body)
