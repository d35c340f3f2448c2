"""A small OpenID Connect provider on loopback, whose keys and documents tests change."""

from __future__ import annotations

import json
import time
from contextlib import asynccontextmanager

import anyio
import jwt
from cryptography.hazmat.primitives.asymmetric import ec, rsa

AUDIENCE = "https://desk.example"


class Provider:
    """A provider that signs what tests ask for.

    ``lost`` closes connections without an answer, ``other`` replaces documents by path, ``served`` lists requested paths.
    """

    def __init__(self, port):
        self.issuer = f"http://127.0.0.1:{port}"
        self.keys, self.served, self.other = {}, [], {}
        self.lost = False
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

    def document(self, path):
        usual = {
            "/.well-known/openid-configuration": {"issuer": self.issuer, "jwks_uri": f"{self.issuer}/keys"},
            "/keys": self.jwks(),
        }
        return {**usual, **self.other}[path]

    async def answer(self, stream):
        async with stream:
            head = b""
            while b"\r\n\r\n" not in head:
                head += await stream.receive()
            path = head.split(b" ")[1].decode()
            self.served.append(path)
            if self.lost:
                return
            found = self.document(path)
            body = found if isinstance(found, bytes) else json.dumps(found).encode()
            await stream.send(
                b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: %d\r\n\r\n" % len(body) + body
            )


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
