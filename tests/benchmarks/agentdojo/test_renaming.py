"""Other names for AgentDojo's tools, arguments and fields, and a policy that follows them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from agentserver.provenance.policy.file import read_policy
from benchmarks.agentdojo.variations import renaming
from benchmarks.agentdojo.variations.guise import Guise, write_policy
from benchmarks.agentdojo.variations.renaming import Names, RenamedSuite, UnknownNameError

SAID = renaming.read()
FOLDER = Path(__file__).parents[3] / "benchmarks" / "agentdojo"
POLICIES = [path for path in (FOLDER / "policy.yaml", FOLDER / "general.yaml") if path.exists()]
ON_POLICIES = pytest.mark.parametrize("path", POLICIES, ids=lambda path: path.stem)

Make = Callable[[dict[str, Any]], Names]
EACH = pytest.mark.parametrize("make", [renaming.public, renaming.opaque, renaming.swapped])


class Message(BaseModel):
    """A record of AgentDojo's chat."""

    sender: str
    recipient: str
    body: str


def inverse(names: Names) -> Names:
    """The names that lead back."""

    def turn_names(table: dict[str, str]) -> dict[str, str]:
        return {renaming.whole_path(table, path): path.rpartition(".")[2] for path in table}

    def by_tool(tables: dict[str, dict[str, str]]) -> dict[str, dict[str, str]]:
        return {names.tools[tool]: turn_names(table) for tool, table in tables.items()}

    return Names(
        turn_names(names.tools),
        by_tool(names.arguments),
        by_tool(names.outputs),
        {kind: turn_names(table) for kind, table in names.records.items()},
    )


def same_names() -> Names:
    """Names that change nothing."""
    like = renaming.swapped(SAID)
    return Names({tool: tool for tool in like.tools}, like.arguments, like.outputs, like.records)


@EACH
def test_no_two_tools_arguments_or_fields_share_a_name(make: Make) -> None:
    names = make(SAID)
    for tools in ([*names.tools.values()],):
        assert len(set(tools)) == len(tools)
    for table in [*names.arguments.values(), *names.outputs.values(), *names.records.values()]:
        flat = [renaming.whole_path(table, path) for path in table]
        assert len(set(flat)) == len(flat)


@EACH
def test_calls_come_back_as_they_were(make: Make) -> None:
    names = make(SAID)
    there, back = RenamedSuite(names), RenamedSuite(inverse(names))
    given = {
        "recipients": ["kim@acme.example"],
        "subject": "Plan",
        "body": "Here it is.",
        "attachments": [{"type": "file", "file_id": "7"}],
    }
    assert back.tool(there.tool("send_email")) == "send_email"
    assert back.arguments(there.tool("send_email"), there.arguments("send_email", given)) == given


@EACH
@ON_POLICIES
def test_a_policy_comes_back_with_the_names_that_its_patterns_mean(make: Make, path: Path) -> None:
    names, text = make(SAID), path.read_text("utf-8")
    renamed = write_policy(RenamedSuite(names), text, path.name)
    back = write_policy(RenamedSuite(inverse(names)), renamed, path.name)
    assert read_policy(back) == read_policy(write_policy(RenamedSuite(same_names()), text, path.name))


@EACH
@ON_POLICIES
def test_a_renamed_policy_declares_existing_names_only(make: Make, path: Path) -> None:
    names = make(SAID)
    text = write_policy(RenamedSuite(names), path.read_text("utf-8"), path.name)
    assert not read_policy(text).find_unused(names.tools.values())


@ON_POLICIES
def test_a_policy_without_a_guise_keeps_every_rule_in_its_place(path: Path) -> None:
    text = path.read_text("utf-8")
    assert read_policy(write_policy(Guise(), text, path.name)) == read_policy(text)


def test_opaque_names_say_nothing() -> None:
    names = renaming.opaque(SAID)
    assert names.tools["send_email"] == "t01"
    assert RenamedSuite(names).arguments("delete_email", {"email_id": "3"}) == {"a1": "3"}


def test_a_swapped_name_reads_like_the_other_kind() -> None:
    names = renaming.swapped(SAID)
    assert names.tools["send_money"].startswith("get_")
    assert names.tools["get_balance"].startswith("update_")


def test_records_become_mappings_and_keys_that_are_data_stay() -> None:
    renamed = RenamedSuite(renaming.public(SAID))
    assert renamed.output("read_inbox", [Message(sender="Bob", recipient="Kim", body="Hi")]) == [
        {"user": "Bob", "channel": "Kim", "text": "Hi"}
    ]
    assert renamed.output("get_hotels_prices", {"City Hub": "90"}) == {"City Hub": "90"}
    assert renamed.output("send_money", {"message": "sent"}) == {"status_detail": "sent"}


def test_a_name_in_no_file_is_refused() -> None:
    renamed = RenamedSuite(renaming.public(SAID))
    with pytest.raises(UnknownNameError, match="'fly_away'"):
        renamed.tool("fly_away")
    with pytest.raises(UnknownNameError, match="means no tool"):
        renamed.policy({"sources": ["fly_*"]})
    with pytest.raises(UnknownNameError, match="does not know the key 'colour'"):
        renamed.policy({"colour": "red"})


def test_the_first_pattern_that_means_a_field_wins() -> None:
    renamed = RenamedSuite(renaming.public(SAID))
    fields = {"read_*": {"sender": "directory"}, "*_inbox": {"*": "prose", "sender": "record"}}
    assert renamed.policy({"fields": fields})["fields"]["im_history"] == {"user": "directory", "*": "prose"}


def test_patterns_of_arguments_become_the_names_that_they_mean() -> None:
    renamed = RenamedSuite(renaming.public(SAID))
    sinks = {"reserve_hotel": {"arguments": {"*_day": "selector", "hotel": {"role": "selector"}}}}
    found = renamed.policy({"sinks": sinks})["sinks"]["booking_hotel_orders"]["arguments"]
    assert {"checkInDate", "checkOutDate", "hotelOffer"} <= {*found}


def test_readers_follow_listeners_fields_and_directories() -> None:
    renamed = RenamedSuite(renaming.public(SAID))
    readers = {
        "read_file": ["principal"],
        "get_*_emails": {"body": ["directory:search_contacts_by_name.email"]},
    }
    found = renamed.policy({"readers": readers})["readers"]
    assert found["files_download"] == ["principal"]
    assert found["me_mailFolders_drafts_messages"] == {"content": ["directory:people_searchContacts.value"]}
    with pytest.raises(UnknownNameError, match="as an entry before it"):
        renamed.policy({"readers": {"read_file": [], "read_*": []}})
