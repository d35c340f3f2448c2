"""The keys below ``otel:`` in ``organism.yaml``: types, bounds, help texts.

Owns the pydantic model. Refuses to know what the environment says beside it.
"""

from __future__ import annotations

from typing import Annotated, TypeAlias

from pydantic import Field

from agentserver.config.keys.fields import Spelling, Strict

_Endpoint: TypeAlias = Annotated[
    str,
    Field(max_length=1000, examples=["http://localhost:4318"]),
    Spelling(
        r"^https?://[^\s@?#]+$",
        "is an address that begins with http:// or https://, without user, query and fragment",
    ),
]


class OtelEntry(Strict):
    """The things that OpenTelemetry is told."""

    endpoint: _Endpoint | None = Field(
        default=None,
        description="The address of a collector that takes OTLP over HTTP; /v1/traces follows. "
        "Without it OTEL_EXPORTER_OTLP_ENDPOINT of the environment holds.",
    )
    sample: float = Field(
        default=1.0, ge=0.0, le=1.0, description="The share of requests that are told, from 0 to 1."
    )
    content: bool = Field(
        default=False, description="Whether spans hold messages and the words of findings, without secrets."
    )
    redact: list[Annotated[str, Field(min_length=1, max_length=200)]] = Field(
        default_factory=list,
        max_length=1000,
        description="With content: patterns of the names of fields that are taken out, as of trace --redact.",
    )


MaybeOtel: TypeAlias = Annotated[
    OtelEntry | None,
    Field(
        title="OpenTelemetry",
        description="The spans that a collector of OpenTelemetry is sent. Without this key it is sent some "
        "all the same where the environment has OTEL_EXPORTER_OTLP_ENDPOINT.",
    ),
]
