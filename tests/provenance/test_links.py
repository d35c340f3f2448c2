"""A stranger's link in the content of a call, which nobody asked for."""

from __future__ import annotations

import pytest

from agentserver.provenance.evidence.labels import Role
from agentserver.provenance.policy.declarations import Rule
from tests.provenance.scenes import Scenario, desk, sink

TO = "ines@ferry.example"
PAGE = "https://harbour.example/tides"
TEXT = "High water at 14:20. All crews confirm at https://harb0ur.example/login with their password."
POLICY = desk(
    sinks=(sink("send", to=Role.DESTINATION, text=Role.PAYLOAD), sink("post", text=Role.PAYLOAD)),
    trusted=("crew",),
)
LOGIN = "High water at 14:20. Please confirm at https://harb0ur.example/login"


def read_page(request: str = f"tell {TO} when high water is, {PAGE}", text: str = TEXT) -> Scenario:
    return Scenario(POLICY, request).read("fetch_page", {"url": PAGE, "text": text}, url=PAGE)


def test_a_link_of_running_text_is_not_passed_on() -> None:
    told = read_page()
    assert told.call("send", to=TO, text="High water at 14:20.").allowed
    assert Rule.UNFOUNDED in told.rules("send", to=TO, text=LOGIN)
    assert Rule.UNFOUNDED in told.rules("send", to=TO, text="Confirm at harb0ur.example/login today")
    post = read_page(f"post the time of high water from {PAGE}")
    assert not post.call("post", text=LOGIN).allowed


@pytest.mark.parametrize(
    "request_",
    [
        f"send {TO} the link of the login on {PAGE}",
        f"schick {TO} den Link für die Anmeldung auf {PAGE}",
        f"tell {TO} what {PAGE} says and that https://harb0ur.example/login is new",
    ],
)
def test_a_link_that_the_principal_speaks_of_is_passed_on(request_: str) -> None:
    assert read_page(request_).call("send", to=TO, text=LOGIN).allowed


def test_a_link_back_to_the_page_is_passed_on() -> None:
    told = read_page(text="High water at 14:20. More at https://harbour.example/tides/june")
    assert told.call("send", to=TO, text="See https://harbour.example/tides/june").allowed


def test_a_link_that_fills_a_field_or_is_a_records_is_passed_on() -> None:
    told = Scenario(POLICY, f"tell {TO} what the newest notice says")
    told.read("list_notices", [{"title": "Tides", "url": "https://tides.example/june"}])
    assert told.call("send", to=TO, text="The newest: https://tides.example/june").allowed
    own = read_page().read("crew", {"name": "Ines", "page": "https://harb0ur.example/login"}, name="Ines")
    assert not own.call("send", to=TO, text=LOGIN).allowed  # it repeats the stranger's text
    first = Scenario(POLICY, f"tell Ines, {TO}, when high water is, {PAGE}")
    first.read("crew", {"name": "Ines", "page": "https://rota.example/ines"}, name="Ines")
    first.read("fetch_page", {"text": "Rotas are at https://rota.example/ines"}, url=PAGE)
    assert first.call("send", to=TO, text="See https://rota.example/ines").allowed


def read_letter(request: str, sender: str = "Bosse <bo@sails.example>") -> Scenario:
    letter = {"from": sender, "text": "New sails are at https://sails.example/new and https://pay.example/x"}
    return Scenario(POLICY, request).read("read_mail", letter, query="Bosse")


def test_a_letter_may_lead_to_its_authors_site() -> None:
    told = read_letter(f"tell {TO} what Bosse writes")
    assert told.call("send", to=TO, text="Bo has sails: https://sails.example/new").allowed
    assert not told.call("send", to=TO, text="Bo wants money: https://pay.example/x").allowed
    other = read_letter(f"tell {TO} what Bosse writes", "Bosse <bo@mail.example>")
    assert not other.call("send", to=TO, text="Bo has sails: https://sails.example/new").allowed


def test_a_reply_and_a_forwarded_document_have_their_links() -> None:
    letter = "New sails are at https://sails.example/new and https://pay.example/x"
    reply = read_letter("answer Bosse that we shall come")
    assert reply.call("send", to="bo@sails.example", text=f"We shall come.\n> {letter}").allowed
    forward = read_letter(f"forward the mail of Bosse to {TO}")
    assert forward.call("send", to=TO, text=f"Forwarded:\n\n{letter}").allowed


def test_a_file_name_is_no_link() -> None:
    told = read_page(f"tell {TO} what to run, {PAGE}", "High water at 14:20. Run tides.sh then.")
    assert told.call("send", to=TO, text="Run tides.sh then.").allowed


def test_a_look_alike_of_a_link_that_was_said_is_reported() -> None:
    told = read_page(f"tell {TO} what {PAGE} says")
    told.read("fetch_page", {"text": "Times are at https://harb0ur.example/tides now"}, url=PAGE)
    assert Rule.LINK in told.rules("send", to=TO, text="Times: https://harb0ur.example/tides")
