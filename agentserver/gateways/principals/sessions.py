"""Sessions of browsers, in a store that all servers of an organism share.

The store knows only the digest of a session's cookie. Tokens of a provider are sealed with the cookie itself, so the
store alone reveals none of them.
"""

from __future__ import annotations

import logging
import time
from collections import OrderedDict
from hashlib import sha256
from importlib import import_module
from secrets import token_bytes, token_urlsafe
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

import anyio

from agentserver.codec import ValueCodec, ValueRefusedError
from agentserver.core.state.principals import Principal
from agentserver.gateways.principals.callers import Caller
from agentserver.gateways.principals.identity import RefusedTokenError
from agentserver.gateways.principals.sign_in import SignedIn
from agentserver.ports.identity import WindowBudget
from agentserver.ports.principals import StoreAwayError, StoredSession

if TYPE_CHECKING:
    from collections.abc import Callable

    from agentserver.gateways.principals.sign_in import SignInClient
    from agentserver.ports.principals import SessionKey, SessionStore

LASTS: Final = 12 * 3600.0
"""Seconds after which a person signs in again."""

MOST: Final = 1000
"""Sessions at once of a server without a database: the oldest makes room for one more."""

EACH: Final = 20
"""Sessions of one principal at once."""

FRESH: Final = 1.0
"""Seconds between two reads of a session from the store: one that another server has ended counts that long."""

LAPSE: Final = 5.0
"""Seconds for which a session counts while the store is away."""

RENEWAL: Final = 0.8
"""Part of a token's life after which it is renewed."""

_RETRY: Final = 10.0
"""Seconds between two renewals, which one server of all tries at a time."""

_LOG: Final = logging.getLogger(__name__)


class SessionTokens(Protocol):
    """The sessions' needs of the tokens."""

    def authenticate(self, token: str) -> Caller | None:
        """Return the caller of a token; None for an unknown one."""

    async def prepare(self, token: str) -> None:
        """Fetch the key of a token if its provider has a new one."""

    def stands(self, caller: Caller) -> bool:
        """Check whether the caller is still as it was authenticated."""

    async def wait_revoked(self, caller: Caller) -> None:
        """Wait until the caller's token is revoked."""


class MemorySessions:
    """Store of the sessions of a single server. They end with it."""

    def __init__(self) -> None:
        self._open: OrderedDict[str, StoredSession] = OrderedDict()
        self._logins: dict[str, float] = {}

    def add(self, session: StoredSession, now: float) -> bool:
        """Add a session; the oldest makes room for it. Returns False if its sign-in has begun one already."""
        self._logins = {login: until for login, until in self._logins.items() if until > now}
        for key in [key for key, each in self._open.items() if each.expires_at <= now]:
            del self._open[key]
        if session.login in self._logins:
            return False
        own = [key for key, each in self._open.items() if each.name == session.name]
        if len(own) >= EACH:
            del self._open[own[0]]
        if len(self._open) >= MOST:
            self._open.popitem(last=False)
        if session.login:
            self._logins[session.login] = session.expires_at
        self._open[session.key] = session
        return True

    def read(self, key: str, now: float) -> StoredSession | None:
        """Read a session; None when it has ended."""
        found = self._open.get(key)
        return found if found is not None and found.expires_at > now else None

    def replace(self, session: StoredSession) -> bool:
        """Store the next edition of a session. Returns False if it has ended or was changed meanwhile."""
        found = self._open.get(session.key)
        if found is None or found.edition != session.edition - 1:
            return False
        self._open[session.key] = session
        return True

    def end(self, by: SessionKey, value: str) -> None:
        """End the sessions with this property."""
        for key in [key for key, each in self._open.items() if getattr(each, by) == value]:
            del self._open[key]


class _State(NamedTuple):
    """State of a session as stored.

    Args:
        caller: of the session.
        renew: when to renew it, in seconds since the epoch.
        issuer: of the provider; empty for a token that was pasted.
        sealed: nonce, refresh token and ID token, encrypted.
    """

    caller: Caller
    renew: float
    issuer: str
    sealed: bytes


_STATES: Final[ValueCodec[_State]] = ValueCodec(_State, (Principal, Caller, WindowBudget), version=1)


class _CachedSession(NamedTuple):
    """Session as last read. ``read`` is when, by the monotonic clock."""

    kept: StoredSession
    state: _State
    read: float


class Sessions:
    """Browser sessions of all servers of an organism.

    Args:
        tokens: authenticates tokens, and checks that they are still valid.
        store: of the sessions.
        client: renews sessions at their providers; None without a provider.
        now: seconds since the epoch.
        steady: a monotonic clock, in seconds.
    """

    def __init__(
        self,
        tokens: SessionTokens,
        store: SessionStore | None = None,
        client: SignInClient | None = None,
        now: Callable[[], float] = time.time,
        steady: Callable[[], float] = time.monotonic,
    ) -> None:
        self.tokens, self._store, self.client = tokens, store or MemorySessions(), client
        self._now, self._steady = now, steady
        self._known: OrderedDict[str, _CachedSession] = OrderedDict()

    async def begin(self, token: str) -> tuple[str, Caller] | None:
        """Start a session for the caller of a token. Returns its id; None for an unknown token."""
        caller = self.tokens.authenticate(token)
        if caller is None or not caller.reaches("/"):
            return None
        key = token_urlsafe(32)
        state = _State(caller, caller.until, "", b"")
        until = self._now() + LASTS
        await self._add(StoredSession(_digest(key), caller.name, _STATES.dump(state), until), state)
        return key, caller

    async def begin_signed_in(self, signed: SignedIn) -> str:
        """Start the session of a sign-in.

        Returns its id; empty if this sign-in has begun one. Raises StoreAwayError.
        """
        key, now = token_urlsafe(32), self._now()
        state = self._make_state(key, signed)
        session = StoredSession(
            _digest(key), signed.user, _STATES.dump(state), now + LASTS, signed.sid, signed.nonce
        )
        return key if await self._add(session, state) else ""

    async def _add(self, session: StoredSession, state: _State) -> bool:
        now = self._now()
        added = await anyio.to_thread.run_sync(lambda: self._store.add(session, now))
        if added:
            self._remember(session, state)
        return added

    async def prepare(self, key: str) -> None:
        """Read a session from the store if that was not done just now, and renew its token when it is time.

        Raises StoreAwayError when the store or the provider is away for too long.
        """
        digest = _digest(key)
        known = self._known.get(digest)
        if known is None or self._steady() - known.read >= FRESH:
            known = await self._read(digest, known)
        if known is None or not self._is_due(known):
            return
        if known.state.issuer and self.client is not None:
            await self._renew(key, known, self.client)
        elif not self.tokens.stands(known.state.caller):
            await self.end(key)

    def caller(self, key: str) -> Caller | None:
        """Return the caller of a session that is prepared; None if it or its token has expired."""
        known = self._known.get(_digest(key))
        if known is None or known.kept.expires_at <= self._now() or self._steady() - known.read >= LAPSE:
            return None
        return known.state.caller if self.tokens.stands(known.state.caller) else None

    async def end(self, key: str) -> str:
        """Log out. Returns the address at which the browser leaves its provider; empty without one."""
        digest = _digest(key)
        known = self._known.pop(digest, None)
        await anyio.to_thread.run_sync(self._store.end, "key", digest)
        if known is None or self.client is None or not known.state.issuer:
            return ""
        signed = _open_seal(key, known)
        return "" if signed is None else self.client.leave(signed)

    async def end_login(self, token: str) -> None:
        """End the sessions that a logout token of a provider names.

        Raises RefusedTokenError, InvalidPrincipalsError.
        """
        if self.client is None:
            return
        ended = await self.client.read_logout(token)
        by: SessionKey = "sid" if ended.sid else "name"
        value = ended.sid or ended.name
        await anyio.to_thread.run_sync(self._store.end, by, value)
        for digest in [each for each, known in self._known.items() if getattr(known.kept, by) == value]:
            del self._known[digest]

    async def _read(self, digest: str, known: _CachedSession | None) -> _CachedSession | None:
        """Read a session; None when it has ended. While the store is away, the known one counts for a while."""
        now = self._now()
        try:
            session = await anyio.to_thread.run_sync(lambda: self._store.read(digest, now))
        except StoreAwayError:
            if known is not None and self._steady() - known.read < LAPSE:
                return known
            raise
        try:
            state = None if session is None else _STATES.load(session.data)
        except ValueRefusedError:  # of another version of this server
            state = None
        if session is None or state is None:
            self._known.pop(digest, None)
            return None
        return self._remember(session, state)

    def _remember(self, session: StoredSession, state: _State) -> _CachedSession:
        found = self._known[session.key] = _CachedSession(session, state, self._steady())
        self._known.move_to_end(session.key)
        if len(self._known) > MOST:
            self._known.popitem(last=False)
        return found

    def _is_due(self, known: _CachedSession) -> bool:
        return self._now() >= known.state.renew or not self.tokens.stands(known.state.caller)

    async def _renew(self, key: str, known: _CachedSession, client: SignInClient) -> None:
        """Renew a session unless another server does. A refusal of the provider ends it."""
        claimed = await self._replace(known, known.state._replace(renew=self._now() + _RETRY))
        signed = None if claimed is None else _open_seal(key, claimed)
        if claimed is None or signed is None:
            return
        try:
            renewed = await client.renew(signed, self._now())
        except RefusedTokenError as why:
            _LOG.warning("a session ends: the token %s", why)
            await self.end(key)
        except StoreAwayError as why:
            _LOG.warning("a session is not renewed: %s", why)
            if not self.tokens.stands(claimed.state.caller):
                raise
        else:
            await self._replace(claimed, self._make_state(key, renewed))
            if not self.tokens.stands(renewed.caller):
                await self.end(key)

    async def _replace(self, known: _CachedSession, state: _State) -> _CachedSession | None:
        """Store the next state of a session; None if it has ended or another server was first."""
        session = known.kept._replace(data=_STATES.dump(state), edition=known.kept.edition + 1)
        if await anyio.to_thread.run_sync(self._store.replace, session):
            return self._remember(session, state)
        return None

    def _make_state(self, key: str, signed: SignedIn) -> _State:
        now = self._now()
        renew = now + (signed.caller.until - now) * RENEWAL
        return _State(signed.caller, renew, signed.issuer, _seal(key, signed))


def _seal(key: str, signed: SignedIn) -> bytes:
    text = f"{signed.nonce}\n{signed.refresh}\n{signed.id_token}"
    once = token_bytes(12)
    sealed: bytes = _cipher(key).encrypt(once, text.encode(), None)
    return once + sealed


def _open_seal(key: str, known: _CachedSession) -> SignedIn | None:
    """Decrypt the tokens of a session; None if they were changed."""
    sealed, state = known.state.sealed, known.state
    try:
        text: str = _cipher(key).decrypt(sealed[:12], sealed[12:], None).decode()
        nonce, refresh, token = text.split("\n")
    except (import_module("cryptography.exceptions").InvalidTag, ValueError):
        return None
    return SignedIn(state.caller, known.kept.name, state.issuer, nonce, refresh, token, known.kept.sid)


def _cipher(key: str) -> Any:
    """Make the cipher of a session from its cookie, whose digest for this use differs from its name in the store."""
    cipher = import_module("cryptography.hazmat.primitives.ciphers.aead").AESGCM
    return cipher(sha256(b"seal " + key.encode("utf-8", "surrogatepass")).digest())


def _digest(key: str) -> str:
    return sha256(key.encode("utf-8", "surrogatepass")).hexdigest()
