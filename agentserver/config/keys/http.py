"""The keys below ``http:`` in ``organism.yaml``: types, bounds, help texts, and what they are together.

Owns the pydantic models and the rules that need more than one key. Refuses to open a socket or a file.
"""

from __future__ import annotations

from functools import partial
from ipaddress import ip_address
from typing import TYPE_CHECKING, Annotated, Final, TypeAlias
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field

from agentserver.config.keys.fields import Body, Deadline, RelativePath, Spelling, Strict, given
from agentserver.config.organism import DoorKeys
from agentserver.remedies.configuration import ConfigCode

if TYPE_CHECKING:
    from collections.abc import Collection

    from agentserver.config.findings import Mistakes
    from agentserver.config.yaml.document import Document

MOST_PORT: Final = 65_535

LOCAL: Final = "127.0.0.1:8420"

_UNBINDABLE: Final = f'is not an address and a port from 0 to {MOST_PORT} such as "{LOCAL}" or "[::1]:8420"'


def address(bind: str) -> tuple[str, int]:
    """The address and the port that a bind names. Raises ValueError when it names none."""
    host, colon, port = bind.rpartition(":")
    bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    if not colon or not port.isascii() or not port.isdigit() or len(port) > 5 or int(port) > MOST_PORT:  # noqa: PLR2004 - digits
        raise ValueError(_UNBINDABLE)
    try:
        found = ip_address("127.0.0.1" if bare == "localhost" else bare)
    except ValueError:
        raise ValueError(_UNBINDABLE) from None
    if (found.version == 6) != (bare != host):  # noqa: PLR2004 - IPv6 stands in brackets, and nothing else does
        raise ValueError(_UNBINDABLE)
    return str(found), int(port)


def _bindable(bind: str) -> str:
    address(bind)
    return bind


def _reachable(url: str) -> str:
    port = urlsplit(url).netloc.rpartition("]")[2].partition(":")[2]
    if port and not 0 < int(port) <= MOST_PORT:
        raise ValueError(f"names a port that is not from 1 to {MOST_PORT}")
    return url


_Url: TypeAlias = Annotated[
    str,
    Field(max_length=300),
    Spelling(
        r"^https?://[A-Za-z0-9.\-]+(:[0-9]{1,5})?$|^https?://\[[0-9A-Fa-f:]+\](:[0-9]{1,5})?$",
        "is an address such as https://desk.example, without a path",
    ),
    AfterValidator(_reachable),
]


class TlsEntry(Strict):
    """The certificate of the door, for TLS 1.3."""

    certificate: RelativePath = Field(
        description="The file of the certificate and of those that vouch for it, in PEM."
    )
    key: RelativePath = Field(description="The file of the certificate's private key, in PEM.")


class HttpEntry(Strict):
    """The door by which other programs and people reach the organism."""

    bind: Annotated[str, Field(max_length=100), AfterValidator(_bindable)] = Field(
        default=LOCAL,
        description="The address and port to listen on. One that other machines reach needs tls: or behind_proxy:.",
    )
    public_url: _Url | None = Field(
        default=None,
        description="The address by which clients reach the door, without a path: a request that names another host, "
        "or comes from a page of another origin, is refused.",
        examples=["https://desk.example"],
    )
    tls: TlsEntry | None = Field(
        default=None, title="TLS", description="The certificate, where the door speaks TLS itself."
    )
    body: Body = Field(default=1_000_000, description='How long the body of a request may be, such as "1MB".')
    agui: bool = Field(
        default=False,
        title="AG-UI",
        description="true: front ends that speak AG-UI reach each listener at /v1/agui/LISTENER. Needs the extra agui.",
    )
    idle: Deadline = Field(
        default=5.0,
        description='How long a connection stays open without a request: seconds, or text such as "2m". Longer than '
        "the proxy before the door keeps its own, or the proxy meets connections that were just closed.",
    )
    behind_proxy: bool = Field(
        default=False,
        description="true: a proxy that speaks TLS stands before the door, and no client passes it by.",
    )


MaybeHttp: TypeAlias = Annotated[
    HttpEntry | None,
    BeforeValidator(given, json_schema_input_type=HttpEntry),
    Field(
        title="HTTP",
        description="The door by which other programs and people reach the organism: agentserver serve opens it.",
    ),
]


def read_http(document: Document, faulty: Collection[str], report: Mistakes) -> DoorKeys | None:
    """The door of an organism; None where it has none, or one that is faulty. What does not go together is reported."""
    if "http" not in document.data.keys() - faulty:
        return None
    entry = HttpEntry.model_validate(document.data["http"])
    host, port = address(entry.bind)
    local = ip_address(host).is_loopback
    secure = entry.tls is not None or entry.behind_proxy
    at = document.where(("http", "bind"), missing="bind" not in document.data["http"])
    public, refuse = entry.public_url or "", partial(report.error, ConfigCode.DOOR)
    if not local and not secure:
        told = f"{entry.bind} is reached by other machines, and tokens would pass unencrypted"
        refuse(at, told, f'tls: with a certificate, behind_proxy: true, or "bind: {LOCAL}"')
    elif not local and not public:
        refuse(
            at,
            "public_url is missing",
            '"public_url: https://NAME", the address that clients use',
        )
    elif entry.behind_proxy and not public:
        where = document.where(("http", "behind_proxy"))
        refuse(
            where,
            "public_url is missing",
            '"public_url: https://NAME", the address of the proxy',
        )
    elif public.startswith("https:") and not secure:
        where = document.where(("http", "public_url"))
        refuse(
            where,
            "nothing here speaks TLS",
            "tls: with a certificate, or behind_proxy: true",
        )
    elif public.startswith("http:") and secure:
        where = document.where(("http", "public_url"))
        refuse(where, "clients come by TLS", f'"public_url: https{public[4:]}"')
    tls = None if entry.tls is None else (entry.tls.certificate, entry.tls.key)
    return DoorKeys(host, port, public, tls, entry.body, entry.agui, entry.idle)
