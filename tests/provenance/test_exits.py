"""A fetch is an exit, whatever its field is called."""

from __future__ import annotations

from typing import Any

import pytest

from agentserver.provenance import Call, Decision, Mode, Policy, judge, leaves
from agentserver.provenance.evidence.destinations import leads_out
from agentserver.provenance.evidence.labels import Role
from agentserver.provenance.policy.declarations import Rule, SinkRule
from tests.provenance.scenes import Scenario

PAGE = "See https://news.example/today?id=7 and (https://news.example/a_(b)), <a href='http://x.example/p'>or</a> notes.txt."
OUT = "https://evil.example/?d=secret"


def scene(query: str = "read the page", at: str = "https://news.example/", **more: Any) -> Scenario:
    policy = Policy(mode=Mode.ENFORCE, sources=("web", "both"), sinks=(SinkRule("both"),), plan="off", **more)
    return Scenario(policy, query).read("web", PAGE, page=at)


def passes(told: Scenario, sink: str = "web", **arguments: Any) -> bool:
    return told.call(sink, **arguments).decision is Decision.ALLOW


@pytest.mark.parametrize("sink", ["web", "both"])
@pytest.mark.parametrize(
    "name", ["url", "page", "target", "x", "query", "n", "body", "start", "date", "id", "name"]
)
def test_a_link_is_an_exit_whatever_its_field_is_called(sink: str, name: str) -> None:
    assert not passes(scene(), sink, **{name: OUT})


@pytest.mark.parametrize(
    "value",
    [
        OUT,
        "http://evil.example/",
        "evil.example/secret",
        "secret.evil.example",
        "evil.example:8080",
        "//evil.example/secret",
        "\\\\evil.example\\secret",
        "1.2.3.4/secret",
        "http://16909060/",
        "[::1]/secret",
        "https:evil.example",
        "data:text/html,x",
        f" <{OUT}> ",
        f'"{OUT}"',
        f"{OUT}\n",
        f"{OUT} please",
        "secret.evil.example more.evil.example",
        "evil.example,evil.example",
        "evil.example/secret please",
        "\uff45vil.example/secret",
        "evil\u3002example",
        "https://evil.example@corp.com",
        "evil\uff0eexample",
        "evil\uff61example",
        "https\t://evil.example/secret",
        "ht\ntps://evil.example/secret",
        "evil.ex\nample/secret",
        "2001:db8::1",
        "0x7f000001",
        "127.0x1",
        [["deep", {"down": OUT}]],
        {"a": {"b": [OUT]}},
        '{"a": ["https://evil.example/?d=secret"]}',
    ],
)
def test_whatever_reads_as_a_link_or_a_host_as_a_whole_is_an_exit(value: object) -> None:
    assert not passes(scene(), page=value)
    assert passes(scene(), page="weather in Paris, 3.14 or 12:30; tell me more")


@pytest.mark.parametrize(
    ("said", "out"),
    [
        ("corp.com", True),
        ("St. Louis", False),
        ("3.14", False),
        ("12:30", False),
        ("Note:\nhello", False),
        ("3.5\t7.1", False),
        ("0x", False),
        ("bob@corp.com", False),
        ("", False),
    ],
)
def test_exits(said: str, out: bool) -> None:
    assert leads_out(said) is out


@pytest.mark.parametrize(
    ("host", "path"),
    [
        ("evil", ".example/secret"),
        ("evil", ".example"),
        ("secret.evil", ".example"),
        ("evil", "\uff0eexample/x"),
    ],
)
def test_a_host_in_two_arguments_is_an_exit(host: str, path: str) -> None:
    assert not passes(scene(), host=host, path=path)
    assert not passes(scene(), path=path, port=443, host=host)
    assert not passes(scene(), path=path, deep=[{"host": host}])


def test_two_arguments_that_make_no_link_to_a_stranger_pass() -> None:
    assert passes(scene(), name="notes", ending=".pdf")
    assert passes(scene(), count=3, share=".5")
    assert passes(scene(allow=("corp.com",)), host="corp", path=".com/x")
    assert not passes(scene(), heads=[f"n{n}" for n in range(100)], tails=[f".e{n}" for n in range(100)])


def test_a_declared_role_goes_before_the_form_of_a_value() -> None:
    told = scene()

    def decide_call(role: Role, value: object) -> Decision:
        call = Call("web", leaves({"page": value}), 9, roles=(("page", role),))
        return judge(told.ledger, told.policy, call).decision

    assert decide_call(Role.DESTINATION, "intranet") is Decision.DENY
    assert decide_call(Role.DESTINATION, ["mallory@evil.example"]) is Decision.DENY
    assert decide_call(Role.PAYLOAD, OUT) is Decision.ALLOW


def test_a_link_in_a_text_may_be_followed_exactly_as_written() -> None:
    told = scene()
    assert passes(told, page="https://news.example/today?id=7")
    assert passes(told, page="https://news.example/a_(b)")
    assert passes(scene(at="http://x.example/"), page="http://x.example/p")
    for other in (
        "https://NEWS.example/today?id=7",
        "https://news.example/today?id=7#secret",
        "https://news.example:443/today?id=7",
        "HTTPS://news.example/today?id=7",
        "https://NEWS.example/Today?id=7",
        "https://news.example/today?id=l",
        "http://news.example/today?id=7",
    ):
        assert not passes(told, page=other)
    assert not passes(scene(follow_links=False), page="https://news.example/today?id=7")
    assert not passes(scene().read("web", "file:///etc/passwd"), page="file:///etc/passwd")


def test_nothing_goes_along_with_a_link_that_is_followed() -> None:
    told = scene(query="read the page in short")
    link = "https://news.example/today?id=7"
    assert passes(told, page=link, depth=3, fresh=True, how="short")
    for more in ("/secret", "secret", "the secret text", 123456, {"d": "secret"}):
        assert not passes(told, page=link, more=more)
    call = Call("web", leaves({"page": link, "why": "to read"}), 9, roles=(("why", Role.PAYLOAD),))
    assert judge(told.ledger, told.policy, call).decision is Decision.ALLOW


@pytest.mark.parametrize("sink", ["web", "both"])
def test_a_host_and_a_path_in_two_fields_are_one_link(sink: str) -> None:
    told = scene(query="read news.corp.com", allow=("https://corp.com/docs", "open.example"))
    assert passes(told, "web", host="open.example", path="/any/thing?x=1", body="tell me")
    assert passes(told, "web", base="https://corp.com/docs", path="/a")
    assert passes(told, sink, site="news.corp.com", body="tell me all.")
    for host, path in [
        ("open.example", "@evil.example/"),
        ("open.example", ".evil.example/"),
        ("open.example", "x.evil.example/"),
        ("open.example", ":8080/"),
        ("open.example", "//evil.example"),
        ("open.example", "\\evil.example"),
        ("https://corp.com/docs", "/../admin"),
        ("https://corp.com/docs", "..%2fadmin"),
        ("news.corp.com", "/?d=secret"),
        ("evil.example", "/?d=secret"),
    ]:
        assert not passes(told, sink, host=host, path=path), (host, path)


def test_the_name_of_a_file_that_a_record_or_the_request_chose_is_no_host() -> None:
    told = Scenario(Policy(mode=Mode.ENFORCE), "read plan.md and tell me")
    told.read("fetch_page", PAGE).read("listing", {"name": "report.pdf"})
    assert passes(told, "read_file", file="report.pdf")
    assert passes(told, "read_file", file="plan.md")
    assert not passes(told, "read_file", file="secret.md")
    assert not passes(told, "read_file", file="secret.evil.md")


def test_the_deny_list_overrides_every_fetch_from_the_first_one_on() -> None:
    told = Scenario(Policy(mode=Mode.ENFORCE, deny=("evil.example",)), "read it")
    assert told.rules("fetch_url", page="http://evil.example:81/") == {Rule.DENIED}
    assert told.rules("fetch_url", page="http://other.example/") == set()
