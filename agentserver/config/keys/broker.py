"""The keys below ``broker:`` in ``organism.yaml``: types, bounds, help texts.

Owns the pydantic model. Refuses to know what is said over a broker.
"""

from __future__ import annotations

from typing import Annotated, TypeAlias

from pydantic import BeforeValidator, Field

from agentserver.config.keys.fields import RelativePath, Strict, given

URL_PATTERN = r"^(nats|tls)://[^\s@/?#,]+(,(nats|tls)://[^\s@/?#,]+)*$"
_Url: TypeAlias = Annotated[
    str, Field(pattern=URL_PATTERN, max_length=2000, examples=["nats://127.0.0.1:4222"])
]


class BrokerEntry(Strict):
    """Where workers on other machines meet the server."""

    url: _Url = Field(
        description="Host and port of a NATS server with JetStream; several, separated by commas."
    )
    credentials: RelativePath | None = Field(
        default=None,
        description="A file with user:password on one line, relative to the project or an absolute path.",
    )
    replicas: int = Field(
        default=1, ge=1, le=5, description="How many nodes of the broker keep the queue of workers elsewhere."
    )


MaybeBroker: TypeAlias = Annotated[
    Annotated[BrokerEntry | None, BeforeValidator(given, json_schema_input_type=BrokerEntry)],
    Field(
        title="Broker",
        description="The broker by which listeners with isolation: remote and their workers speak.",
    ),
]
