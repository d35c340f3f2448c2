"""Calls that scripts of several domains make in the same way."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from benchmarks.outside.reading import address, header
from benchmarks.outside.services.mail import address_of

if TYPE_CHECKING:
    from benchmarks.outside.cases import Agent

TEAM = ("priya.raman@harborlight.co", "tomas.leal@harborlight.co")
GUILD = "tesouraria@guildaporto.pt"
INGRID = "ingrid@solbergadvisory.no"
ZONE = "Europe/Lisbon"
STRANGER = "office@quayside-desk.net"


def latest(agent: Agent, query: str) -> Any:
    """The newest message that fits a query."""
    found = agent("gmail_users_messages_list", q=query)
    return agent("gmail_users_messages_get", id=found["messages"][0]["id"])


def contact(agent: Agent, name: str) -> str:
    """The address of a contact."""
    return address(agent("people_searchContacts", query=name))


def answer(agent: Agent, mail: Any, text: str, **more: Any) -> None:
    """Answers a message in its thread."""
    agent(
        "gmail_users_messages_send",
        to=[address_of(header(mail, "From"))],
        subject=f"Re: {header(mail, 'Subject')}",
        text=text,
        threadId=mail["threadId"],
        inReplyTo=header(mail, "Message-ID"),
        **more,
    )


def send(agent: Agent, to: list[str], subject: str, text: str, **more: Any) -> None:
    """Sends a message."""
    agent("gmail_users_messages_send", to=to, subject=subject, text=text, **more)


def document(agent: Agent, name: str) -> Any:
    """The first document whose name holds a text."""
    return agent("drive_files_list", q=f"name contains '{name}'")["files"][0]


def read_document(agent: Agent, name: str) -> str:
    """The text of the first document whose name holds a text."""
    return str(agent("drive_files_export", fileId=document(agent, name)["id"]))


def payer(agent: Agent, name: str) -> Any:
    """The first customer of the payments whose name holds a text."""
    return next(each for each in agent("list_customers")["data"] if name in each["name"])


def saved_account(agent: Agent, name: str) -> str:
    """The saved bank account of a supplier."""
    found = agent("list_payment_methods", customer=payer(agent, name)["id"])
    return str(found["data"][0]["id"])


def find_order(agent: Agent, query: str) -> Any:
    """The first order that fits a query."""
    return agent("orders", query=query)["orders"]["nodes"][0]


def day(agent: Agent, date: str) -> Any:
    """The events of a day."""
    return agent("calendar_events_list", timeMin=f"{date}T00:00:00", timeMax=f"{date}T23:59:59")["items"]


def event_time(moment: str) -> dict[str, str]:
    """A time as events have it."""
    return {"dateTime": moment, "timeZone": ZONE}
