"""A small OpenID Connect provider on loopback, whose keys and documents tests change.

It signs people in by authorization code with PKCE, which it enforces, rotates refresh tokens, takes a code once and
exchanges tokens (RFC 8693).
"""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
import time
from contextlib import asynccontextmanager
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit

import anyio
import jwt
from cryptography.hazmat.primitives.asymmetric import ec, rsa

AUDIENCE = "https://desk.example"
CLIENT, SECRET = "desk", "s3cret of desk: 50%"


class RefusedError(Exception):
    """A request that the provider refuses, with the error of OAuth."""


class Provider:
    """A provider that signs what tests ask for.

    ``lost`` closes connections without an answer, ``other`` replaces documents by path, ``served`` lists requested paths.
    ``user`` has the claims of whoever signs in, ``lasts`` the life of tokens in seconds from ``now``; ``says`` changes each answer of
    the token endpoint, ``asked`` lists its requests.
    """

    def __init__(self, port):
        self.issuer = f"http://127.0.0.1:{port}"
        self.keys, self.served, self.other = {}, [], {}
        self.lost = False
        self.user, self.lasts = {"sub": "olga", "groups": ["desk-operators"], "sid": "s1"}, 300
        self.codes, self.refreshes, self.asked = {}, {}, []
        self.says, self.now = lambda answer: answer, time.time
        self.rotate("first")

    def rotate(self, kid, kind="RSA"):
        """Replace all keys by a new one."""
        make = {
            "RSA": lambda: rsa.generate_private_key(65537, 2048),
            "EC": lambda: ec.generate_private_key(ec.SECP256R1()),
        }
        self.keys = {kid: make[kind]()}

    def claims(self, **changed):
        now = int(time.time())
        usual = {
            "iss": self.issuer,
            "aud": AUDIENCE,
            "sub": "ada",
            "iat": now,
            "exp": now + 300,
            "groups": ["desk"],
        }
        return {name: value for name, value in (usual | changed).items() if value is not None}

    def token(self, header=None, kid="first", algorithm="RS256", key=None, **changed):
        """Sign a token; claims of None are left out."""
        key = key if key is not None else self.keys[kid]
        return jwt.encode(self.claims(**changed), key, algorithm, {"kid": kid, **(header or {})})

    def jwks(self):
        found = []
        for kid, key in self.keys.items():
            kind = (
                jwt.algorithms.RSAAlgorithm
                if isinstance(key, rsa.RSAPrivateKey)
                else jwt.algorithms.ECAlgorithm
            )
            found.append({**json.loads(kind.to_jwk(key.public_key())), "kid": kid, "use": "sig"})
        return {"keys": found}

    def metadata(self, **changed):
        usual = {
            "issuer": self.issuer,
            "jwks_uri": f"{self.issuer}/keys",
            "authorization_endpoint": f"{self.issuer}/authorize",
            "token_endpoint": f"{self.issuer}/token",
            "end_session_endpoint": f"{self.issuer}/leave",
            "authorization_response_iss_parameter_supported": True,
        }
        return {name: value for name, value in (usual | changed).items() if value is not None}

    def document(self, path):
        usual = {"/.well-known/openid-configuration": self.metadata(), "/keys": self.jwks()}
        return {**usual, **self.other}[path]

    def current(self, **changed):
        """Sign a token with the present key."""
        kid = next(iter(self.keys))
        algorithm = "RS256" if isinstance(self.keys[kid], rsa.RSAPrivateKey) else "ES256"
        return self.token(kid=kid, algorithm=algorithm, **changed)

    def authorize(self, query):
        """Sign the user in; returns the address for the browser."""
        asked = dict(parse_qsl(query))
        assert asked["response_type"] == "code"
        assert asked["client_id"] == CLIENT
        assert asked["code_challenge_method"] == "S256"
        assert "openid" in asked["scope"].split()
        code = secrets.token_urlsafe(16)
        self.codes[code] = asked
        back = {"code": code, "state": asked["state"], "iss": self.issuer}
        return f"{asked['redirect_uri']}?{urlencode(back)}"

    def redeem(self, headers, form):
        """Answer the token endpoint."""
        scheme, _, shown = headers.get("authorization", "").partition(" ")
        assert scheme == "Basic"
        who, _, secret = base64.b64decode(shown).decode().partition(":")
        if (unquote(who), unquote(secret)) != (CLIENT, SECRET):
            raise RefusedError("invalid_client")
        kind = form["grant_type"]
        return {
            "authorization_code": self.redeem_code,
            "refresh_token": self.redeem_refresh,
            "client_credentials": self.redeem_credentials,
            "urn:ietf:params:oauth:grant-type:token-exchange": self.exchange,
        }[kind](form)

    def redeem_code(self, form):
        asked = self.codes.pop(form["code"], None)
        verifier = hashlib.sha256(form["code_verifier"].encode()).digest()
        challenge = base64.urlsafe_b64encode(verifier).rstrip(b"=").decode()
        if (
            asked is None
            or asked["code_challenge"] != challenge
            or asked["redirect_uri"] != form["redirect_uri"]
        ):
            raise RefusedError("invalid_grant")
        return self.issue(nonce=asked["nonce"])

    def redeem_refresh(self, form):
        if self.refreshes.pop(form["refresh_token"], None) is None:
            raise RefusedError("invalid_grant")
        return self.issue()

    def redeem_credentials(self, form):
        token = self.current(sub=CLIENT, client_id=CLIENT, groups=None, aud=form.get("resource", AUDIENCE))
        return {"access_token": token, "token_type": "Bearer", "expires_in": 300}

    def exchange(self, form):
        claims = jwt.decode(form["subject_token"], options={"verify_signature": False})
        if claims["exp"] < time.time():
            raise RefusedError("invalid_request")
        aud = form.get("resource") or form["audience"]
        token = self.current(sub=claims["sub"], aud=aud, act={"sub": CLIENT}, scope=form.get("scope", ""))
        return {
            "access_token": token,
            "issued_token_type": "urn:ietf:params:oauth:token-type:access_token",
            "token_type": "Bearer",
            "expires_in": 300,
        }

    def issue(self, **more):
        refresh = secrets.token_urlsafe(16)
        self.refreshes[refresh] = True
        token = self.current(**{**self.user, "aud": CLIENT, "exp": int(self.now()) + self.lasts, **more})
        return {
            "access_token": "opaque",
            "token_type": "Bearer",
            "expires_in": self.lasts,
            "refresh_token": refresh,
            "id_token": token,
        }

    def logout_token(self, **changed):
        """Sign a logout token."""
        usual = {
            "aud": CLIENT,
            "sub": None,
            "sid": "s1",
            "groups": None,
            "jti": secrets.token_urlsafe(8),
            "events": {"http://schemas.openid.net/event/backchannel-logout": {}},
        }
        return self.current(header={"typ": "logout+jwt"}, **(usual | changed))

    async def answer(self, stream):
        async with stream:
            data = b""
            while b"\r\n\r\n" not in data:
                data += await stream.receive()
            head, _, body = data.partition(b"\r\n\r\n")
            first, *lines = head.decode().split("\r\n")
            headers = {
                name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)
            }
            while len(body) < int(headers.get("content-length", 0)):
                body += await stream.receive()
            target = urlsplit(first.split(" ")[1])
            self.served.append(target.path)
            if not self.lost:
                await stream.send(self.respond(target, headers, body))

    def respond(self, target, headers, body):
        status, more, found = 200, "", None
        if target.path == "/authorize" and target.path not in self.other:
            status, more, found = 302, f"location: {self.authorize(target.query)}\r\n", b""
        elif target.path == "/token" and target.path not in self.other:
            form = dict(parse_qsl(body.decode()))
            self.asked.append(form)
            try:
                found = self.says(self.redeem(headers, form))
            except RefusedError as why:
                status, found = 400, {"error": str(why)}
        else:
            found = self.document(target.path)
        found = found if isinstance(found, bytes) else json.dumps(found).encode()
        head = f"HTTP/1.1 {status} OK\r\n{more}connection: close\r\ncontent-length: {len(found)}\r\n\r\n"
        return head.encode() + found


@asynccontextmanager
async def provider():
    """Run a provider."""
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    found = Provider(listener.extra(anyio.abc.SocketAttribute.local_port))
    async with listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, found.answer)
        try:
            yield found
        finally:
            tasks.cancel_scope.cancel()
