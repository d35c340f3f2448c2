"""Tokens that users have shown at the door, exchanged for calls on their behalf (RFC 8693).

They are in memory alone, until they expire. Where a user's token is missing, as after a restart, nothing is called.

Needs the extra ``oidc``.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import anyio

from agentserver.delegation import DelegationCode, DelegationError
from agentserver.gateways.principals.identity import RefusedTokenError, is_jwt
from agentserver.gateways.principals.sign_in import redeem
from agentserver.ports.identity import SignIn
from agentserver.ports.principals import StoreAwayError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from agentserver.gateways.principals.callers import Caller
    from agentserver.gateways.principals.identity import IdentityTokens
    from agentserver.ports.identity import TokenExchange

GRANT: Final = "urn:ietf:params:oauth:grant-type:token-exchange"
ACCESS: Final = "urn:ietf:params:oauth:token-type:access_token"

MOST: Final = 10_000
"""Users whose token is kept, and exchanged tokens; the oldest makes room."""

EARLY: Final = 10.0
"""Seconds before its expiry from which an exchanged token is not used."""

_LONGEST: Final = 16_384
"""Characters of an exchanged token."""


class _ShownToken(NamedTuple):
    """Token that a user has shown."""

    caller: Caller
    token: str


class _ExchangedToken(NamedTuple):
    """Token for one resource. ``grant`` is of the token that it was exchanged for."""

    token: str
    grant: str
    until: float


UNSEEN: Final = (
    "this server has no token of the user, which it takes from the user's requests and never stores. It was started, or"
    " took over the conversation, after the last one, or another server took that one: ask the user to send a message,"
    " and call the tool again then"
)

EXPIRED: Final = (
    "the user's last token at this server has expired; another server of the cluster may have taken a later one:"
    " ask the user to send a message, and call the tool again then"
)


class UserDelegations:
    """Exchange of the tokens that users have shown.

    Args:
        tokens: verifies them, and reports them.
        now: seconds since the epoch.
    """

    def __init__(self, tokens: IdentityTokens, now: Callable[[], float] = time.time) -> None:
        self._tokens, self._now = tokens, now
        self._shown: OrderedDict[str, _ShownToken] = OrderedDict()
        self._exchanged: OrderedDict[tuple[str, str, str], _ExchangedToken] = OrderedDict()
        self._lock = anyio.Lock()
        tokens.shown = self.note

    def note(self, caller: Caller, token: str) -> None:
        """Keep the latest token of a user whose provider exchanges tokens."""
        issuer = caller.grant.split(" ")[0]
        if self._tokens.providers[issuer].provider.exchange is None:
            return
        self._shown[caller.name] = _ShownToken(caller, token)
        self._shown.move_to_end(caller.name)
        if len(self._shown) > MOST:
            self._shown.popitem(last=False)

    async def exchange(self, principal: str, resource: str, scope: str) -> str:
        """Exchange the token of a principal for one that a resource accepts. Raises DelegationError."""
        presented = self._shown.get(principal)
        if presented is None:
            raise DelegationError(DelegationCode.UNSEEN, UNSEEN)
        if not self._tokens.stands(presented.caller):
            del self._shown[principal]
            raise DelegationError(DelegationCode.EXPIRED, EXPIRED)
        client = self._tokens.providers[presented.caller.grant.split(" ")[0]].provider.exchange
        if client is None or resource not in client.resources:
            raise DelegationError(
                DelegationCode.RESOURCE, f"identity: exchange: resources: does not name {resource}"
            )
        key = (principal, resource, scope)
        async with self._lock:
            found = self._exchanged.get(key)
            if found is None or found.grant != presented.caller.grant or self._now() >= found.until:
                found = await self._redeem(presented, client, resource, scope)
                self._exchanged[key] = found
                self._exchanged.move_to_end(key)
                if len(self._exchanged) > MOST:
                    self._exchanged.popitem(last=False)
            return found.token

    async def _redeem(
        self, presented: _ShownToken, client: TokenExchange, resource: str, scope: str
    ) -> _ExchangedToken:
        keys = self._tokens.providers[presented.caller.grant.split(" ")[0]]
        form = {
            "grant_type": GRANT,
            "subject_token": presented.token,
            "subject_token_type": ACCESS,
            "requested_token_type": ACCESS,
            "resource": resource,
            **({"scope": scope} if scope else {}),
        }
        try:
            answer = await redeem(keys, SignIn(client.client, client.secret), form)
            token = self._check(answer, presented, resource)
        except (RefusedTokenError, StoreAwayError) as error:
            raise DelegationError(
                DelegationCode.REFUSED, f"the identity provider exchanges no token: {error}"
            ) from None
        lasts = answer.get("expires_in")
        until = (
            min(presented.caller.until, self._now() + lasts - EARLY) if type(lasts) is int else self._now()
        )
        return _ExchangedToken(token, presented.caller.grant, until)

    def _check(self, answer: Mapping[str, Any], presented: _ShownToken, resource: str) -> str:
        """Check that an exchanged token is for this user and resource, as far as it can be read.

        Raises RefusedTokenError.
        """
        token = answer.get("access_token")
        if not isinstance(token, str) or not 0 < len(token) <= _LONGEST or not token.isprintable():
            raise RefusedTokenError("is missing")
        if str(answer.get("token_type")).lower() != "bearer" or answer.get("issued_token_type") != ACCESS:
            raise RefusedTokenError("is no bearer token for access")
        if token == presented.token:
            raise RefusedTokenError("is the user's own token, which is for this server")
        if is_jwt(token):
            issuer = presented.caller.grant.split(" ")[0]
            claims = self._tokens.verify(token, resource, issuer=issuer).claims
            own = self._tokens.verify(presented.token, issuer=issuer).claims
            if claims["sub"] != own["sub"]:
                raise RefusedTokenError("is another user's")
        return token
