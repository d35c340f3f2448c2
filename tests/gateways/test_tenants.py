"""Tenants of an identity provider at the real door: none sees anything of another, and each has its limits."""

from __future__ import annotations

import json
import sys

import anyio
import pytest

from agentserver.core.state.principals import Trust, find_scope, find_tenant, is_scope, owns
from agentserver.engines.sqlite.engine import SqliteEngine
from agentserver.engines.sqlite.file import JournalOptions
from agentserver.gateways.live.entrance import COOKIE
from agentserver.gateways.principals import Caller, Rate, Rates, Role
from agentserver.gateways.principals.identity import make_provided_name
from agentserver.gateways.tenants import SpentBudgets
from agentserver.ports.identity import ClaimRule, SharedQuota, WindowBudget
from tests.gateways.principals.oidc import AUDIENCE, provider
from tests.gateways.principals.people import ManualClock
from tests.gateways.principals.test_sign_in import OURS, desk
from tests.machine import HANGS

pytestmark = pytest.mark.anyio

ALL = ("greeter", "vault", "breaker")
RULES = (
    ClaimRule({"groups": ("platform",)}, "operator", Trust.ORDERS, None),
    ClaimRule({"groups": ("heads",)}, "operator", Trust.ORDERS, None, rate="1000/s", tenant_claim="org"),
    ClaimRule({"groups": ("desk",)}, "user", Trust.ORDERS, ALL, rate="1000/s", tenant_claim="org"),
)


def bearer(idp, sub, group, org, **more):
    token = idp.token(sub=sub, groups=[group], org=org, aud=AUDIENCE, **more)
    return {"authorization": f"Bearer {token}"}


def comparable(answer):
    """An answer without what differs in any two."""
    fixed = sorted((name, value) for name, value in answer.headers.items() if name != "date")
    return answer.status_code, answer.content, fixed


async def ask_approval(at, who):
    """A conversation in which one message waits for an approval, and one is a dead letter."""
    began = await at.client.post("/v1/conversations", headers=who)
    where = began.headers["location"]
    for to, body in (
        ("vault", {"amount": 7}),
        ("breaker", {"how": "crash"}),
        ("greeter&payload=Greet", {"name": "Ada"}),
    ):
        sent = await at.client.post(f"{where}/messages?to={to}&wait=0", json=body, headers=who)
        assert sent.status_code in (200, 202), sent.text
    return where.rpartition("/")[2]


async def signed_in(at, idp, group, org):
    idp.user = {"sub": f"head-of-{org}", "groups": [group], "org": org}
    return {"cookie": f"{COOKIE}={await at.sign_in(idp)}"}


async def waiting(at, headers, path, name):
    """The entries of a list, once there are some."""
    with anyio.fail_after(HANGS):
        while not (found := (await at.client.get(path, headers=headers)).json()[name]):  # noqa: ASYNC110 - over HTTP
            await anyio.sleep(0.02)
    return found


async def test_a_tenant_cannot_see_another_whose_conversations_look_missing(tmp_path):
    engine = SqliteEngine(JournalOptions(tmp_path / "journal.sqlite"))
    async with provider() as idp, desk(tmp_path, idp, rules=RULES, engine=engine) as at:
        ada = bearer(idp, "ada", "desk", "acme")
        head, rival = bearer(idp, "ann", "heads", "acme"), bearer(idp, "rob", "heads", "rival")
        key = await ask_approval(at, ada)
        (approval,) = await waiting(at, head, "/v1/approvals", "approvals")
        assert (await at.client.get("/v1/approvals", headers=rival)).json() == {"approvals": []}
        here, there = await signed_in(at, idp, "heads", "acme"), await signed_in(at, idp, "heads", "rival")
        (dead,) = await waiting(at, here, "/live/dead", "letters")
        missing = f"{'0' * 8}{key[8:]}"
        other = "0" * len(approval["id"])
        places = [
            ("GET", "/v1/conversations/{0}/events?wait=0", rival, key, missing, None),
            ("GET", "/v1/conversations/{0}/trace", rival, key, missing, None),
            ("DELETE", "/v1/conversations/{0}", rival, key, missing, None),
            ("DELETE", "/v1/conversations/{0}/requests/x", rival, key, missing, None),
            (
                "POST",
                "/v1/conversations/{0}/messages?to=greeter&payload=Greet",
                rival,
                key,
                missing,
                {"name": "x"},
            ),
            ("GET", "/v1/approvals/{0}", rival, approval["id"], other, None),
            (
                "POST",
                "/v1/approvals/{0}",
                rival,
                approval["id"],
                other,
                {"digest": approval["digest"], "answer": "once"},
            ),
            ("GET", "/live/conversations/{0}", there, key, missing, None),
            ("GET", "/live/conversations/{0}/messages/x", there, key, missing, None),
            ("GET", "/live/approvals/{0}", there, approval["id"], other, None),
            (
                "POST",
                "/live/approvals/{0}",
                there,
                approval["id"],
                other,
                {"digest": approval["digest"], "answer": "once"},
            ),
            (
                "POST",
                "/live/dead/{0}",
                there,
                dead["delivery"],
                other,
                {"do": "discard"},
            ),
            ("GET", "/live/dead/{0}", there, dead["delivery"], other, None),
        ]
        for method, path, who, theirs, nothing, body in places:
            headers = {**who, **(OURS if path.startswith("/live") and body else {})}
            one, two = [
                comparable(await at.client.request(method, path.format(each), headers=headers, json=body))
                for each in (theirs, nothing)
            ]
            assert one == two, path
            assert one[0] in (404, 403), path
        for path in ("conversations", "approvals", "dead", "usage", "schedules", "organism"):
            shown = await at.client.get(f"/live/{path}", headers=there)
            assert key not in shown.text, path
            assert "acme" not in shown.text, path
            if path != "organism":
                found = shown.json()
                assert not any(
                    each for each in (found.values() if isinstance(found, dict) else [found]) if each
                ), path
        assert (await at.client.get("/live/organism", headers=there)).json()["queues"] == {}
        for path in ("conversations", "usage", "dead", "dead-letters"):
            shown = await at.client.get(f"/v1/{path}", headers=rival)
            assert key not in shown.text, path
            assert "acme" not in shown.text, path
        assert key in (await at.client.get("/v1/conversations", headers=head)).text
        assert key in (await at.client.get("/live/conversations", headers=here)).text
        assert (await at.client.get("/v1/conversations/" + key + "/trace", headers=head)).status_code == 200
        platform = bearer(idp, "pia", "platform", None)
        assert (
            await at.client.get("/v1/conversations/" + key + "/trace", headers=platform)
        ).status_code == 200
        assert len((await at.client.get("/v1/approvals", headers=platform)).json()["approvals"]) == 1
        assert [
            (await at.client.get("/metrics", headers=each)).status_code
            for each in (ada, head, rival, platform)
        ] == [403, 403, 403, 200]  # they count the messages of all tenants
        assert (await at.client.delete(f"/v1/conversations/{key}", headers=head)).status_code == 204


async def test_the_stream_of_a_tenant_has_no_message_of_another(tmp_path):
    async with provider() as idp, desk(tmp_path, idp, rules=RULES) as at:
        there = await signed_in(at, idp, "heads", "rival")
        heard = []
        async with at.client.stream("GET", "/live/feed", headers=there) as stream:
            lines = stream.aiter_lines()
            await ask_approval(at, bearer(idp, "ada", "desk", "acme"))
            own = await ask_approval(at, bearer(idp, "eve", "desk", "rival"))
            with anyio.fail_after(HANGS):
                async for line in lines:
                    if line.startswith("data: "):
                        heard += json.loads(line[6:])["hops"]
                        assert json.loads(line[6:])["queues"] == {}
                    if any(each["conversation"] == own for each in heard):
                        break
        assert {each["conversation"] for each in heard} == {own}


async def test_to_look_for_another_tenants_conversation_is_as_much_work_as_for_a_missing_one(tmp_path):
    async with provider() as idp, desk(tmp_path, idp, rules=RULES) as at:
        key = await ask_approval(at, bearer(idp, "ada", "desk", "acme"))
        counts = {}
        for name, wanted in (("warm", key), ("other", key), ("missing", f"{'0' * 8}{key[8:]}")):
            calls = []
            sys.setprofile(lambda frame, event, _, calls=calls: calls.append((event, frame.f_code)))
            try:
                with pytest.raises(LookupError):
                    await at.server.find_conversation(find_scope("rival"), wanted)
            finally:
                sys.setprofile(None)
            counts[name] = [
                code.co_name
                for event, code in calls
                if event == "call" and code.co_filename.endswith(("entrance.py", "principals.py"))
            ]
        assert counts["other"] == counts["missing"]
        assert counts["other"].count("owns") == 2


def test_a_tenant_is_part_of_the_name_and_no_name_is_taken_for_another():
    names = [
        make_provided_name(issuer, subject, tenant)
        for issuer in ("https://a.example", "https://a.example/acme")
        for subject in ("ada", "acme/ada", "x" * 300)
        for tenant in ("", "acme", "rival")
    ]
    assert len(set(names)) == len(names)
    for name in names:
        assert len(name) <= 128
        assert not is_scope(name)
        assert [owns(find_scope(each), name) for each in ("acme", "rival")] == [
            find_tenant(name) == each for each in ("acme", "rival")
        ]
    assert find_tenant("ada") == find_tenant("oidc:https://acme/#ada") == ""
    assert not owns(find_scope("acme"), find_scope("acme").rstrip("/"))


@pytest.mark.parametrize("org", [None, 7, "", "ACME", "acme/x", "a" * 33, ["acme"], "-a"])
async def test_a_user_whose_claim_names_no_tenant_is_refused(tmp_path, org):
    async with provider() as idp, desk(tmp_path, idp, rules=RULES) as at:
        assert (
            await at.client.post("/v1/conversations", headers=bearer(idp, "ada", "desk", org))
        ).status_code == 401


async def test_a_tenant_and_a_group_share_a_rate_which_no_other_tenant_uses_up(tmp_path):
    quotas = (SharedQuota(tenant="*", rate="5/h"), SharedQuota(group="desk", rate="3/h"))
    async with provider() as idp, desk(tmp_path, idp, rules=RULES, quotas=quotas) as at:

        async def ask(sub, group, org):
            return (
                await at.client.post("/v1/conversations", headers=bearer(idp, sub, group, org))
            ).status_code

        assert [await ask(sub, "desk", "acme") for sub in ("ada", "bob", "eve", "ada")] == [
            201,
            201,
            201,
            429,
        ]
        assert [await ask("ann", "heads", "acme") for _ in range(3)] == [201, 201, 429]
        assert await ask("ada", "desk", "rival") == 201  # the same group of another tenant


def test_a_refused_request_takes_nothing_out_of_any_bucket():
    clock = ManualClock()
    rates = Rates(clock)
    shared = (("oidc:acme/", Rate(2, "h")),)
    one, two = (
        Caller(person, Role.USER, Rate(5, "h"), 1, shares=shared)
        for person in map(principal_of, ("ada", "bob"))
    )
    assert [rates.take(one).seconds, rates.take(two).seconds] == [0.0, 0.0]
    assert rates.take(one).seconds > 0
    clock.now += 3600
    assert [rates.take(one).seconds > 0 for _ in range(3)] == [False, False, True]


def principal_of(name):
    from agentserver.core.state.principals import Principal

    return Principal(name)


class Charges:
    """An engine whose charges a test sets."""

    def __init__(self, *charges):
        self.charges, self.reads = charges, []

    def list_charges(self, since):
        self.reads.append(since)
        return self.charges

    async def read(self, work):
        return work(self)


async def test_a_budget_of_a_principal_its_tenant_and_its_group_is_used_up_within_its_window():
    from agentserver.core.encoding.history import ChargeSum

    ada, bob = (make_provided_name("https://a.example", each, "acme") for each in ("ada", "bob"))
    eve = make_provided_name("https://a.example", "eve", "rival")
    engine = Charges(
        ChargeSum("clerk", "small", ada, 1, 60, 0),
        ChargeSum("clerk", "small", bob, 1, 50, 0, ("oidc:group 1",)),
        ChargeSum("clerk", "small", eve, 1, 10, 900),
    )
    clock = ManualClock()
    spent = SpentBudgets(engine, lambda: 5000.0, clock)

    def caller(name, *budgets):
        return Caller(principal_of(name), Role.USER, Rate(1, "s"), 1, budgets=budgets)

    tenant = WindowBudget(110, None, 3600.0)
    own = WindowBudget(60, None, 3600.0)
    assert await spent.find_overspent(caller(ada, (ada, own))) == ada
    assert await spent.find_overspent(caller(bob, (bob, own))) is None
    assert await spent.find_overspent(caller(bob, (bob, own), (find_scope("acme"), tenant))) == find_scope(
        "acme"
    )
    group = WindowBudget(50, None, 3600.0)
    assert await spent.find_overspent(caller(ada, ("oidc:group 1", group))) == "oidc:group 1"
    assert await spent.find_overspent(caller(ada, ("oidc:group 2", group))) is None
    assert await spent.find_overspent(caller(eve, (find_scope("rival"), tenant))) is None
    assert await spent.find_overspent(caller(eve, (eve, WindowBudget(None, 900, 3600.0)))) is not None
    assert engine.reads == [1400.0]
    clock.now += 5
    await spent.find_overspent(caller(eve, (eve, own)))
    assert engine.reads == [1400.0, 1400.0]


@pytest.mark.parametrize(
    ("quota", "told"),
    [
        (
            SharedQuota(group="desk", budget=WindowBudget(0, None, 60.0)),
            "The budget of one of your groups is",
        ),
        (SharedQuota(tenant="acme", budget=WindowBudget(None, 0, 60.0)), "The budget of your tenant is"),
        (SharedQuota(group="*", rate="1/h"), "The rate of 1/h of one of your groups is"),
        (SharedQuota(tenant="*", rate="1/h"), "The rate of 1/h of your tenant is"),
    ],
)
async def test_a_refusal_says_whose_limit_is_used_up_and_holds_for_its_owner_alone(tmp_path, quota, told):
    async with provider() as idp, desk(tmp_path, idp, rules=RULES, quotas=(quota,)) as at:

        async def ask(sub, group, org):
            return await at.client.post("/v1/conversations", headers=bearer(idp, sub, group, org))

        if quota.rate:
            assert (await ask("bob", "desk", "acme")).status_code == 201
        refused = await ask("ada", "desk", "acme")
        problem = refused.json()
        code = (429, None) if quota.rate else (402, "budget")
        assert (refused.status_code, problem.get("code")) == code
        assert problem["detail"].startswith(told)
        assert not any(each in refused.text for each in ("desk", "acme", "bob"))
        other = ("heads", "acme") if quota.group == "desk" else ("desk", "rival")
        assert (await ask("eve", *other)).status_code == 201


async def test_a_conversation_counts_for_the_groups_with_a_budget_that_its_token_names(tmp_path):
    budget = WindowBudget(None, 5, 60.0)
    quotas = (SharedQuota(group="*", budget=budget), SharedQuota(group="desk", rate="100/s"))
    async with provider() as idp, desk(tmp_path, idp, rules=RULES, quotas=quotas) as at:
        payers = []
        for org in ("acme", "acme", "rival"):
            began = await at.client.post("/v1/conversations", headers=bearer(idp, "ada", "desk", org))
            key = began.headers["location"].rpartition("/")[2]
            payers.append(at.server.conversation(key).rights.payers)
        assert [len(each) for each in payers] == [1, 1, 1]
        assert payers[0] == payers[1] != payers[2]  # the same group of another tenant


async def test_a_message_beyond_a_budget_is_answered_with_402_and_a_cancellation_is_not(tmp_path):
    rules = (
        *RULES[:2],
        ClaimRule({"groups": ("desk",)}, "user", Trust.ORDERS, ALL, budget=WindowBudget(0, None, 60.0)),
    )
    async with provider() as idp, desk(tmp_path, idp, rules=rules) as at:
        refused = await at.client.post("/v1/conversations", headers=bearer(idp, "ada", "desk", None))
        assert (refused.status_code, refused.json()["code"]) == (402, "budget")
        assert (
            await at.client.delete("/v1/conversations/x", headers=bearer(idp, "ada", "desk", None))
        ).status_code == 404
