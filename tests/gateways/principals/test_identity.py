"""Tokens of an identity provider, which runs on loopback, at the real door."""

from __future__ import annotations

import base64
import json
import logging
import time
from contextlib import asynccontextmanager

import anyio
import httpx
import jwt
import pytest
from anyio.to_thread import run_sync
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from agentserver.assembly import build
from agentserver.core.state.principals import Principal, Trust, unknown_to_network
from agentserver.gateways.http import DoorOptions, HttpDoor, TokenKeeper
from agentserver.gateways.http.options import names
from agentserver.gateways.http.serving import bind, serve
from agentserver.gateways.principals import Caller, Rate, Rates, Role, Tokens, tokens
from agentserver.gateways.principals.document import PrincipalFile
from agentserver.gateways.principals.identity import (
    LONGEST,
    IdentityTokens,
    find_rule,
    make_provided_name,
    read_keys,
)
from agentserver.gateways.principals.sessions import Sessions
from agentserver.ports.identity import ClaimRule, IdentityProvider
from tests.gateways.http.desk import Books, ReadingApprover, organism
from tests.gateways.principals.oidc import AUDIENCE, provider
from tests.gateways.principals.people import ManualClock
from tests.machine import HANGS, PLAIN

pytestmark = pytest.mark.anyio

RULES = (
    ClaimRule({"groups": ("desk-operators",)}, "operator", Trust.ORDERS, None),
    ClaimRule({"groups": ("desk",)}, "user", Trust.ORDERS, ("cashier",)),
)


def entry(idp, **changed):
    usual = {"algorithms": ("RS256", "ES256"), "rules": RULES, "skew": 5.0, "stale": 600.0, "loopback": True}
    return IdentityProvider(idp.issuer, (AUDIENCE,), **(usual | changed))


@asynccontextmanager
async def known(tmp_path, *idps, mcp="", **changed):
    """The tokens of providers, once each was asked for its keys."""
    clock = ManualClock()
    found = IdentityTokens(
        Tokens(PrincipalFile(tmp_path / "principals")),
        [entry(each, **changed) for each in idps],
        steady=clock,
        mcp=mcp,
    )
    async with found.watch():
        with anyio.fail_after(HANGS):
            while not all(  # noqa: ASYNC110 - its task fetches
                each.fetches and (each.keys or each.fault != "has not answered yet")
                for each in found.providers.values()
            ):
                await anyio.sleep(0.01)
        found.clock = clock
        yield found


async def test_claims_give_a_principal_its_role_trust_and_targets_by_the_first_rule_that_matches(tmp_path):
    async with provider() as idp, known(tmp_path, idp) as found:
        ada = found.authenticate(idp.token())
        olga = found.authenticate(idp.token(sub="olga", groups=["desk", "desk-operators"]))
        assert ada.principal == Principal(f"oidc:{idp.issuer}#ada", Trust.ORDERS, ("cashier",))
        assert (ada.role, olga.role, olga.principal.may) == (Role.USER, Role.OPERATOR, None)
        assert found.stands(ada)
        assert found.authenticate(idp.token(groups=["sales"])) is None
        assert found.authenticate(idp.token(groups=None)) is None


def forge_token(header, claims, signature=b""):
    """A token of any bytes."""
    parts = (json.dumps(header).encode(), json.dumps(claims).encode(), signature)
    return ".".join(base64.urlsafe_b64encode(each).rstrip(b"=").decode() for each in parts)


def with_public_key_as_secret(idp):
    public = idp.keys["first"].public_key()
    shown = public.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    signing = jwt.algorithms.HMACAlgorithm(jwt.algorithms.HMACAlgorithm.SHA256)
    part = forge_token({"alg": "HS256", "kid": "first", "typ": "JWT"}, idp.claims()).rpartition(".")[0]
    signed = signing.sign(part.encode(), shown)
    return f"{part}.{base64.urlsafe_b64encode(signed).rstrip(b'=').decode()}"


OWN = rsa.generate_private_key(65537, 2048)
JWK = {**json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(OWN.public_key())), "kid": "first"}
NOW = time.time

ATTACKS = {
    "wrong audience": lambda idp: idp.token(aud="https://other.example"),
    "no audience": lambda idp: idp.token(aud=None),
    "unknown issuer": lambda idp: idp.token(iss="https://evil.example"),
    "issuer with a slash more": lambda idp: idp.token(iss=idp.issuer + "/"),
    "expired beyond the skew": lambda idp: idp.token(exp=int(NOW()) - 10),
    "without expiry": lambda idp: idp.token(exp=None),
    "an expiry that is a text": lambda idp: idp.token(exp=str(int(NOW()) + 300)),
    "an expiry that is a fraction": lambda idp: idp.token(exp=NOW() + 300.5),
    "an expiry beyond all numbers": lambda idp: idp.token(exp=1e300),
    "an expiry that is true": lambda idp: idp.token(exp=True),
    "an expiry in a list": lambda idp: idp.token(exp=[int(NOW()) + 300]),
    "an audience that is an object": lambda idp: idp.token(aud={AUDIENCE: True}),
    "an audience in a list of lists": lambda idp: idp.token(aud=[[AUDIENCE]]),
    "an audience that begins with ours": lambda idp: idp.token(aud=f"{AUDIENCE}/evil"),
    "groups in one text": lambda idp: idp.token(groups="desk-operators,desk"),
    "a subject with half of a pair": lambda idp: idp.token(sub="a\ud800"),
    "not yet valid": lambda idp: idp.token(nbf=int(NOW()) + 60),
    "issued in the future": lambda idp: idp.token(iat=int(NOW()) + 60),
    "without a subject": lambda idp: idp.token(sub=None),
    "an empty subject": lambda idp: idp.token(sub=""),
    "alg none": lambda idp: forge_token({"alg": "none", "kid": "first"}, idp.claims()),
    "alg NoNe": lambda idp: forge_token({"alg": "NoNe", "kid": "first"}, idp.claims()),
    "HS256 with the public key": with_public_key_as_secret,
    "alg that is not pinned": lambda idp: idp.token(algorithm="RS512"),
    "alg of another type of key": lambda idp: forge_token(
        {"alg": "ES256", "kid": "first"}, idp.claims(), b"\0" * 64
    ),
    "crit": lambda idp: idp.token(header={"crit": ["b64"], "b64": True}),
    "jwk that it brings": lambda idp: idp.token(header={"jwk": JWK}, key=OWN),
    "jku of the attacker": lambda idp: idp.token(header={"jku": "https://evil.example/keys"}, key=OWN),
    "x5u of the attacker": lambda idp: idp.token(header={"x5u": "https://evil.example/chain"}, key=OWN),
    "kid that is a path": lambda idp: idp.token(header={"kid": "../../dev/null"}),
    "kid that is no text": lambda idp: forge_token({"alg": "RS256", "kid": ["first"]}, idp.claims()),
    "another type of token": lambda idp: idp.token(header={"typ": "logout+jwt"}),
    "bound to a key of its client": lambda idp: idp.token(cnf={"jkt": "x"}),
    "a changed claim": lambda idp: forge_token(
        {"alg": "RS256", "kid": "first"},
        idp.claims(sub="olga"),
        base64.urlsafe_b64decode(idp.token().split(".")[2] + "=="),
    ),
    "members twice": lambda idp: ".".join(
        [
            base64.urlsafe_b64encode(b'{"alg":"none","alg":"RS256","kid":"first"}').rstrip(b"=").decode(),
            *idp.token().split(".")[1:],
        ]
    ),
    "deep": lambda _: ".".join([base64.urlsafe_b64encode(b"[" * 3000).rstrip(b"=").decode()] * 3),
    "too long": lambda idp: idp.token(padding="x" * LONGEST),
    "no base64": lambda _: "~.~.~",
    "not ASCII": lambda _: "é.é.é",
    "empty parts": lambda _: "..",
}


async def test_a_token_with_any_fault_is_no_principals_and_causes_no_request_to_elsewhere(tmp_path, caplog):
    caplog.set_level(logging.WARNING)
    async with provider() as idp, known(tmp_path, idp) as found:
        assert found.authenticate(idp.token()) is not None
        for why, make in ATTACKS.items():
            caplog.clear()
            token = make(idp)
            await found.prepare(token)
            assert found.authenticate(token) is None, why
            assert found.explain_absence(token) == "", why
            assert len(caplog.records) == 1, why
            assert not any(part and part in caplog.text for part in token.split(".") if len(part) > 20), why
        assert set(idp.served) == {"/.well-known/openid-configuration", "/keys"}


async def test_the_skew_is_given_on_both_sides(tmp_path):
    async with provider() as idp, known(tmp_path, idp) as found:
        assert found.authenticate(idp.token(exp=int(time.time()) - 1, iat=int(time.time()) - 60)) is not None
        assert found.authenticate(idp.token(nbf=int(time.time()) + 3)) is not None


async def test_a_token_that_is_too_long_is_refused_before_it_is_parsed(tmp_path, monkeypatch):
    async with provider() as idp, known(tmp_path, idp) as found:
        token = idp.token(padding="x" * LONGEST)
        monkeypatch.setattr(
            "agentserver.gateways.principals.identity.parse_json", lambda *_: pytest.fail("parsed")
        )
        assert found.authenticate(token) is None


async def test_a_rotated_key_is_fetched_once_and_unknown_ones_cause_no_flood(tmp_path):
    async with provider() as idp, known(tmp_path, idp) as found:
        keys = found.providers[idp.issuer]
        before = found.authenticate(idp.token())
        idp.rotate("second", "EC")
        token = idp.token(kid="second", algorithm="ES256")
        await found.prepare(token)
        assert found.authenticate(token) is None  # the keys were fetched just now
        found.clock.now += 10
        async with anyio.create_task_group() as tasks:
            for _ in range(20):
                tasks.start_soon(found.prepare, token)
        assert (keys.fetches, found.authenticate(token).principal.name) == (2, f"oidc:{idp.issuer}#ada")
        for number in range(50):
            await found.prepare(
                idp.token(header={"kid": f"unknown-{number}"}, kid="second", algorithm="ES256")
            )
        assert keys.fetches == 2
        assert not found.stands(before)  # its key is gone
        with anyio.fail_after(HANGS):
            await found.wait_revoked(before)


async def test_streams_and_sessions_end_when_their_token_expires(tmp_path):
    now = ManualClock()
    now.now = time.time()
    async with provider() as idp:
        found = IdentityTokens(Tokens(PrincipalFile(tmp_path / "principals")), [entry(idp)], now=now)
        async with found.watch():
            await found.providers[idp.issuer].refresh()
            sessions = Sessions(found)
            key, caller = await sessions.begin(idp.token())
            assert sessions.caller(key) == caller
            now.now = caller.until - 1
            assert found.stands(caller)
            now.now = caller.until
            with anyio.fail_after(HANGS):
                await found.wait_revoked(caller)
            assert sessions.caller(key) is None


async def test_while_the_provider_is_away_known_keys_count_until_they_are_stale(tmp_path):
    async with provider() as idp, known(tmp_path, idp) as found:
        idp.lost = True
        found.clock.now += 300
        await found.providers[idp.issuer].refresh()
        ada = found.authenticate(idp.token())
        assert found.stands(ada)
        found.clock.now += 301
        assert found.authenticate(idp.token()) is None
        assert found.explain_absence(idp.token()) == "The identity provider does not answer."
        assert not found.stands(ada)
        idp.lost = False
        await found.providers[idp.issuer].refresh()
        assert found.authenticate(idp.token()) is not None


@pytest.mark.parametrize(
    "other",
    [
        {
            "/.well-known/openid-configuration": {
                "issuer": "https://other.example",
                "jwks_uri": "https://other.example/keys",
            }
        },
        {"/.well-known/openid-configuration": b"{" * 3000},
        {"/.well-known/openid-configuration": b'{"issuer":"' + b"x" * 300_000 + b'"}'},
        {"/keys": {"keys": []}},
        {"/keys": {"keys": [{"kty": "oct", "k": "c2VjcmV0", "kid": "first"}]}},
        {"/keys": {"keys": [JWK, JWK]}},
        {"/keys": {"keys": [JWK] * 65}},
    ],
)
async def test_no_key_of_a_faulty_document_is_used(tmp_path, other):
    async with provider() as idp:
        idp.other = other
        async with known(tmp_path, idp) as found:
            assert found.authenticate(idp.token()) is None
            assert found.explain_absence(idp.token())


async def test_a_key_of_one_issuer_signs_nothing_for_another(tmp_path):
    async with provider() as one, provider() as other, known(tmp_path, one, other) as found:
        assert found.authenticate(one.token()).name != found.authenticate(other.token()).name
        assert found.authenticate(one.token(iss=other.issuer)) is None


async def test_keys_are_fetched_over_https_or_from_loopback_if_that_is_allowed(tmp_path):
    async with provider() as idp:
        idp.other = {
            "/.well-known/openid-configuration": {
                "issuer": idp.issuer,
                "jwks_uri": "http://evil.example/keys",
            }
        }
        async with known(tmp_path, idp) as found:
            assert "https://" in found.providers[idp.issuer].fault


def test_keys_for_other_purposes_and_short_ones_are_left_out():
    small = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(rsa.generate_private_key(65537, 1024).public_key()))
    private = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(OWN))
    others = [
        {**JWK, "kid": "b", "use": "enc"},
        {**JWK, "kid": "c", "key_ops": ["encrypt"]},
        {**JWK, "kid": "d", "alg": "HS256"},
        {**small, "kid": "e"},
        {**private, "kid": "f"},
        {"kty": "OKP", "crv": "X25519", "x": "AAAA", "kid": "g"},
        {"kty": "EC", "crv": ["P-256"], "x": "AAAA", "y": "AAAA", "kid": "h"},
        {"kty": "EC", "crv": "P-256", "x": "AAAA", "y": "AAAA", "kid": "i"},
        {**JWK, "kid": "j", "n": 7},
        {**JWK, "kid": ["k"]},
    ]
    found = read_keys(json.dumps({"keys": [JWK, *others]}).encode())
    assert [each.kid for each in found] == ["first"]


def test_no_listed_name_equals_or_resembles_a_user_of_a_provider():
    for name in ("oidc:https://a.example#ada", "oidc:", "OIDC:x".lower(), "oidс:x"):
        assert unknown_to_network(name), name
    assert unknown_to_network("ada") == ""


def test_names_of_users_differ_whenever_issuer_or_subject_differ():
    pairs = [
        (issuer, subject)
        for issuer in (
            "https://a.example",
            "https://a.example/b",
            "http://a.example",
            "https://a.example/" + "c" * 200,
        )
        for subject in ("x", "X", "b#x", "b%23x", " x", "x ", "x\u0440", "xp", "x" * 200, "/b#x")
    ]
    assert len({make_provided_name(*each) for each in pairs}) == len(pairs)
    assert all(
        len(make_provided_name(*each)) <= 128 and make_provided_name(*each).isascii() for each in pairs
    )


@pytest.mark.parametrize(
    ("when", "claims", "matches"),
    [
        ({"admin": (True,)}, {"admin": 1}, False),
        ({"admin": (True,)}, {"admin": True}, True),
        ({"level": (1,)}, {"level": True}, False),
        ({"groups": ("desk",)}, {"groups": "desk-and-more"}, False),
        ({"groups": ("desk",)}, {"groups": {"desk": True}}, False),
        ({"groups": ("desk",), "hd": ("a",)}, {"groups": ["desk"]}, False),
        ({"/realm/roles": ("desk",)}, {"realm": {"roles": ["desk"]}}, True),
        ({"/realm/roles": ("desk",)}, {"/realm/roles": "desk"}, False),
        ({"https://a.example/roles": ("desk",)}, {"https://a.example/roles": ["desk"]}, True),
    ],
)
def test_a_rule_matches_values_of_the_same_type(when, claims, matches):
    assert (find_rule([ClaimRule(when)], claims) is not None) is matches


@asynccontextmanager
async def door(tmp_path, found, parts=()):
    made = await run_sync(lambda: organism(Books()))
    server = build(made, approver=ReadingApprover())
    listening = bind("127.0.0.1", 0)
    port = listening.getsockname()[1]
    opened = HttpDoor(
        server,
        DoorOptions(*names(port, local=True, secure=False)),
        TokenKeeper(found, Rates(ManualClock())),
        parts,
    )
    async with (
        server,
        opened.open(),
        serve(opened, listening, None, opened.connections),
        httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=HANGS, verify=PLAIN) as client,
    ):
        yield client


async def test_at_the_door_each_refusal_has_the_same_bytes_and_a_provider_that_is_away_gives_503(tmp_path):
    path = tmp_path / "principals"
    token = await run_sync(
        tokens.add,
        PrincipalFile(path),
        Caller(Principal("ada", Trust.ORDERS, ("cashier",)), Role.USER, Rate(9, "s"), 20),
    )
    async with provider() as idp, known(tmp_path, idp) as found, door(tmp_path, found) as client:

        async def ask(shown, where="/v1/conversations", method="POST"):
            answer = await client.request(method, where, headers={"authorization": f"Bearer {shown}"})
            fixed = {
                name: value for name, value in answer.headers.items() if name not in ("date", "location")
            }
            return answer, (answer.status_code, answer.content, tuple(fixed.items()))

        ours, _ = await ask(token)
        theirs, _ = await ask(idp.token())
        assert (ours.status_code, theirs.status_code) == (201, 201)
        missing = await ask(idp.token(), f"{ours.headers['location']}/events", "GET")
        assert missing[0].status_code == 404  # Ada of the provider is not Ada of the list
        refused = {(await ask(make(idp)))[1] for why, make in ATTACKS.items() if why != "not ASCII"}
        refused.add((await ask("A" * 43))[1])
        assert [each[0] for each in refused] == [401]
        found.clock.now += 601
        away, _ = await ask(idp.token())
        assert (away.status_code, away.json()["detail"]) == (503, "The identity provider does not answer.")
        assert (await ask(token))[0].status_code == 201
