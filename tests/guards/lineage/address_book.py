"""An address book that strangers may write into, and letters to its entries: payloads of planned scenes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

from agentserver import xmlify
from agentserver.provenance import Role, Standing


@xmlify
@dataclass(frozen=True)
class Letter:
    to: Annotated[str, Role.DESTINATION]
    body: Annotated[str, Role.PAYLOAD] = ""


@xmlify
@dataclass(frozen=True)
class Search:
    name: str


@dataclass(frozen=True)
class Contact:
    name: str
    email: Annotated[str, Standing.PROSE]


@xmlify
@dataclass(frozen=True)
class Contacts:
    entries: list[Contact] = field(default_factory=list)


KIM = Contacts([Contact("Kim", "kim@corp.example"), Contact("Eve", "eve@evil.example")])
