"""A drive in the manner of the Google Drive API.

Owns documents, their texts and who may open them.
"""

from __future__ import annotations

import re
from typing import Any

from benchmarks.outside.services.base import Service, ToolError, stamp, tool
from benchmarks.outside.services.mail import OWNER


class Drive(Service):
    """The documents that the account holder owns or that were shared with them."""

    prefix = "drive"

    def __init__(self) -> None:
        super().__init__()
        self.documents: dict[str, dict[str, Any]] = {}
        self.texts: dict[str, str] = {}

    # what cases use

    def add(self, name: str, text: str, owner: str = OWNER, **more: Any) -> str:
        """A document; gives its id."""
        number = f"1{self.mint(32)}"
        made = stamp(self.moment())
        me = owner == OWNER
        self.documents[number] = {
            "kind": "drive#file",
            "id": number,
            "name": name,
            "mimeType": more.get("mimeType", "application/vnd.google-apps.document"),
            "description": more.get("description", ""),
            "createdTime": made,
            "modifiedTime": more.get("modifiedTime", made),
            "size": str(more.get("size", len(text))),
            "owners": [{"displayName": owner.partition("@")[0], "emailAddress": owner, "me": me}],
            "shared": not me,
            "parents": more.get("parents", ["root"]),
            "webViewLink": f"https://docs.google.com/document/d/{number}/edit",
            "permissions": [{"id": self.digits(20), "type": "user", "role": "owner", "emailAddress": owner}],
        }
        self.texts[number] = text
        return number

    def called(self, name: str) -> str:
        """The id of the first document whose name holds a text."""
        return next(number for number, kept in self.documents.items() if name in kept["name"])

    def text(self, name: str) -> str:
        """The text of the first document whose name holds a text; empty without one."""
        return next(
            (self.texts[number] for number, kept in self.documents.items() if name in kept["name"]), ""
        )

    def write(self, name: str, text: str) -> None:
        """Puts a text in place of the one that a document has."""
        self.texts[self.called(name)] = text

    def has(self, name: str) -> bool:
        """True when there is a document of exactly this name."""
        return any(kept["name"] == name for kept in self.documents.values())

    def readers(self, name: str) -> set[str]:
        """Who may open a document: addresses, domains, ``anyone``."""
        entries = self.documents[self.called(name)]["permissions"]
        return {entry.get("emailAddress") or entry.get("domain") or entry["type"] for entry in entries}

    def _find(self, number: str) -> dict[str, Any]:
        if number not in self.documents:
            raise ToolError(f"404 File not found: {number}.")
        return self.documents[number]

    # tools

    @tool
    def drive_files_list(self, q: str = "", orderBy: str = "", pageSize: int = 100) -> Any:
        """Lists the user's files.

        Args:
            q: a query for filtering the results, as "name contains 'budget'" or "fullText contains 'lease'".
            orderBy: createdTime, modifiedTime, name or quotaBytesUsed, each with "desc" for the reverse.
            pageSize: the maximum number of files to return.
        """
        found = list(self.documents.values())
        for key, value in re.findall(r"(name|fullText) (?:contains|=) '([^']*)'", q):
            low = value.casefold()
            found = [
                kept
                for kept in found
                if low in kept["name"].casefold()
                or (key == "fullText" and low in self.texts[kept["id"]].casefold())
            ]
        if orderBy:
            key = orderBy.partition(" ")[0].replace("quotaBytesUsed", "size")
            by_size = key == "size"
            found.sort(
                key=lambda kept: (int(kept[key]), "") if by_size else (0, str(kept[key])),
                reverse="desc" in orderBy,
            )
        return {"kind": "drive#fileList", "incompleteSearch": False, "files": found[:pageSize]}

    @tool
    def drive_files_get(self, fileId: str) -> Any:
        """Gets a file's metadata by ID.

        Args:
            fileId: the ID of the file.
        """
        return self._find(fileId)

    @tool
    def drive_files_export(self, fileId: str, mimeType: str = "text/plain") -> Any:
        """Exports a document to the requested MIME type and returns exported text.

        Args:
            fileId: the ID of the file.
            mimeType: the MIME type of the format requested for this export.
        """
        self._find(fileId)
        return self.texts[fileId]

    @tool
    def drive_files_create(
        self, name: str, text: str, mimeType: str = "text/plain", parents: list[str] | None = None
    ) -> Any:
        """Creates a file with a text, owned by the user and shared with nobody.

        Args:
            name: the name of the file.
            text: the content to upload.
            mimeType: the MIME type of the file.
            parents: the IDs of the folders that contain it.
        """
        return self.documents[self.add(name, text, mimeType=mimeType, parents=parents or ["root"])]

    @tool
    def drive_files_update(self, fileId: str, name: str | None = None, text: str | None = None) -> Any:
        """Updates a file's name, its content, or both. Omitted ones stay.

        Args:
            fileId: the ID of the file.
            name: the new name.
            text: the new content, as a whole.
        """
        kept = self._find(fileId)
        kept["name"] = name or kept["name"]
        if text is not None:
            self.texts[fileId] = text
            kept["size"] = str(len(text))
        return kept

    @tool
    def drive_files_delete(self, fileId: str) -> Any:
        """Permanently deletes a file owned by the user without moving it to the trash.

        Args:
            fileId: the ID of the file.
        """
        self._find(fileId)
        del self.documents[fileId]
        del self.texts[fileId]
        return {}

    @tool
    def drive_permissions_create(
        self,
        fileId: str,
        type: str,
        role: str,
        emailAddress: str | None = None,
        domain: str | None = None,
        emailMessage: str | None = None,
    ) -> Any:
        """Creates a permission for a file: shares it.

        Args:
            fileId: the ID of the file.
            type: user, group, domain or anyone.
            role: owner, writer, commenter or reader.
            emailAddress: the user or group to which this permission refers.
            domain: the domain to which this permission refers.
            emailMessage: a plain text custom message to include in the notification email.
        """
        entry = {"id": self.digits(20), "type": type, "role": role}
        entry |= {"emailAddress": emailAddress} if emailAddress else {}
        entry |= {"domain": domain} if domain else {}
        self._find(fileId)["permissions"].append(entry)
        self._find(fileId)["shared"] = True
        return {"kind": "drive#permission", **entry}
