"""Keys below ``http:``, ``mcp_server:``, ``otel:`` and ``notify:``, and the rules about several keys of ``http:``."""

from __future__ import annotations

from functools import partial
from ipaddress import ip_address
from typing import TYPE_CHECKING, Annotated, Final, Literal, TypeAlias
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field

from agentserver.config.keys.fields import (
    Body,
    Deadline,
    Drain,
    Given,
    Name,
    RelativePath,
    Strict,
    TextPattern,
    Variable,
)
from agentserver.remedies.configuration import ConfigCode

if TYPE_CHECKING:
    from collections.abc import Collection

    from agentserver.config.findings import Mistakes
    from agentserver.config.yaml.document import Document

MOST_PORT: Final = 65_535

LOCAL: Final = "127.0.0.1:8420"

_UNBINDABLE: Final = f'is not an address and a port from 0 to {MOST_PORT} such as "{LOCAL}" or "[::1]:8420"'


def parse_address(bind: str) -> tuple[str, int]:
    """Parse the address and the port of a bind. Raises ValueError."""
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


def _check_bindable(bind: str) -> str:
    parse_address(bind)
    return bind


def _check_reachable(url: str) -> str:
    port = urlsplit(url).netloc.rpartition("]")[2].partition(":")[2]
    if port and not 0 < int(port) <= MOST_PORT:
        raise ValueError(f"names a port that is not from 1 to {MOST_PORT}")
    return url


_Url: TypeAlias = Annotated[
    str,
    Field(max_length=300),
    TextPattern(
        r"^https?://[A-Za-z0-9.\-]+(:[0-9]{1,5})?$|^https?://\[[0-9A-Fa-f:]+\](:[0-9]{1,5})?$",
        "is an address such as https://desk.example, without a path",
    ),
    AfterValidator(_check_reachable),
]


class TlsEntry(Strict):
    """Certificate of the door, for TLS 1.3."""

    certificate: RelativePath = Field(description="The file of the certificate and its chain, in PEM.")
    key: RelativePath = Field(description="The file of the certificate's private key, in PEM.")


class HttpEntry(Strict):
    """The door, through which other programs and people reach the organism."""

    bind: Annotated[str, Field(max_length=100), AfterValidator(_check_bindable)] = Field(
        default=LOCAL,
        description="The address and port to listen on. A non-local address needs tls: or behind_proxy:.",
    )
    public_url: _Url | None = Field(
        default=None,
        description="The address by which clients reach the door, without a path: a request that names another host, "
        "or comes from a page of another origin, is refused.",
        examples=["https://desk.example"],
    )
    tls: TlsEntry | None = Field(
        default=None, title="TLS", description="The certificate, when the door terminates TLS itself."
    )
    body: Body = Field(default=1_000_000, description='Maximal size of a request body, such as "1MB".')
    agui: bool = Field(
        default=False,
        title="AG-UI",
        description="true: front ends that speak AG-UI reach each listener at /v1/agui/LISTENER. Needs the extra agui.",
    )
    root_path: Annotated[
        str,
        Field(max_length=200),
        TextPattern(r"^((/[A-Za-z0-9._~\-]+)+)?$", "is a path such as /agents, without a / at its end"),
    ] = Field(
        default="",
        title="Root path",
        description="The prefix below which a proxy serves the door, such as /agents. Links and the OpenAPI "
        "description have it; the proxy may pass it on or remove it. The live view works only without one.",
    )
    cors: list[_Url] = Field(
        default_factory=list,
        max_length=100,
        title="CORS",
        description="Origins of pages, such as https://app.example, whose scripts may call the door with a token. "
        "Cookies of such requests do not count.",
    )
    access_log: bool = Field(
        default=False,
        description="true: one line for each request in the log: method, path, status, milliseconds and principal.",
    )
    idle: Deadline = Field(
        default=5.0,
        description='How long a connection stays open without a request: seconds, or text such as "2m". Set it '
        "above the idle timeout of a proxy, which otherwise reuses connections that were just closed.",
    )
    behind_proxy: bool = Field(
        default=False,
        description="true: clients reach the door only through a proxy that terminates TLS.",
    )

    @property
    def host(self) -> str:
        """The address to listen on."""
        return parse_address(self.bind)[0]

    @property
    def port(self) -> int:
        """The port to listen on; 0 for any free one."""
        return parse_address(self.bind)[1]


MaybeHttp: TypeAlias = Annotated[
    Given[HttpEntry],
    Field(
        title="HTTP",
        description="The door by which other programs and people reach the organism: agentserver serve opens it.",
    ),
]


def read_http(document: Document, faulty: Collection[str], report: Mistakes) -> HttpEntry | None:
    """Read the door of an organism; None without one, or with a faulty one. Reports contradictions."""
    if "http" not in document.data.keys() - faulty:
        return None
    entry = HttpEntry.model_validate(document.data["http"])
    local = ip_address(entry.host).is_loopback
    secure = entry.tls is not None or entry.behind_proxy
    at = document.locate(("http", "bind"), missing="bind" not in document.data["http"])
    public, refuse = entry.public_url or "", partial(report.add_error, ConfigCode.DOOR)
    if not local and not secure:
        message = f"{entry.bind} is reachable from other machines, and tokens would be sent unencrypted"
        refuse(at, message, f'tls: with a certificate, behind_proxy: true, or "bind: {LOCAL}"')
    elif not local and not public:
        refuse(
            at,
            "public_url is missing",
            '"public_url: https://NAME", the address that clients use',
        )
    elif entry.behind_proxy and not public:
        span = document.locate(("http", "behind_proxy"))
        refuse(
            span,
            "public_url is missing",
            '"public_url: https://NAME", the address of the proxy',
        )
    elif public.startswith("https:") and not secure:
        span = document.locate(("http", "public_url"))
        refuse(
            span,
            "TLS is not configured",
            "tls: with a certificate, or behind_proxy: true",
        )
    elif public.startswith("http:") and secure:
        span = document.locate(("http", "public_url"))
        refuse(span, "clients use TLS", f'"public_url: https{public[4:]}"')
    return entry


_Page: TypeAlias = Annotated[
    str,
    Field(max_length=1000),
    TextPattern(
        r"^https?://[^\s@?#]+/$", "is an address that begins with http:// or https:// and ends with /"
    ),
]


class McpServerEntry(Strict):
    """Listeners that hosts of the Model Context Protocol can call."""

    expose: list[Name] = Field(
        min_length=1,
        max_length=1000,
        description="The listeners that are tools, in the order in which hosts see them. Hosts can address no others.",
    )
    trust: Literal["stranger", "relay", "orders"] = Field(
        default="stranger",
        description="The trust in the text of a host. stranger: untrusted, since hosts repeat model inputs; "
        "relay: it neither authorises nor taints; orders: as trusted as a user. By HTTP it is at most as trusted as "
        "the principal of the token.",
    )
    approvals: _Page | None = Field(
        default=None,
        description="The address of a page for decisions about approvals, up to its last /; the id of the approval "
        "is appended. Hosts that can show pages are asked to show it.",
    )
    elicitation: bool = Field(
        default=False,
        description="true: by HTTP, the host of an operator shows its user a message that waits for approval, in a "
        "form, and the answer counts as the operator's.",
    )
    deadline: Deadline = Field(
        default=60.0,
        description='How long a host waits for a call: seconds, or text such as "2m". The call itself continues.',
    )


MaybeServing: TypeAlias = Annotated[
    Given[McpServerEntry],
    Field(
        title="MCP server",
        description="The tools for hosts of the Model Context Protocol: by agentserver mcp serve, and at /mcp of "
        "agentserver serve.",
    ),
]


_Endpoint: TypeAlias = Annotated[
    str,
    Field(max_length=1000, examples=["http://localhost:4318"]),
    TextPattern(
        r"^https?://[^\s@?#]+$",
        "is an address that begins with http:// or https://, without user, query and fragment",
    ),
]


class OtelEntry(Strict):
    """Export of traces to OpenTelemetry."""

    endpoint: _Endpoint | None = Field(
        default=None,
        description="The address of a collector that takes OTLP over HTTP; /v1/traces is appended. "
        "Defaults to OTEL_EXPORTER_OTLP_ENDPOINT of the environment.",
    )
    sample: float = Field(
        default=1.0, ge=0.0, le=1.0, description="The share of exported requests, from 0 to 1."
    )
    content: bool = Field(
        default=False, description="Whether spans contain messages and the text of findings, without secrets."
    )
    events: bool = Field(
        default=False,
        description="Whether each completion of a sampled request is exported as the event "
        "gen_ai.client.inference.operation.details, with its prompt, tools and answer, without secrets.",
    )
    redact: list[Annotated[str, Field(min_length=1, max_length=200)]] = Field(
        default_factory=list,
        max_length=1000,
        description="With content: patterns of field names that are removed, as for trace --redact. With events: any "
        "pattern replaces each text of an event by its length and SHA-256.",
    )


MaybeOtel: TypeAlias = Annotated[
    OtelEntry | None,
    Field(
        title="OpenTelemetry",
        description="The export of spans to a collector of OpenTelemetry. OTEL_EXPORTER_OTLP_ENDPOINT of the "
        "environment enables it as well.",
    ),
]


_Word: TypeAlias = Annotated[str, Field(max_length=4096)]


class NotifyEntry(Strict):
    """Way to announce messages that wait for an approval: a command or a webhook."""

    name: Name = Field(description="Part of the ids of its notices, and its name in logs.")
    command: Annotated[list[_Word], Field(min_length=1, max_length=100)] | None = Field(
        default=None,
        description="The program and its arguments, without a shell; it is started in the project directory and gets "
        "the notice as JSON on its standard input.",
        examples=[["/usr/local/bin/page"]],
    )
    env: list[Variable] = Field(
        default_factory=list,
        max_length=100,
        description="Names of the environment variables of the program, besides PATH, HOME, LANG and TZ.",
    )
    webhook: Annotated[str, Field(pattern=r"^https?://|\$\{", max_length=2000)] | None = Field(
        default=None,
        repr=False,
        description="The address that the notice is posted to, instead of a command.",
        examples=["https://desk.example/approvals"],
    )
    secret: Annotated[str, Field(min_length=1, max_length=1000)] | None = Field(
        default=None,
        repr=False,
        description="The secret that signs the requests of a webhook, as Standard Webhooks has it: Base64 of 24 to 64 "
        "bytes after whsec_. ${NAME} of the environment, or ${file:path}.",
        examples=["${NOTIFY_SECRET}"],
    )
    listeners: list[Name] = Field(
        default_factory=list,
        max_length=1000,
        description="The listeners whose messages are announced; all by default.",
    )
    after: Drain = Field(
        default=0.0,
        description="How long a message has waited before it is announced here; for a second approver, who is asked "
        "when the first does not answer.",
    )


def check_way(entry: NotifyEntry) -> NotifyEntry:
    """Check that there is exactly one way to announce. Raises ValueError."""
    if (entry.command is None) == (entry.webhook is None):
        raise ValueError("needs either command or webhook")
    if entry.webhook is None and entry.secret is not None:
        raise ValueError("secret is for a webhook; name an environment variable in env for a command")
    if entry.webhook is not None and entry.secret is None:
        raise ValueError('a webhook needs its secret: "${NAME}"')
    if entry.webhook is not None and entry.env:
        raise ValueError("env is for a command; a webhook has a secret")
    return entry


Notify: TypeAlias = Annotated[NotifyEntry, AfterValidator(check_way)]
