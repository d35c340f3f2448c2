"""The keys below ``engine: nats:`` in ``organism.yaml``: types, bounds, help texts.

Owns the pydantic models. Refuses to know what is kept, and how.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal, Self, TypeAlias

from pydantic import BeforeValidator, Field, model_validator

from agentserver.broker.address import BrokerAddress
from agentserver.config.keys.fields import Deadline, Name, RelativePath, Retention, Strict, given
from agentserver.config.organism import BrokerEngine

if TYPE_CHECKING:
    from pathlib import Path

URLS_PATTERN = r"^(nats|tls)://[^\s@/?#,]+(,(nats|tls)://[^\s@/?#,]+)*$"
MONITORING_PATTERN = r"^https?://[^\s@/?#]+$"
BrokerUrl: TypeAlias = Annotated[
    str, Field(pattern=URLS_PATTERN, max_length=2000, examples=["nats://127.0.0.1:4222"])
]
_Monitoring: TypeAlias = Annotated[
    str, Field(pattern=MONITORING_PATTERN, max_length=1000, examples=["http://127.0.0.1:8222"])
]


_ENGINE = BrokerEngine("", BrokerAddress(""))


class BrokerPlace(Strict):
    """A broker, and how one comes to it."""

    url: BrokerUrl = Field(
        description="Host and port of a NATS server with JetStream; several nodes, separated by commas."
    )
    credentials: RelativePath | None = Field(
        default=None,
        description="A file with user:password on one line, relative to the project or an absolute path.",
    )
    ca: RelativePath | None = Field(
        default=None,
        description="A PEM file of the certificates that vouch for each node, relative to the project or an absolute "
        "path; the system's if left out. Needs tls://.",
    )

    @model_validator(mode="after")
    def _vouched(self) -> Self:
        if self.ca is not None and not self.url.startswith("tls://"):
            raise ValueError("ca needs a url with tls://: nothing else has a certificate")
        return self

    def address(self, root: Path, replicas: int, place: str) -> BrokerAddress:
        """The address, with the files of a project, and where it is written."""
        credentials, ca = (None if file is None else root / file for file in (self.credentials, self.ca))
        return BrokerAddress(self.url, credentials, replicas, ca, place)


class NatsEntry(BrokerPlace):
    """A broker that keeps conversations for several servers at once."""

    name: Name | None = Field(
        default=None,
        description="The name of the log at the broker, the same for all servers of the organism; the organism's name "
        "if left out.",
    )
    replicas: Literal[1, 3, 5] = Field(
        default=3,
        description="How many nodes of the broker keep each entry: 3, or 1 where there is one node.",
    )
    monitoring: list[_Monitoring] = Field(
        default_factory=list,
        max_length=64,
        description="The monitoring URL of each node, where it is read that the node waits for its disk.",
    )
    durability: Literal["always", "relaxed"] = Field(
        default="always",
        description="always: the server starts only when each node has sync_interval: always. relaxed: it starts, "
        "says so, and what was acknowledged may be lost with the power.",
    )
    replica: RelativePath = Field(
        default=_ENGINE.directory,
        description="The directory in which each server of this machine keeps a copy of all conversations.",
    )
    lease: Deadline = Field(
        default=_ENGINE.lease,
        description="Time of silence after which the conversations of a server are taken over by others.",
    )
    retention: Retention = Field(
        default=_ENGINE.retention, description='How long finished conversations are kept, such as "30d".'
    )


class EngineEntry(Strict):
    """The engine that keeps conversations in place of a journal."""

    nats: NatsEntry = Field(title="NATS JetStream", description="NATS JetStream.")


MaybeEngine: TypeAlias = Annotated[
    Annotated[EngineEntry | None, BeforeValidator(given, json_schema_input_type=EngineEntry)],
    Field(
        title="Engine",
        description="What keeps conversations in place of a journal, for several servers of one organism.",
    ),
]
