"""Bearer tokens of identity providers (JWT), checked at the gate with those of the list of principals.

A token is measured before it is parsed. Its key comes only from the JWKS that the provider's own metadata names:
headers that bring or locate a key are ignored, and symmetric or missing signatures are refused.

Needs the extra ``oidc``.
"""

from __future__ import annotations

import json
import logging
import ssl
import time
from base64 import urlsafe_b64decode
from contextlib import asynccontextmanager
from dataclasses import replace
from hashlib import sha256
from importlib import import_module
from math import inf
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import quote, urlsplit

import anyio

from agentserver.core.state.principals import LONGEST as LONGEST_NAME
from agentserver.core.state.principals import PROVIDED, TENANT, Principal, find_scope
from agentserver.foreign_json.reading import JsonLimits, RefusedJson, parse_json
from agentserver.gateways.principals.callers import Caller, Rate, Role
from agentserver.ports.identity import is_loopback
from agentserver.supervision import EndEffect, start_helper

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterator, Mapping, Sequence

    import httpx

    from agentserver.gateways.principals.tokens import Tokens
    from agentserver.ports.identity import ClaimRule, ClaimValue, IdentityProvider, SharedQuota

LONGEST: Final = 8192
"""Characters of a token."""

MOST: Final = 1 << 18
"""Bytes of a provider's document."""

KEYS: Final = 64
"""Keys of a provider."""

PATIENCE: Final = 5.0
"""Seconds for fetching both documents of a provider."""

REFRESH: Final = 300.0
"""Seconds between two fetches of a provider's keys."""

RETRY: Final = 5.0
"""Seconds between two fetches while a provider does not answer."""

PAUSE: Final = 10.0
"""Seconds after a fetch within which an unknown key causes no further one."""

_TOKEN: Final = JsonLimits(bytes=LONGEST, values=1000, depth=8, members=200, digits=20)
_DOCUMENT: Final = JsonLimits(bytes=MOST, values=10_000, depth=8, members=500, digits=20)
_BEARER: Final = frozenset({"jwt", "at+jwt", "application/at+jwt"})
_NEEDED: Final = ("exp", "iat", "iss", "sub", "aud")
_RSA: Final = frozenset({"RS256", "RS384", "RS512", "PS256", "PS384", "PS512"})
_CURVES: Final = {"P-256": "ES256", "P-384": "ES384", "P-521": "ES512"}
_PUBLIC: Final = {"RSA": ("e", "kty", "n"), "EC": ("crv", "kty", "x", "y"), "OKP": ("crv", "kty", "x")}
_SMALLEST_RSA: Final = 2048

_LOG: Final = logging.getLogger(__name__)


class RefusedTokenError(ValueError):
    """Error of a token that is refused. Its message does not quote the token."""


class ProviderKey(NamedTuple):
    """Public key of a provider.

    Args:
        kid: names it in the headers of tokens; empty without a name.
        algorithms: the signatures that it can check.
        thumbprint: SHA-256 of its public parts.
        key: as the library takes it.
    """

    kid: str
    algorithms: frozenset[str]
    thumbprint: str
    key: Any


def read_keys(data: bytes) -> tuple[ProviderKey, ...]:
    """Read a JWKS; keys for other purposes are left out. Raises ValueError for an unusable one."""
    found = read_object(data).get("keys")
    if not isinstance(found, list) or not 0 < len(found) <= KEYS:
        raise ValueError(f"its JWKS has no list of 1 to {KEYS} keys")
    keys = [key for each in found if isinstance(each, dict) and (key := _read_key(each)) is not None]
    names = [(each.kid, algorithm) for each in keys for algorithm in each.algorithms]
    if len(set(names)) < len(names):
        raise ValueError("its JWKS has several keys under one kid")
    if not keys:
        raise ValueError("its JWKS has no public key for signatures")
    return tuple(keys)


def _read_key(entry: Mapping[str, Any]) -> ProviderKey | None:
    """Read a key of a JWKS; None for an unsuitable key. Raises ValueError."""
    jwt = import_module("jwt")
    algorithms = _find_algorithms(entry)
    if not algorithms or "d" in entry:  # a private key that is published is nobody's
        return None
    kid = entry.get("kid", "")
    public = {name: entry.get(name) for name in _PUBLIC[entry["kty"]]}
    if not all(isinstance(each, str) for each in (kid, *public.values())):
        return None
    try:
        key = jwt.PyJWK(public, algorithm=min(algorithms)).key
    except (jwt.PyJWTError, ValueError, TypeError, KeyError):
        return None
    if entry["kty"] == "RSA" and key.key_size < _SMALLEST_RSA:
        return None
    thumbprint = sha256(json.dumps(public, sort_keys=True).encode()).hexdigest()
    return ProviderKey(kid, algorithms, thumbprint, key)


def _find_algorithms(entry: Mapping[str, Any]) -> frozenset[str]:
    """List the signature algorithms of a key."""
    kind, curve = entry.get("kty"), entry.get("crv")
    checks = entry.get("key_ops", ["verify"])
    if entry.get("use", "sig") != "sig" or not isinstance(checks, list) or "verify" not in checks:
        return frozenset()
    if kind == "RSA":
        found = _RSA
    elif kind == "EC" and isinstance(curve, str) and curve in _CURVES:
        found = frozenset({_CURVES[curve]})
    else:
        found = frozenset({"EdDSA"}) if (kind, curve) == ("OKP", "Ed25519") else frozenset()
    named = entry.get("alg")
    return found if named is None else found & {named} if isinstance(named, str) else frozenset()


def read_object(data: bytes, limits: JsonLimits = _DOCUMENT) -> dict[str, Any]:
    """Read a JSON object. Raises ValueError."""
    found = parse_json(data, limits)
    if isinstance(found, RefusedJson) or not isinstance(found, dict):
        raise ValueError("is no JSON object within the limits")  # noqa: TRY004 - a refusal is a value
    return found


async def fetch_document(url: str) -> bytes:
    """Fetch a document of a provider. Follows no redirect. Raises ValueError, OSError."""
    status, body = await request_provider("GET", url)
    if status != 200:  # noqa: PLR2004 - OK
        raise ValueError(f"{url} answers with status {status}")
    return body


async def request_provider(
    method: str, url: str, headers: Mapping[str, str] = MappingProxyType({}), body: bytes = b""
) -> tuple[int, bytes]:
    """Send a request to a provider; returns status and body. Follows no redirect. Raises ValueError, OSError."""
    web = import_module("httpx")
    secure = url.startswith("https:")
    trust = await anyio.to_thread.run_sync(
        ssl.create_default_context if secure else lambda: ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    )
    headers = {"accept": "application/json", "accept-encoding": "identity", **headers}
    try:
        async with (
            web.AsyncClient(verify=trust, trust_env=False, timeout=PATIENCE) as client,
            client.stream(method, url, headers=headers, content=body, follow_redirects=False) as answer,
        ):
            return answer.status_code, await _read_bounded(url, answer)
    except (web.HTTPError, web.InvalidURL) as error:
        raise OSError(f"{url} does not answer: {type(error).__name__}") from None


async def _read_bounded(url: str, answer: httpx.Response) -> bytes:
    """Read the body of an answer. Raises ValueError for a compressed and for an oversized one."""
    if "content-encoding" in answer.headers:
        raise ValueError(f"{url} answers compressed")
    body = bytearray()
    async for piece in answer.aiter_raw():
        body += piece
        if len(body) > MOST:
            raise ValueError(f"{url} has more than {MOST} bytes")
    return bytes(body)


class Endpoints(NamedTuple):
    """Addresses of a provider; an empty one is not offered, or not over https.

    Args:
        authorization: where a browser signs in.
        token: where codes and refresh tokens are redeemed.
        end_session: where a browser signs out.
        names_issuer: whether its answers to browsers name it (RFC 9207).
        posts_secret: whether the secret of a client has to be in the form.
    """

    authorization: str = ""
    token: str = ""
    end_session: str = ""
    names_issuer: bool = False
    posts_secret: bool = False


class ProviderKeys:
    """Keys and endpoints of one provider, fetched in the background and cached.

    Args:
        provider: whose keys these are.
        steady: a monotonic clock, in seconds.
        fetch: fetches a document.

    ``fetches`` counts how often they were fetched.
    """

    def __init__(
        self,
        provider: IdentityProvider,
        steady: Callable[[], float] = time.monotonic,
        fetch: Callable[[str], Awaitable[bytes]] = fetch_document,
    ) -> None:
        self.provider, self._steady, self._fetch = provider, steady, fetch
        self.keys: tuple[ProviderKey, ...] = ()
        self.endpoints = Endpoints()
        self.fault = "has not answered yet"
        self._fetched = self._tried = -inf
        self._lock = anyio.Lock()
        self.fetches = 0

    @property
    def stale(self) -> bool:
        """True when the keys are too old to count."""
        return self._steady() - self._fetched > self.provider.stale

    def find(self, kid: str, algorithm: str) -> ProviderKey | None:
        """Find the key of a header; without a kid, the only one for this algorithm."""
        fitting = [each for each in self.keys if algorithm in each.algorithms]
        if kid:
            fitting = [each for each in fitting if each.kid == kid]
        return fitting[0] if len(fitting) == 1 else None

    def has(self, thumbprint: str) -> bool:
        """Tell whether a key still counts."""
        return not self.stale and any(each.thumbprint == thumbprint for each in self.keys)

    async def refresh_for(self, kid: str, algorithm: str) -> None:
        """Fetch the keys if they lack this one and were not fetched just now."""
        if self.find(kid, algorithm) is not None:
            return
        async with self._lock:
            if self.find(kid, algorithm) is None and self._steady() - self._tried >= PAUSE:
                await self._refresh()

    async def refresh(self) -> None:
        """Fetch the keys; a failure keeps the former ones."""
        async with self._lock:
            await self._refresh()

    async def watch(self) -> None:
        """Fetch the keys again and again, until cancelled."""
        while True:
            await self.refresh()
            await anyio.sleep(RETRY if self.fault else min(REFRESH, self.provider.stale / 2))

    async def _refresh(self) -> None:
        self._tried, before = self._steady(), self.fault
        self.fetches += 1
        try:
            with anyio.fail_after(PATIENCE):
                self.keys = await self._fetch_keys()
        except TimeoutError:
            self.fault = "does not answer in time"
        except (OSError, ValueError) as error:
            self.fault = str(error)
        else:
            self._fetched, self.fault = self._steady(), ""
        if self.fault and self.fault != before:
            _LOG.error("the keys of %s cannot be fetched: %s", self.provider.issuer, self.fault)

    async def _fetch_keys(self) -> tuple[ProviderKey, ...]:
        issuer = self.provider.issuer
        about = read_object(await self._fetch(f"{issuer.rstrip('/')}/.well-known/openid-configuration"))
        if about.get("issuer") != issuer:
            raise ValueError("its metadata is another issuer's")
        keys_url = about.get("jwks_uri")
        if not isinstance(keys_url, str) or not self._is_fetchable(keys_url):
            raise ValueError("its metadata has no jwks_uri that begins with https://")
        keys = read_keys(await self._fetch(keys_url))
        self.endpoints = self._read_endpoints(about)
        return keys

    def _read_endpoints(self, about: Mapping[str, Any]) -> Endpoints:
        def find(name: str) -> str:
            url = about.get(name)
            return url if isinstance(url, str) and self._is_fetchable(url) else ""

        methods = about.get("token_endpoint_auth_methods_supported")
        return Endpoints(
            find("authorization_endpoint"),
            find("token_endpoint"),
            find("end_session_endpoint"),
            names_issuer=about.get("authorization_response_iss_parameter_supported") is True,
            posts_secret=isinstance(methods, list) and "client_secret_basic" not in methods,
        )

    def _is_fetchable(self, url: str) -> bool:
        parts = urlsplit(url)
        if not (url.isascii() and url.isprintable()) or parts.username is not None or not parts.hostname:
            return False
        return parts.scheme == "https" or (
            parts.scheme == "http" and self.provider.loopback and is_loopback(parts.hostname)
        )


class _ParsedToken(NamedTuple):
    """Token that is well-formed, and not verified."""

    issuer: str
    kid: str
    algorithm: str


def is_jwt(token: str) -> bool:
    """Tell whether a token has the form of a JWT. No token of the list of principals has a dot."""
    return token.count(".") == 2  # noqa: PLR2004 - header.claims.signature


def _parse(token: str, types: Collection[str] = _BEARER) -> _ParsedToken:
    """Parse a token without verifying it. Raises RefusedTokenError."""
    if len(token) > LONGEST:
        raise RefusedTokenError(f"has more than {LONGEST} characters")
    try:
        header, claims = (
            read_object(_decode(part), _TOKEN) for part in token.encode("ascii").split(b".")[:2]
        )
    except ValueError:
        raise RefusedTokenError("is no JWT") from None
    kid, algorithm, issuer = header.get("kid", ""), header.get("alg"), claims.get("iss")
    if not isinstance(kid, str) or not isinstance(algorithm, str) or not isinstance(issuer, str):
        raise RefusedTokenError("has no kid, alg and iss that are text")
    if "crit" in header:
        raise RefusedTokenError("has a critical header, and none is understood")
    if str(header.get("typ", "jwt")).lower() not in types:
        raise RefusedTokenError(f"is of another type than {' and '.join(sorted(types))}")
    if "cnf" in claims:
        raise RefusedTokenError("is bound to a key of its client, and a bearer shows none")
    return _ParsedToken(issuer, kid, algorithm)


def _decode(part: bytes) -> bytes:
    if b"=" in part:
        raise ValueError("padded")
    return urlsafe_b64decode(part + b"=" * (-len(part) % 4))


def make_provided_name(issuer: str, subject: str, tenant: str = "") -> str:
    """Name a user of a provider: an injective text of tenant, issuer and subject, which no name of the list equals."""
    begin = find_scope(tenant) if tenant else PROVIDED
    name = f"{begin}{issuer}#{quote(subject, safe='@+=,')}"
    return name if len(name) <= LONGEST_NAME else begin + sha256(name.encode()).hexdigest()


def find_tenant(rule: ClaimRule, claims: Mapping[str, Any]) -> str:
    """Find the tenant of a user; empty if the rule gives none. Raises RefusedTokenError for an unusable claim."""
    if not rule.tenant_claim:
        return rule.tenant
    found = _find_claim(claims, rule.tenant_claim)
    if not isinstance(found, str) or TENANT.fullmatch(found) is None:
        raise RefusedTokenError("names no tenant of at most 32 small letters, digits and hyphens")
    return found


def _list_shares(
    provider: IdentityProvider, claims: Mapping[str, Any], tenant: str
) -> Iterator[tuple[str, SharedQuota]]:
    """List the quotas that a user shares, each with the name of its bucket."""
    claimed = _find_claim(claims, provider.groups)
    listed = claimed if isinstance(claimed, list) else [claimed]
    groups = {each for each in listed if isinstance(each, str) and each}
    for quota in provider.quotas:
        if tenant and quota.tenant in ("*", tenant):
            yield find_scope(tenant), quota
        for group in sorted(groups if quota.group == "*" else groups & {quota.group}):
            counted = sha256(f"{provider.issuer}\0{tenant}\0{group}".encode("utf-8", "surrogatepass"))
            yield f"{PROVIDED}group {counted.hexdigest()}", quota  # tenants with one group count apart


def find_rule(rules: Sequence[ClaimRule], claims: Mapping[str, Any]) -> ClaimRule | None:
    """Find the first rule that matches; None without one."""
    return next((each for each in rules if _is_match(each, claims)), None)


def _is_match(rule: ClaimRule, claims: Mapping[str, Any]) -> bool:
    return all(_has_value(_find_claim(claims, name), wanted) for name, wanted in rule.when.items())


def _find_claim(claims: Mapping[str, Any], name: str) -> Any:
    """Find a claim by its name, or by a path that begins with /; None without one."""
    if not name.startswith("/"):
        return claims.get(name)
    found: Any = claims
    for part in name[1:].split("/"):
        found = found.get(part.replace("~1", "/").replace("~0", "~")) if isinstance(found, dict) else None
    return found


def _has_value(found: Any, wanted: Sequence[ClaimValue]) -> bool:
    claimed = found if isinstance(found, list) else [found]
    return any(type(one) is type(value) and one == value for one in claimed for value in wanted)


class IdentityTokens:
    """Callers by the tokens of identity providers, and of the list of principals.

    Args:
        known: the list of principals, for tokens of any other form.
        providers: the issuers of other tokens.
        now: seconds since the epoch, for sessions that outlive a request.
        steady: a monotonic clock, in seconds.
        fetch: fetches a document of a provider.
        mcp: the identifier of /mcp for tokens; empty where nothing is served there.

    ``shown`` receives each verified bearer token of a provider, with its caller.
    """

    def __init__(
        self,
        known: Tokens,
        providers: Sequence[IdentityProvider],
        now: Callable[[], float] = time.time,
        steady: Callable[[], float] = time.monotonic,
        fetch: Callable[[str], Awaitable[bytes]] = fetch_document,
        mcp: str = "",
    ) -> None:
        self._known, self._now, self._mcp = known, now, mcp
        self.shown: Callable[[Caller, str], None] | None = None
        self.providers = {each.issuer: ProviderKeys(each, steady, fetch) for each in providers}

    async def prepare(self, token: str, types: Collection[str] = _BEARER) -> None:
        """Fetch the keys of a token's issuer if they lack its key, at most every few seconds."""
        if not is_jwt(token):
            return
        try:
            parsed = _parse(token, types)
        except RefusedTokenError:
            return
        keys = self.providers.get(parsed.issuer)
        if keys is not None and parsed.algorithm in keys.provider.algorithms:
            await keys.refresh_for(parsed.kid, parsed.algorithm)

    def authenticate(self, token: str) -> Caller | None:
        """Return the caller of a token; None for an unknown one. The log says why a JWT is refused."""
        if not is_jwt(token):
            return self._known.authenticate(token)
        try:
            return self._verify(token)
        except RefusedTokenError as why:
            _LOG.warning("the token of an identity provider %s", why)
            return None

    def explain_absence(self, token: str) -> str:
        """Return why a token cannot be checked at present; empty if it can."""
        if not is_jwt(token):
            return self._known.explain_absence(token)
        try:
            keys = self.providers.get(_parse(token).issuer)
        except RefusedTokenError:
            return ""
        return "The identity provider does not answer." if keys is not None and keys.stale else ""

    def stands(self, caller: Caller) -> bool:
        """Tell whether the caller's token has not expired, and its key or its entry is still there."""
        if not caller.name.startswith(PROVIDED):
            return self._known.stands(caller)
        issuer, thumbprint, _ = caller.grant.split(" ")
        keys = self.providers.get(issuer)
        return self._now() < caller.until and keys is not None and keys.has(thumbprint)

    async def wait_revoked(self, caller: Caller) -> None:
        """Wait until the caller's token expires or is revoked, or its rights change."""
        if not caller.name.startswith(PROVIDED):
            await self._known.wait_revoked(caller)
            return
        while self.stands(caller):  # noqa: ASYNC110 - time passes, and no event ends a token
            await anyio.sleep(min(1.0, max(caller.until - self._now(), 0.01)))

    @asynccontextmanager
    async def watch(self) -> AsyncIterator[None]:
        """Keep the list of principals and the keys of all providers up to date while this lasts."""
        async with self._known.watch(), anyio.create_task_group() as tasks:
            for each in self.providers.values():
                name = f"fetches the keys of {each.provider.issuer}"
                start_helper(tasks, name, EndEffect.RESTART, each.watch)
            try:
                yield
            finally:
                tasks.cancel_scope.cancel()

    def _verify(self, token: str) -> Caller:
        """Verify a bearer token. Raises RefusedTokenError."""
        verified = self.verify(token)
        named = verified.claims["aud"]
        audience = {named} if isinstance(named, str) else set(named)
        provider = verified.provider
        accepted = {"/": provider.audience, "/mcp": self._list_mcp(provider)}
        resources = tuple(path for path, names in accepted.items() if audience.intersection(names))
        caller = replace(verified.build_caller(), resources=resources)
        if self.shown is not None:
            self.shown(caller, token)
        return caller

    def _list_mcp(self, provider: IdentityProvider) -> tuple[str, ...]:
        """List the identifiers of /mcp at a provider."""
        return provider.mcp_audience or ((self._mcp,) if self._mcp else ())

    def verify(
        self,
        token: str,
        client: str = "",
        types: Collection[str] = _BEARER,
        need: Collection[str] = _NEEDED,
        issuer: str = "",
    ) -> VerifiedToken:
        """Verify a token for this server, or one for a client. Raises RefusedTokenError.

        Args:
            token: as it came.
            client: audience in place of the provider's ``audience``; empty for a bearer token.
            types: accepted in its header.
            need: the claims that it must have.
            issuer: the only accepted one; empty for any.
        """
        parsed = _parse(token, types)
        keys = self.providers.get(parsed.issuer)
        if keys is None or issuer not in ("", parsed.issuer):
            raise RefusedTokenError("is of an issuer that identity: does not name")
        provider = keys.provider
        if parsed.algorithm not in provider.algorithms:
            raise RefusedTokenError(f"of {provider.issuer} has a signature of another algorithm")
        if keys.stale:
            raise RefusedTokenError(f"of {provider.issuer} cannot be checked: it {keys.fault}")
        key = keys.find(parsed.kid, parsed.algorithm)
        if key is None:
            raise RefusedTokenError(f"of {provider.issuer} names no key of it")
        audience = (client,) if client else (*provider.audience, *self._list_mcp(provider))
        claims = _check_claims(token, provider, key, parsed.algorithm, audience, need)
        return VerifiedToken(provider, key, claims, sha256(token.encode()).hexdigest())


class VerifiedToken(NamedTuple):
    """Token whose signature, times, issuer and audience are right.

    Args:
        provider: that issued it.
        key: that signed it.
        claims: of the token.
        digest: SHA-256 of the token.
    """

    provider: IdentityProvider
    key: ProviderKey
    claims: Mapping[str, Any]
    digest: str

    def build_caller(self) -> Caller:
        """Build the caller from the claims. Raises RefusedTokenError if no rule matches."""
        provider, claims = self.provider, self.claims
        rule = find_rule(provider.rules, claims)
        if rule is None:
            raise RefusedTokenError(f"of {provider.issuer} has claims that no rule matches")
        tenant = find_tenant(rule, claims)
        name = make_provided_name(provider.issuer, claims["sub"], tenant)
        shares = tuple(_list_shares(provider, claims, tenant))
        payers = tuple(dict.fromkeys(owner for owner, quota in shares if quota.group and quota.budget))
        grant = f"{provider.issuer} {self.key.thumbprint} {self.digest}"
        until = float(claims["exp"]) + provider.skew
        return Caller(
            Principal(name, rule.trust, rule.may, payers=payers),
            Role(rule.role),
            Rate.parse(rule.rate),
            rule.open,
            grant,
            until=until,
            shares=tuple((owner, Rate.parse(quota.rate)) for owner, quota in shares if quota.rate),
            budgets=tuple(
                (owner, budget)
                for owner, budget in (
                    (name, rule.budget),
                    *((owner, quota.budget) for owner, quota in shares),
                )
                if budget is not None
            ),
        )


def _check_claims(
    token: str,
    provider: IdentityProvider,
    key: ProviderKey,
    algorithm: str,
    audience: Sequence[str],
    need: Collection[str],
) -> Mapping[str, Any]:
    """Check signature, times, issuer and audience; returns the claims. Raises RefusedTokenError."""
    jwt = import_module("jwt")
    try:
        claims: Mapping[str, Any] = jwt.decode(
            token,
            key.key,
            algorithms=[algorithm],
            audience=audience,
            issuer=provider.issuer,
            leeway=provider.skew,
            options={"require": list(need)},
        )
    except (jwt.PyJWTError, ValueError, TypeError, OverflowError) as error:
        raise RefusedTokenError(f"of {provider.issuer} is refused: {type(error).__name__}") from None
    subject = claims.get("sub", "-" if "sub" not in need else None)
    if not isinstance(subject, str) or not 0 < len(subject) <= 255 or not isinstance(claims["exp"], int):  # noqa: PLR2004 - OpenID Connect Core, 2
        raise RefusedTokenError(f"of {provider.issuer} has no subject, or a time that is no whole number")
    return claims
