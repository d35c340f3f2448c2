"""Identity providers: the issuers whose tokens are accepted, and the rights that claims give."""

from __future__ import annotations

from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import TYPE_CHECKING, Literal, TypeAlias

from agentserver.core.state.principals import Trust

if TYPE_CHECKING:
    from collections.abc import Mapping

ProvidedRole: TypeAlias = Literal["user", "operator", "viewer"]
"""Roles that a rule may give. A worker answers for one listener and has a token of the list."""

SignatureAlgorithm: TypeAlias = Literal[
    "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"
]
"""Asymmetric signatures. With a symmetric one, each holder of the public key could sign."""

ClaimValue: TypeAlias = str | int | bool


@dataclass(frozen=True, slots=True)
class WindowBudget:
    """Limit of spending within a sliding window.

    Args:
        tokens: of language models; None for no limit.
        money: in millionths of a US dollar; None for no limit.
        window: seconds.
    """

    tokens: int | None
    money: int | None
    window: float


@dataclass(frozen=True, slots=True)
class ClaimRule:
    """Rule that gives rights to the users whose claims match.

    Args:
        when: for each claim the accepted values; every claim must have one of them, or contain one as a list.
        role: access of the user.
        trust: in the user's messages.
        may: the only listeners that the user may address; None for all.
        rate: requests, such as 10/s.
        open: conversations that the user may have open at a time.
        tenant: of the users; may be empty.
        tenant_claim: the claim that names the tenant, in place of ``tenant``.
        budget: of each user's spending.
    """

    when: Mapping[str, tuple[ClaimValue, ...]]
    role: ProvidedRole = "user"
    trust: Trust = Trust.STRANGER
    may: tuple[str, ...] | None = ()
    rate: str = "10/s"
    open: int = 20
    tenant: str = ""
    tenant_claim: str = ""
    budget: WindowBudget | None = None


@dataclass(frozen=True, slots=True)
class SharedQuota:
    """Limits of all users of a tenant or of a group together.

    Args:
        tenant: its name, or * for each tenant; empty for a group.
        group: its name, or * for each group; empty for a tenant.
        rate: requests, such as 100/s; empty for no limit.
        budget: of their spending. A group's counts conversations that were opened in it.
    """

    tenant: str = ""
    group: str = ""
    rate: str = ""
    budget: WindowBudget | None = None


@dataclass(frozen=True, slots=True)
class SignIn:
    """OAuth client with which people sign in to the live view.

    Args:
        client: its id at the provider.
        secret: of the client; empty for a public one.
        scope: the scopes that are requested.
    """

    client: str
    secret: str = field(default="", repr=False)
    scope: str = "openid"


@dataclass(frozen=True, slots=True)
class TokenExchange:
    """Client that exchanges tokens of users for servers that are called on their behalf (RFC 8693).

    Args:
        client: its id at the provider.
        secret: of the client.
        resources: addresses of the servers that a token may be for.
    """

    client: str
    secret: str = field(repr=False)
    resources: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class IdentityProvider:
    """Issuer whose tokens are accepted.

    Args:
        issuer: its URL, exactly as its tokens name it.
        audience: identifiers of this server; a token is for one of them.
        algorithms: of the signatures that are accepted.
        rules: the first that matches counts; a user without one is no principal.
        skew: greatest difference of the two clocks, in seconds.
        stale: seconds for which keys count without an answer of the provider.
        loopback: whether http is accepted for a provider on this machine.
        sign_in: the client of the live view; without one, people paste a token.
        mcp_audience: identifiers of the MCP resource; the address of /mcp if empty.
        exchange: the client of token exchange; None without one.
        groups: the claim that lists the groups of a user.
        quotas: limits of tenants and groups.
    """

    issuer: str
    audience: tuple[str, ...]
    algorithms: tuple[SignatureAlgorithm, ...]
    rules: tuple[ClaimRule, ...]
    skew: float = 30.0
    stale: float = 3600.0
    loopback: bool = False
    sign_in: SignIn | None = None
    mcp_audience: tuple[str, ...] = ()
    exchange: TokenExchange | None = None
    groups: str = "groups"
    quotas: tuple[SharedQuota, ...] = ()


def is_loopback(host: str) -> bool:
    """Check whether a host is this machine, so that requests to it need no TLS."""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False
