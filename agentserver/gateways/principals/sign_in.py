"""Sign-in of people at an identity provider: authorization code with PKCE (OpenID Connect, RFC 9700).

One random key in the browser's cookie derives state, nonce and verifier, so a sign-in that is never finished leaves
nothing behind, and any server of a cluster can finish it.

Needs the extra ``oidc``.
"""

from __future__ import annotations

import hmac
from base64 import b64encode, urlsafe_b64encode
from hashlib import sha256
from secrets import token_urlsafe
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import quote, urlencode

import anyio

from agentserver.gateways.principals.identity import (
    LONGEST,
    PATIENCE,
    RefusedTokenError,
    VerifiedToken,
    make_provided_name,
    read_object,
    request_provider,
)
from agentserver.ports.principals import StoreAwayError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from agentserver.gateways.principals.callers import Caller
    from agentserver.gateways.principals.identity import Endpoints, IdentityTokens, ProviderKeys
    from agentserver.ports.identity import SignIn

_ID_TOKEN: Final = frozenset({"jwt"})
_LOGOUT_TOKEN: Final = frozenset({"jwt", "logout+jwt", "application/logout+jwt"})
_LOGOUT_EVENT: Final = "http://schemas.openid.net/event/backchannel-logout"
_KEY: Final = 43
"""Characters of the key in a cookie."""

_LONGEST_ADDRESS: Final = 6000
"""Characters of an address that a browser is sent to."""


class SignedIn(NamedTuple):
    """Person who has signed in, or whose session was renewed.

    Args:
        caller: of the session.
        user: the name of the person without a tenant.
        issuer: of the tokens.
        nonce: of the sign-in.
        refresh: the refresh token; empty without one.
        id_token: the last ID token, which a sign-out names.
        sid: the provider's session; empty without one.
    """

    caller: Caller
    user: str
    issuer: str
    nonce: str
    refresh: str
    id_token: str
    sid: str


class EndedLogin(NamedTuple):
    """Logins that a provider has ended; one of both is empty.

    Args:
        sid: the session, with its issuer.
        name: the user, without a tenant, whose sessions all end.
    """

    sid: str
    name: str


class SignInClient:
    """Client of the identity providers at which people sign in to the live view.

    Args:
        tokens: verifies tokens of the providers.
        url: of the door, for the browser.
    """

    def __init__(self, tokens: IdentityTokens, url: str) -> None:
        self._tokens = tokens
        self._redirect, self._home = f"{url}/live/signed-in", f"{url}/"
        self._offered = {
            issuer: each.provider.sign_in
            for issuer, each in tokens.providers.items()
            if each.provider.sign_in is not None
        }

    @property
    def issuers(self) -> tuple[str, ...]:
        """The issuers at which people can sign in, in the order of the YAML."""
        return tuple(self._offered)

    def begin(self, issuer: str) -> tuple[str, str]:
        """Begin a sign-in; returns the cookie's value and the address for the browser.

        Raises LookupError for an unknown issuer, StoreAwayError while the provider is away.
        """
        client, endpoints = self._offered[issuer], self._find_endpoints(issuer)
        key = token_urlsafe(32)
        challenge = urlsafe_b64encode(sha256(_derive(key, "verifier", issuer).encode()).digest()).rstrip(b"=")
        query = {
            "response_type": "code",
            "client_id": client.client,
            "redirect_uri": self._redirect,
            "scope": client.scope,
            "state": _derive(key, "state", issuer),
            "nonce": _derive(key, "nonce", issuer),
            "code_challenge": challenge.decode(),
            "code_challenge_method": "S256",
        }
        return key, _add_query(endpoints.authorization, query)

    async def finish(self, key: str, query: Mapping[str, str]) -> SignedIn:
        """Redeem the code with which a browser comes back.

        Raises RefusedTokenError, which says why, and StoreAwayError while the provider is away.
        """
        issuer = self._match_state(key, query.get("state", ""))
        endpoints, named = self._find_endpoints(issuer), query.get("iss")
        unnamed_is_safe = len(self._offered) == 1 and not endpoints.names_issuer
        if named != issuer and not (named is None and unnamed_is_safe):
            raise RefusedTokenError(f"of {issuer} has a code that may be another provider's (RFC 9207)")
        code = query.get("code", "")
        if not code or len(code) > LONGEST:
            raise RefusedTokenError(f"of {issuer} was not issued: the browser came back without a code")
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": self._redirect,
            "code_verifier": _derive(key, "verifier", issuer),
        }
        answer = await self._redeem(issuer, form)
        token, nonce = answer.get("id_token"), _derive(key, "nonce", issuer)
        if not isinstance(token, str):
            raise RefusedTokenError(f"of {issuer} is missing: the provider has issued no ID token")
        verified = await self._verify_id_token(token, issuer)
        if not hmac.compare_digest(str(verified.claims.get("nonce")).encode(), nonce.encode()):
            raise RefusedTokenError(f"of {issuer} belongs to another sign-in: its nonce differs")
        refresh = _read_text(answer, "refresh_token")
        sid = _read_sid(verified.claims)
        user = make_provided_name(issuer, verified.claims["sub"])
        return SignedIn(verified.build_caller(), user, issuer, nonce, refresh, token, sid)

    async def renew(self, before: SignedIn, now: float) -> SignedIn:
        """Redeem the refresh token of a session. Its user, and the provider's session, must stay the same.

        Raises RefusedTokenError when the provider refuses, StoreAwayError while it is away.
        """
        issuer = before.issuer
        if issuer not in self._offered or not before.refresh:
            raise RefusedTokenError(f"of {issuer} has expired and cannot be renewed")
        answer = await self._redeem(issuer, {"grant_type": "refresh_token", "refresh_token": before.refresh})
        refresh = _read_text(answer, "refresh_token") or before.refresh
        token = answer.get("id_token")
        if not isinstance(token, str):  # OpenID Connect Core, 12.2
            lasts = answer.get("expires_in")
            if type(lasts) is not int or lasts <= 0:
                raise RefusedTokenError(f"of {issuer} was renewed without an ID token or a time")
            return before._replace(caller=before.caller.extend(now + min(lasts, 86_400)), refresh=refresh)
        verified = await self._verify_id_token(token, issuer)
        if verified.claims.get("nonce", before.nonce) != before.nonce:
            raise RefusedTokenError(f"of {issuer} belongs to another sign-in: its nonce differs")
        caller, sid = verified.build_caller(), _read_sid(verified.claims) or before.sid
        if caller.name != before.caller.name or sid != before.sid:
            raise RefusedTokenError(f"of {issuer} was renewed for another user or session")
        return before._replace(caller=caller, refresh=refresh, id_token=token)

    async def read_logout(self, token: str) -> EndedLogin:
        """Verify a logout token (OpenID Connect Back-Channel Logout, 2.6). Raises RefusedTokenError."""
        await self._tokens.prepare(token, _LOGOUT_TOKEN)
        need = ("exp", "iat", "iss", "aud", "jti", "events")
        for issuer, client in self._offered.items():
            try:
                claims = self._tokens.verify(token, client.client, _LOGOUT_TOKEN, need, issuer).claims
            except RefusedTokenError as error:
                reason = error
                continue
            events, subject, sid = claims["events"], claims.get("sub"), _read_sid(claims)
            if not isinstance(events, dict) or not isinstance(events.get(_LOGOUT_EVENT), dict):
                raise RefusedTokenError(f"of {issuer} is no logout token")
            if "nonce" in claims or not (sid or isinstance(subject, str)):
                raise RefusedTokenError(
                    f"of {issuer} is no logout token: it has a nonce, or names no session"
                )
            return EndedLogin(sid, "" if sid else make_provided_name(issuer, str(subject)))
        raise reason if self._offered else RefusedTokenError("is for no client of this server")

    def leave(self, session: SignedIn) -> str:
        """Return the address at which the browser signs out of the provider; empty if it has none."""
        keys = self._tokens.providers.get(session.issuer)
        client = self._offered.get(session.issuer)
        if keys is None or client is None or not keys.endpoints.end_session:
            return ""
        query = {"client_id": client.client, "post_logout_redirect_uri": self._home}
        hinted = _add_query(keys.endpoints.end_session, {**query, "id_token_hint": session.id_token})
        return hinted if len(hinted) <= _LONGEST_ADDRESS else _add_query(keys.endpoints.end_session, query)

    def _match_state(self, key: str, state: str) -> str:
        """Find the issuer of a sign-in. Raises RefusedTokenError if this browser has not begun it."""
        if len(key) == _KEY and key.isascii():
            for issuer in self._offered:
                if hmac.compare_digest(
                    _derive(key, "state", issuer).encode(), state.encode("utf-8", "replace")
                ):
                    return issuer
        raise RefusedTokenError("belongs to a sign-in that this browser has not begun")

    def _find_endpoints(self, issuer: str) -> Endpoints:
        """Find the endpoints of a provider. Raises StoreAwayError while they are unknown."""
        keys = self._tokens.providers[issuer]
        if keys.stale or not keys.endpoints.authorization or not keys.endpoints.token:
            raise StoreAwayError(f"{issuer} {keys.fault or 'offers no sign-in over https'}")
        return keys.endpoints

    async def _verify_id_token(self, token: str, issuer: str) -> VerifiedToken:
        """Verify an ID token of an issuer. Raises RefusedTokenError."""
        client = self._offered[issuer].client
        await self._tokens.prepare(token)
        verified = self._tokens.verify(token, client, _ID_TOKEN, issuer=issuer)
        claims = verified.claims
        party = claims.get("azp", client if isinstance(claims["aud"], str) or len(claims["aud"]) == 1 else "")
        if party != client:
            raise RefusedTokenError(f"of {issuer} was issued to another client")
        return verified

    async def _redeem(self, issuer: str, form: Mapping[str, str]) -> Mapping[str, Any]:
        """Ask for tokens. Raises RefusedTokenError when the provider refuses, StoreAwayError while it is away."""
        return await redeem(self._tokens.providers[issuer], self._offered[issuer], form)


async def redeem(
    keys: ProviderKeys,
    client: SignIn,
    form: Mapping[str, str],
    request: Callable[..., Awaitable[tuple[int, bytes]]] = request_provider,
) -> Mapping[str, Any]:
    """Ask the token endpoint of a provider.

    Raises RefusedTokenError when it refuses, StoreAwayError while it is away.
    """
    endpoints, issuer = keys.endpoints, keys.provider.issuer
    headers, filled = {"content-type": "application/x-www-form-urlencoded"}, {**form}
    if client.secret and not endpoints.posts_secret:  # RFC 6749, 2.3.1
        credentials = f"{quote(client.client, safe='')}:{quote(client.secret, safe='')}".encode()
        headers["authorization"] = f"Basic {b64encode(credentials).decode()}"
    else:
        filled |= {"client_id": client.client, **({"client_secret": client.secret} if client.secret else {})}
    try:
        with anyio.fail_after(PATIENCE):
            status, body = await request("POST", endpoints.token, headers, urlencode(filled).encode())
        answer = read_object(body) if status == 200 else {}  # noqa: PLR2004 - OK
    except (OSError, ValueError, TimeoutError) as error:
        raise StoreAwayError(f"{issuer} does not answer: {str(error) or 'in time'}") from None
    if status in (400, 401, 403):
        raise RefusedTokenError(f"of {issuer} was refused by its provider, with status {status}")
    if status != 200:  # noqa: PLR2004 - OK
        raise StoreAwayError(f"{issuer} answers with status {status}")
    return answer


def name_session(issuer: str, sid: str) -> str:
    """Name a session of a provider."""
    return sha256(f"{issuer}\0{sid}".encode("utf-8", "surrogatepass")).hexdigest()


def _read_sid(claims: Mapping[str, Any]) -> str:
    found = claims.get("sid")
    return name_session(claims["iss"], found) if isinstance(found, str) and found else ""


def _read_text(answer: Mapping[str, Any], name: str) -> str:
    found = answer.get(name)
    return found if isinstance(found, str) and len(found) <= LONGEST else ""


def _derive(key: str, use: str, issuer: str) -> str:
    """Derive a value of a sign-in, of 43 characters."""
    found = hmac.digest(key.encode(), f"{use} {issuer}".encode(), "sha256")
    return urlsafe_b64encode(found).rstrip(b"=").decode()


def _add_query(url: str, query: Mapping[str, str]) -> str:
    return f"{url}{'&' if '?' in url else '?'}{urlencode(query)}"
