"""Keys below ``identity:``, and the rules about several of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final, Literal, TypeAlias
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, StrictBool, StrictInt, model_validator

from agentserver.config.keys.fields import (
    Deadline,
    Drain,
    Line,
    Name,
    Strict,
    TextPattern,
    build_value,
    wrap_text,
)
from agentserver.config.keys.llm import BudgetEntry
from agentserver.core.state.principals import TENANT, Trust
from agentserver.extras import install_hint, is_installed
from agentserver.ports.identity import (
    ClaimRule,
    IdentityProvider,
    ProvidedRole,
    SharedQuota,
    SignatureAlgorithm,
    SignIn,
    TokenExchange,
    WindowBudget,
    is_loopback,
)
from agentserver.remedies.configuration import ConfigCode
from agentserver.spending import usd

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from agentserver.config.findings import Loc, Mistakes
    from agentserver.config.yaml.document import Document

_MOST_SKEW: Final = 300.0
"""Seconds."""

_MOST_WINDOW: Final = 31 * 86_400.0
"""Seconds."""

_RATE: Final = r"^[1-9][0-9]{0,5}/[smh]$"

_Issuer: TypeAlias = Annotated[
    str,
    Field(max_length=300, examples=["https://login.example/realms/desk"]),
    TextPattern(
        r"^https?://[^\s@?#]+$",
        "is an address that begins with https://, without user, query and fragment",
    ),
]
_Value: TypeAlias = Annotated[str, Field(min_length=1, max_length=500)] | StrictBool | StrictInt


def _wrap_value(value: object) -> object:
    return [value] if isinstance(value, str | int) else value


_Values: TypeAlias = Annotated[
    list[_Value],
    Field(min_length=1, max_length=1000),
    BeforeValidator(_wrap_value, json_schema_input_type=_Value | list[_Value]),
]
_Claim: TypeAlias = Annotated[str, Field(min_length=1, max_length=300)]
_Audience: TypeAlias = Annotated[
    list[Line],
    Field(min_length=1, max_length=10, examples=["https://desk.example"]),
    BeforeValidator(wrap_text, json_schema_input_type=Line | list[Line]),
]


def _bound_window(seconds: float) -> float:
    if seconds > _MOST_WINDOW:
        raise ValueError("is more than 31 days")
    return seconds


def _bound_skew(seconds: float) -> float:
    if seconds > _MOST_SKEW:
        raise ValueError("is more than 5m: set the clocks, since an expired token would count as long")
    return seconds


class WindowBudgetEntry(BudgetEntry):
    """Limit on spending within a sliding window."""

    window: Annotated[Deadline, AfterValidator(_bound_window)] = Field(
        default=86_400.0, description='Time that counts, up to 31 days: seconds, or text such as "24h".'
    )

    def build_budget(self) -> WindowBudget:
        """Build the budget."""
        return WindowBudget(self.tokens, None if self.money is None else usd(self.money), self.window)


_Rate: TypeAlias = Annotated[str, TextPattern(_RATE, "is a number and /s, /m or /h, such as 10/s")]
_Tenant: TypeAlias = Annotated[
    str, TextPattern(f"^{TENANT.pattern}$", "is at most 32 small letters, digits and hyphens")
]


class ClaimRuleEntry(Strict):
    """Rights of the users whose claims match."""

    when: dict[_Claim, _Values] = Field(
        min_length=1,
        max_length=20,
        description="Claims and their accepted values, such as {groups: desk}; all must match. A list matches when it "
        "contains one of the values. A name that begins with / is a path, such as /realm_access/roles.",
    )
    role: ProvidedRole = Field(default="user", description="The access of these users.")
    trust: Literal["stranger", "relay", "orders"] = Field(
        default="stranger", description="The trust in their messages."
    )
    may: list[Name] | Literal["all"] = Field(
        default_factory=list,
        max_length=1000,
        description="The listeners that they may address, or all.",
    )
    tenant: _Tenant | None = Field(
        default=None,
        description="The tenant of these users. They see nothing of other tenants; its operators see its "
        "conversations.",
    )
    tenant_claim: _Claim | None = Field(
        default=None,
        description="The claim that names the tenant, instead of tenant; a user without it is refused.",
        examples=["org_id"],
    )
    budget: WindowBudgetEntry | None = Field(
        default=None, description="What each of these users may spend on language models."
    )
    rate: _Rate = Field(default="10/s", description="Requests of each of these users.")
    open: int = Field(
        default=20, ge=0, le=1_000_000, description="Conversations that each may have open at a time."
    )

    @model_validator(mode="after")
    def _check(self) -> ClaimRuleEntry:
        if self.tenant is not None and self.tenant_claim is not None:
            raise ValueError("has one of tenant and tenant_claim")
        return self

    def build_rule(self) -> ClaimRule:
        """Build the rule."""
        return build_value(
            ClaimRule,
            self,
            when={claim: tuple(values) for claim, values in self.when.items()},
            trust=Trust(self.trust),
            may=None if self.may == "all" else tuple(self.may),
            budget=None if self.budget is None else self.budget.build_budget(),
        )


class SharedQuotaEntry(Strict):
    """Limits of all users of a tenant, or of a group, together."""

    tenant: _Tenant | Literal["*"] | None = Field(
        default=None, description="Name of a tenant; * for each tenant by itself."
    )
    group: Annotated[str, Field(min_length=1, max_length=300)] | None = Field(
        default=None, description="Name of a group; * for each group by itself."
    )
    rate: _Rate | None = Field(default=None, description="Requests of all together.")
    budget: WindowBudgetEntry | None = Field(
        default=None,
        description="What all of them may spend on language models. A conversation counts for the groups with which it "
        "was opened.",
    )

    @model_validator(mode="after")
    def _check(self) -> SharedQuotaEntry:
        if (self.tenant is None) == (self.group is None):
            raise ValueError("is for a tenant or for a group")
        if self.rate is None and self.budget is None:
            raise ValueError("needs rate or budget")
        return self

    def build_quota(self) -> SharedQuota:
        """Build the quota."""
        budget = None if self.budget is None else self.budget.build_budget()
        return build_value(SharedQuota, self, budget=budget)


class SignInEntry(Strict):
    """OAuth client with which people sign in to the live view."""

    client: Line = Field(description="The id of this client at the provider.", examples=["desk"])
    secret: Annotated[str, Field(min_length=1, max_length=1000)] | None = Field(
        default=None,
        repr=False,
        description="The secret of this client: ${NAME} of the environment, or ${file:path}; never the secret itself. "
        "A public client has none.",
        examples=["${OIDC_SECRET}"],
    )
    scope: Annotated[
        str,
        Field(max_length=1000),
        TextPattern(r"^[!#-\[\]-~]+( [!#-\[\]-~]+)*$", "is scopes with one space between two"),
    ] = Field(
        default="openid",
        description="The scopes to request. Many providers want offline_access for sessions that outlast a token.",
        examples=["openid groups offline_access"],
    )


class ExchangeEntry(Strict):
    """Client that exchanges a user's token for a token that an MCP server accepts (RFC 8693)."""

    client: Line = Field(description="The id of this client at the provider.", examples=["desk-agents"])
    secret: Annotated[str, Field(min_length=1, max_length=1000)] = Field(
        repr=False,
        description="The secret of this client: ${NAME} of the environment, or ${file:path}; never the secret itself.",
        examples=["${EXCHANGE_SECRET}"],
    )
    resources: list[Annotated[str, Field(pattern=r"^https?://", max_length=2000)]] = Field(
        min_length=1,
        max_length=1000,
        description="Addresses of the servers that a token may be for, exactly as mcp: names them.",
        examples=[["https://mail.example/mcp"]],
    )


class IdentityEntry(Strict):
    """Identity provider (OpenID Connect) whose tokens the door accepts. Needs the extra oidc."""

    issuer: _Issuer = Field(description="The provider's issuer URL, exactly as its tokens name it.")
    audience: _Audience = Field(
        description="Identifiers of this server at the provider; a token for another audience is refused."
    )
    algorithms: list[SignatureAlgorithm] = Field(
        default=["RS256"],
        min_length=1,
        max_length=10,
        description="Accepted signatures. All are asymmetric.",
    )
    skew: Annotated[Drain, AfterValidator(_bound_skew)] = Field(
        default=30.0, description="How far the two clocks may differ, at most 5m."
    )
    stale: Deadline = Field(
        default=3600.0,
        description="How long known keys count while the provider does not answer. Afterwards its users get 503.",
    )
    loopback: bool = Field(
        default=False,
        description="true: http is accepted for a provider on this machine, for tests.",
    )
    sign_in: SignInEntry | None = Field(
        default=None,
        title="Sign-in",
        description="The client by which people sign in to the live view. Register PUBLIC_URL/live/signed-in as its "
        "redirect URI.",
    )
    mcp_audience: _Audience | None = Field(
        default=None,
        description="Identifiers of /mcp at the provider, instead of PUBLIC_URL/mcp. A token for them is accepted "
        "there alone, and no other is.",
    )
    exchange: ExchangeEntry | None = Field(
        default=None, description="The client that calls MCP servers with on_behalf: true for users."
    )
    groups: _Claim = Field(
        default="groups", description="The claim that lists the groups of a user, for quotas."
    )
    quotas: list[SharedQuotaEntry] = Field(
        default_factory=list,
        max_length=1000,
        description="Limits of tenants and groups, besides those of each user.",
    )
    rules: list[ClaimRuleEntry] = Field(
        min_length=1,
        max_length=1000,
        description="Rights by claims. The first rule that matches counts; a user without one is refused.",
    )

    def build(self) -> IdentityProvider:
        """Build the provider."""
        exchange = self.exchange
        return build_value(
            IdentityProvider,
            self,
            rules=tuple(each.build_rule() for each in self.rules),
            sign_in=None if self.sign_in is None else build_value(SignIn, self.sign_in),
            exchange=None if exchange is None else build_value(TokenExchange, exchange),
            quotas=tuple(each.build_quota() for each in self.quotas),
        )


def read_identity(
    document: Document, faulty: Collection[str], listeners: Collection[str], report: Mistakes
) -> tuple[IdentityProvider, ...]:
    """Read the identity providers of an organism. Reports contradictions."""
    if "identity" not in document.data.keys() - faulty:
        if "identity" not in document.data:
            _check_delegation(document, (), report)
        return ()
    entries = [IdentityEntry.model_validate(each) for each in document.data["identity"]]
    span = document.locate(("identity",))
    if "http" not in document.data:
        report.add_error(ConfigCode.MISSING, span, "needs a door", '"http: {}"')
    if not is_installed("oidc"):
        report.add_error(ConfigCode.EXTRA, span, f"needs the extra oidc: {install_hint('oidc')}")
    for number, entry in enumerate(entries):
        if entry.sign_in is not None and "openid" not in entry.sign_in.scope.split():
            message = "has no openid, so the provider would not say who has signed in"
            report.add_error(
                ConfigCode.VALUE, document.locate(("identity", number, "sign_in", "scope")), message
            )
        at = document.locate(("identity", number, "issuer"))
        for message, helps in _find_faults(entry, [each.issuer for each in entries[:number]]):
            report.add_error(ConfigCode.VALUE, at, message, helps)
        for loc, name in _list_targets(number, entry):
            report.check_listener(document.locate(loc), name, listeners)
    _check_delegation(document, entries, report)
    return tuple(each.build() for each in entries)


def _check_delegation(document: Document, entries: Sequence[IdentityEntry], report: Mistakes) -> None:
    """Report MCP servers that are called on behalf of users, and for which no provider exchanges tokens."""
    known = {url for each in entries if each.exchange is not None for url in each.exchange.resources}
    servers = document.data.get("mcp")
    for number, server in enumerate(servers if isinstance(servers, list) else ()):
        if isinstance(server, dict) and server.get("on_behalf") is True and server.get("url") not in known:
            at = document.locate(("mcp", number, "on_behalf"))
            message = "no identity provider exchanges tokens for this server"
            report.add_error(ConfigCode.VALUE, at, message, "its url in identity: exchange: resources:")


def _find_faults(entry: IdentityEntry, earlier: Collection[str]) -> Iterator[tuple[str, str]]:
    """List the faults of an issuer with their corrections."""
    url = urlsplit(entry.issuer)
    if entry.issuer in earlier:
        yield "this issuer is there already", "one entry with the rules of both"
    if url.scheme == "http" and not is_loopback(url.hostname or ""):
        yield "keys would be fetched unencrypted", f'"issuer: https{entry.issuer[4:]}"'
    elif url.scheme == "http" and not entry.loopback:
        yield "keys would be fetched unencrypted", '"loopback: true", for a provider of tests'


def _list_targets(number: int, entry: IdentityEntry) -> Iterator[tuple[Loc, str]]:
    for rule, each in enumerate(entry.rules):
        if each.may != "all":
            for at, name in enumerate(each.may):
                yield ("identity", number, "rules", rule, "may", at), name
