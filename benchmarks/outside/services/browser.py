"""A browser in the manner of the Playwright MCP server, and the pages that it can reach.

Owns pages, opened addresses and sent forms. An unknown address is opened all the same: its owner sees the request.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urljoin

from benchmarks.outside.services.base import Service, ToolError, tool


@dataclass
class Element:
    """One element of a page: its role, its name, and the address or the value behind it."""

    role: str
    name: str
    more: str = ""


@dataclass
class Page:
    """A page: its title, and its elements from top to bottom."""

    title: str
    elements: list[Element]
    filled: dict[str, str] = field(default_factory=dict)


def heading(text: str) -> Element:
    """A heading."""
    return Element("heading", text)


def paragraph(text: str) -> Element:
    """Running text."""
    return Element("paragraph", text)


def link(name: str, url: str) -> Element:
    """A link; the address may be relative."""
    return Element("link", name, url)


def textbox(name: str, value: str = "") -> Element:
    """A field of a form, with its default."""
    return Element("textbox", name, value)


def combobox(name: str, *options: str) -> Element:
    """A field with options to choose from."""
    return Element("combobox", name, " | ".join(options))


def button(name: str, action: str = "") -> Element:
    """A button that sends the fields above it to an address; to the page's own without one."""
    return Element("button", name, action)


class Browser(Service):
    """The web, and one tab."""

    prefix = "browser"

    def __init__(self) -> None:
        super().__init__()
        self.pages: dict[str, Page] = {}
        self.visited: list[str] = []
        self.posted: list[tuple[str, dict[str, str]]] = []
        self.scripts: list[str] = []
        self.at = "about:blank"

    # what cases use

    def page(self, url: str, title: str, *elements: Element) -> None:
        """A page of the web."""
        self.pages[url] = Page(title, list(elements))

    def insert(self, url: str, *elements: Element, place: int | None = None) -> None:
        """Further elements on a page, at its end or at a place."""
        kept = self.pages[url].elements
        kept[len(kept) if place is None else place : len(kept) if place is None else place] = elements

    def opened(self, part: str) -> bool:
        """True when an address that holds a text was opened or sent to."""
        return any(part in url for url in [*self.visited, *(url for url, _ in self.posted)])

    def sent_to(self, part: str) -> dict[str, str]:
        """Return the last form sent to an address that holds a text; empty without one."""
        return next((given for url, given in reversed(self.posted) if part in url), {})

    def _state(self) -> str:
        page = self.pages.get(self.at) or Page("Not found", [heading("404 Not Found")])
        lines = []
        for place, element in enumerate(page.elements):
            head = f'- {element.role} "{element.name}"'
            ref = f"[ref=e{place + 2}]"
            match element.role:
                case "paragraph":
                    lines.append(f"- paragraph {ref}: {element.name}")
                case "heading":
                    lines.append(f"{head} [level={1 if place == 0 else 2}] {ref}")
                case "link":
                    lines += [f"{head} {ref} [cursor=pointer]:", f"  - /url: {element.more}"]
                case "textbox":
                    value = page.filled.get(element.name, element.more)
                    lines.append(f"{head} {ref}: {value}" if value else f"{head} {ref}")
                case "combobox":
                    lines += [
                        f"{head} {ref}:",
                        *(f'  - option "{each}"' for each in element.more.split(" | ")),
                    ]
                case _:
                    lines.append(f"{head} {ref} [cursor=pointer]")
        return "\n".join(
            [
                "### Page state",
                f"- Page URL: {self.at}",
                f"- Page Title: {page.title}",
                "- Page Snapshot:",
                "```yaml",
                *lines,
                "```",
            ]
        )

    def _element(self, ref: str) -> Element:
        page = self.pages.get(self.at)
        place = int(ref.removeprefix("e")) - 2
        if page is None or not 0 <= place < len(page.elements):
            raise ToolError(f"Ref {ref} not found in the current page snapshot. Try capturing new snapshot.")
        return page.elements[place]

    def _go(self, url: str) -> str:
        self.at = urljoin(self.at, url) if self.at.startswith("http") else url
        self.visited.append(self.at)
        return self._state()

    def _submit(self, action: str) -> str:
        page = self.pages[self.at]
        values = {
            e.name: page.filled.get(e.name, e.more)
            for e in page.elements
            if e.role in ("textbox", "combobox")
        }
        target = urljoin(self.at, action) if action else self.at
        self.posted.append((target, values))
        self.at = target
        if action and target in self.pages:
            return self._state()
        return (
            "### Page state\n- Page URL: "
            + target
            + "\n- Page Title: Sent\n- Page Snapshot:\n```yaml\n- status: OK\n```"
        )

    # tools

    @tool
    def browser_navigate(self, url: str) -> Any:
        """Navigate to a URL. Returns the accessibility snapshot of the page.

        Args:
            url: the URL to navigate to.
        """
        return self._go(url)

    @tool
    def browser_snapshot(self) -> Any:
        """Capture accessibility snapshot of the current page, this is better than screenshot."""
        return self._state()

    @tool
    def browser_click(self, element: str, ref: str) -> Any:
        """Perform click on a web page. Returns the snapshot of the page afterwards.

        Args:
            element: human-readable element description used to obtain permission to interact with the element.
            ref: exact target element reference from the page snapshot.
        """
        found = self._element(ref)
        if found.role == "link":
            return self._go(found.more)
        return self._submit(found.more) if found.role == "button" else self._state()

    @tool
    def browser_type(self, element: str, ref: str, text: str, submit: bool = False) -> Any:
        """Type text into editable element.

        Args:
            element: human-readable element description.
            ref: exact target element reference from the page snapshot.
            text: text to type into the element.
            submit: whether to submit entered text (press Enter after).
        """
        self.pages[self.at].filled[self._element(ref).name] = text
        return self._submit("") if submit else self._state()

    @tool
    def browser_fill_form(self, fields: list[dict[str, str]]) -> Any:
        """Fill multiple form fields.

        Args:
            fields: the fields to fill in, each with name, type, ref and value.
        """
        for each in fields:
            self.pages[self.at].filled[self._element(each["ref"]).name] = each["value"]
        return self._state()

    @tool
    def browser_select_option(self, element: str, ref: str, values: list[str]) -> Any:
        """Select an option in a dropdown.

        Args:
            element: human-readable element description.
            ref: exact target element reference from the page snapshot.
            values: the values to select in the dropdown.
        """
        self.pages[self.at].filled[self._element(ref).name] = values[0]
        return self._state()

    @tool
    def browser_evaluate(self, function: str) -> Any:
        """Evaluate JavaScript expression on page.

        Args:
            function: () => { /* code */ }, run in the page.
        """
        self.scripts.append(function)
        return "undefined"
