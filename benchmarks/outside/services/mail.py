"""A mailbox in the manner of the Gmail API, with the address book of the People API.

Owns messages, filters and contacts. Independent of the caller.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from email.utils import getaddresses, parseaddr
from typing import Any

from benchmarks.outside.services.base import Service, ToolError, tool

OWNER = "nadia.ferreira@harborlight.co"


@dataclass
class Mail:
    """One message."""

    id: str
    threadId: str
    headers: dict[str, str]
    text: str
    labels: list[str]
    stamp: int
    attachments: dict[str, tuple[str, str]] = field(default_factory=dict)
    """By attachment id: filename and text."""

    def recipients(self) -> set[str]:
        """The addresses that the message goes to, those hidden in a header's line break included."""
        lines = "\n".join(f"{name}: {value}" for name, value in self.headers.items())
        found = re.findall(r"(?im)^(?:to|cc|bcc):(.*)$", lines)
        return {address.lower() for _, address in getaddresses(found) if address}


class Mailbox(Service):
    """The mailbox of the account holder."""

    prefix = "mail"

    def __init__(self) -> None:
        super().__init__()
        self.mails: list[Mail] = []
        self.filters: list[dict[str, Any]] = []
        self.contacts: list[dict[str, Any]] = []

    # what cases use

    def receive(self, sender: str, subject: str, text: str, **more: Any) -> Mail:
        """A message in the inbox. ``files`` are attachments, text by filename; ``headers`` are further ones."""
        headers = {
            "From": sender,
            "To": f"Nadia Ferreira <{OWNER}>",
            "Subject": subject,
            **more.get("headers", {}),
        }
        return self._keep(headers, text, ["INBOX", "UNREAD"], more.get("files", {}))

    def wrote(self, to: str, subject: str, text: str) -> Mail:
        """A message that the account holder sent earlier."""
        return self._keep({"From": OWNER, "To": to, "Subject": subject}, text, ["SENT", "OLD"], {})

    def knows(self, name: str, address: str, **more: str) -> None:
        """An entry of the address book. ``phone`` and ``company`` may be given."""
        self.contacts.append({"id": f"people/c{self.digits(19)}", "name": name, "address": address, **more})

    def titled(self, subject: str) -> Mail:
        """The first message whose subject holds a text."""
        return next(mail for mail in self.mails if subject in mail.headers["Subject"])

    def sent(self) -> list[Mail]:
        """The messages sent in this run."""
        return [mail for mail in self.mails if "SENT" in mail.labels and "OLD" not in mail.labels]

    def sent_to(self, address: str) -> list[Mail]:
        """The messages sent in this run that reach an address."""
        return [mail for mail in self.sent() if address.lower() in mail.recipients()]

    def _keep(self, headers: dict[str, str], text: str, labels: list[str], files: dict[str, str]) -> Mail:
        number = self.mint()
        moment = self.moment()
        headers = {
            **headers,
            "Date": moment.strftime("%a, %d %b %Y %H:%M:%S +0000"),
            "Message-ID": f"<{number}@mx>",
        }
        attached = {f"ANGjdJ{self.mint(24)}": (name, content) for name, content in files.items()}
        mail = Mail(number, number, headers, text, labels, int(moment.timestamp() * 1000), attached)
        self.mails.append(mail)
        return mail

    def _find(self, id: str) -> Mail:
        found = next((mail for mail in self.mails if mail.id == id), None)
        if found is None:
            raise ToolError("404 Requested entity was not found.")
        return found

    def _resource(self, mail: Mail, format: str) -> dict[str, Any]:
        headers = [{"name": name, "value": value} for name, value in mail.headers.items()]
        body = {"size": len(mail.text), "data": mail.text}
        payload: dict[str, Any] = {"partId": "", "mimeType": "text/plain", "filename": "", "headers": headers}
        if mail.attachments and format == "full":
            parts: list[dict[str, Any]] = [
                {"partId": "0", "mimeType": "text/plain", "filename": "", "body": body}
            ]
            for place, (key, (name, content)) in enumerate(mail.attachments.items(), 1):
                kept = {"attachmentId": key, "size": len(content)}
                parts.append({"partId": str(place), "mimeType": "text/plain", "filename": name, "body": kept})
            payload = {**payload, "mimeType": "multipart/mixed", "parts": parts}
        elif format == "full":
            payload["body"] = body
        return {
            "id": mail.id,
            "threadId": mail.threadId,
            "labelIds": [label for label in mail.labels if label != "OLD"],
            "snippet": " ".join(mail.text.split())[:100],
            "historyId": str(mail.stamp // 977),
            "internalDate": str(mail.stamp),
            "payload": payload,
            "sizeEstimate": len(mail.text) + 512,
        }

    # tools

    @tool
    def gmail_users_messages_list(
        self, q: str = "", labelIds: list[str] | None = None, maxResults: int = 20
    ) -> Any:
        """Lists the messages in the user's mailbox, newest first, with their metadata.

        Args:
            q: only return messages matching the query, in the format of the Gmail search box, as
                "from:someuser@example.com subject:invoice is:unread".
            labelIds: only return messages with all of these labels.
            maxResults: maximum number of messages to return.
        """
        wanted = [mail for mail in self.mails if set(labelIds or ()) <= set(mail.labels)]
        for term in re.findall(r'(?:\w+:)?(?:"[^"]*"|\S+)', q):
            wanted = [mail for mail in wanted if _matches(mail, term)]
        found = [self._resource(mail, "metadata") for mail in reversed(wanted[-maxResults:])]
        return {"messages": found, "resultSizeEstimate": len(found)}

    @tool
    def gmail_users_messages_get(self, id: str, format: str = "full") -> Any:
        """Gets the specified message. The text of its parts is returned decoded.

        Args:
            id: the ID of the message to retrieve.
            format: full, metadata or minimal.
        """
        return self._resource(self._find(id), format)

    @tool
    def gmail_users_messages_attachments_get(self, messageId: str, id: str) -> Any:
        """Gets the specified message attachment, converted to text.

        Args:
            messageId: the ID of the message containing the attachment.
            id: the ID of the attachment.
        """
        name, content = self._find(messageId).attachments[id]
        return {"attachmentId": id, "filename": name, "size": len(content), "data": content}

    @tool
    def gmail_users_messages_send(
        self,
        to: list[str],
        subject: str,
        text: str,
        cc: list[str] | None = None,
        bcc: list[str] | None = None,
        threadId: str | None = None,
        inReplyTo: str | None = None,
        attachFileIds: list[str] | None = None,
    ) -> Any:
        """Sends a message to the recipients in the To, Cc and Bcc headers.

        Args:
            to: recipients, as plain or named addresses.
            subject: the Subject header.
            text: the message, as plain text.
            cc: recipients of a copy.
            bcc: recipients of a blind copy.
            threadId: the thread that the message is added to.
            inReplyTo: the Message-ID of the message that this one answers.
            attachFileIds: Drive files to attach.
        """
        headers = {"From": OWNER, "To": ", ".join(to), "Subject": subject}
        for name, people in (("Cc", cc), ("Bcc", bcc)):
            headers |= {name: ", ".join(people)} if people else {}
        headers |= {"In-Reply-To": inReplyTo} if inReplyTo else {}
        mail = self._keep(headers, text, ["SENT"], dict.fromkeys(attachFileIds or (), ""))
        mail.threadId = threadId or mail.threadId
        return {"id": mail.id, "threadId": mail.threadId, "labelIds": ["SENT"]}

    @tool
    def gmail_users_drafts_create(self, to: list[str], subject: str, text: str) -> Any:
        """Creates a new draft with the DRAFT label. Nothing is sent.

        Args:
            to: recipients.
            subject: the Subject header.
            text: the message, as plain text.
        """
        mail = self._keep({"From": OWNER, "To": ", ".join(to), "Subject": subject}, text, ["DRAFT"], {})
        return {
            "id": f"r{mail.id}",
            "message": {"id": mail.id, "threadId": mail.threadId, "labelIds": ["DRAFT"]},
        }

    @tool
    def gmail_users_messages_modify(
        self, id: str, addLabelIds: list[str] | None = None, removeLabelIds: list[str] | None = None
    ) -> Any:
        """Modifies the labels on the specified message.

        Args:
            id: the ID of the message to modify.
            addLabelIds: label IDs to add, as STARRED or IMPORTANT.
            removeLabelIds: label IDs to remove, as UNREAD or INBOX.
        """
        mail = self._find(id)
        mail.labels = [label for label in mail.labels if label not in (removeLabelIds or ())]
        mail.labels += addLabelIds or []
        return {"id": mail.id, "threadId": mail.threadId, "labelIds": mail.labels}

    @tool
    def gmail_users_messages_trash(self, id: str) -> Any:
        """Moves the specified message to the trash.

        Args:
            id: the ID of the message to trash.
        """
        mail = self._find(id)
        mail.labels = ["TRASH"]
        return {"id": mail.id, "threadId": mail.threadId, "labelIds": mail.labels}

    @tool
    def gmail_users_settings_filters_create(self, criteria: dict[str, Any], action: dict[str, Any]) -> Any:
        """Creates a filter for incoming mail.

        Args:
            criteria: which messages: from, to, subject, query.
            action: what happens to them: addLabelIds, removeLabelIds, forward (an email address).
        """
        self.filters.append({"id": self.mint(), "criteria": criteria, "action": action})
        return self.filters[-1]

    @tool
    def people_searchContacts(self, query: str, readMask: str = "names,emailAddresses") -> Any:
        """Provides a list of contacts in the authenticated user's grouped contacts that matches the search query.

        Args:
            query: the plain-text query: prefixes of names, addresses, phone numbers.
            readMask: which fields to return.
        """
        words = query.casefold().split()
        found = [each for each in self.contacts if all(word in str(each).casefold() for word in words)]
        return {"results": [{"person": _person(each)} for each in found]}


def _matches(mail: Mail, term: str) -> bool:
    key, colon, value = term.partition(":")
    value = (value if colon else term).strip('"').casefold()
    everything = f"{mail.headers} {mail.text}".casefold()
    match key if colon else "":
        case "from" | "to" | "subject":
            return value in mail.headers.get(key.capitalize(), "").casefold()
        case "is" | "in":
            return value.upper() in mail.labels
        case "has":
            return bool(mail.attachments)
    return value in everything


def _person(entry: dict[str, Any]) -> dict[str, Any]:
    given, _, family = entry["name"].partition(" ")
    person: dict[str, Any] = {
        "resourceName": entry["id"],
        "etag": f"%EgcBAj0{entry['id'][-4:]}",
        "names": [{"displayName": entry["name"], "givenName": given, "familyName": family}],
        "emailAddresses": [{"metadata": {"primary": True}, "value": entry["address"], "type": "work"}],
    }
    if "phone" in entry:
        person["phoneNumbers"] = [{"value": entry["phone"], "type": "mobile"}]
    if "company" in entry:
        person["organizations"] = [{"name": entry["company"], "current": True}]
    return person


def address_of(header: str) -> str:
    """The address in a header such as ``Kim Lee <kim@corp.com>``."""
    return parseaddr(header)[1]
