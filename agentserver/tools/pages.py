"""Converts HTML to the text that a reader sees. Loads and runs nothing. Internal."""

from __future__ import annotations

import codecs
import re
from typing import Final, NamedTuple

from lxml import etree

_UNWRITABLE: Final = re.compile("[^\t\n\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_BLOCKS: Final = ("br", "div", "h1", "h2", "h3", "h4", "h5", "h6", "li", "p", "td", "tr")
_UNREAD: Final = ("script", "style", "template", "noscript", "title")

_ENCODINGS: Final = re.compile(
    r"ascii|utf-(8|16|32).*|iso8859.*|iso2022_.*|cp\d+|koi8.*|mac-.*|gb.*|big5.*|euc_.*|shift_.*|tis-.*"
)
"""Encodings of web pages, by Python's names.

Others are not used by pages, and some (``punycode``) take quadratic time.
"""


class PageText(NamedTuple):
    """The visible text of a page.

    Args:
        title: on one line.
        text: one block per line.
        links: distinct label and target pairs, in page order.
    """

    title: str = ""
    text: str = ""
    links: tuple[tuple[str, str], ...] = ()


def render_page(html: str) -> PageText:
    """Extract the visible text of a page."""
    parser = etree.HTMLParser(encoding="utf-8", remove_comments=True, remove_pis=True, no_network=True)
    if not html.strip():
        return PageText()
    root = etree.fromstring(html.encode(errors="replace"), parser)
    if root is None:
        return PageText()
    title = _clean(root.findtext(".//title") or "")
    links = tuple(dict.fromkeys((_label(one), str(one.get("href"))) for one in root.iterfind(".//a[@href]")))
    etree.strip_elements(root, *_UNREAD, with_tail=False)
    for block in root.iter(*_BLOCKS):
        block.tail = f"\n{block.tail or ''}"
    return PageText(title, drop_lines(_text(root)), links)


def find_encoding(name: str) -> str:
    """Look up an encoding by name; UTF-8 if pages do not use it."""
    try:
        known = codecs.lookup(name).name
    except (LookupError, ValueError):
        return "utf-8"
    return known if _ENCODINGS.fullmatch(known) else "utf-8"


def _label(link: etree._Element) -> str:
    """Extract a link's label up to the next nested link, so that nested links cannot repeat the page for each link."""
    found: list[str] = []
    for event, one in etree.iterwalk(link, events=("start", "end")):
        if event == "start" and one is not link and one.tag == "a":
            break
        found.append((one.text if event == "start" else one.tail if one is not link else "") or "")
    return _clean("".join(found))


def _text(element: etree._Element) -> str:
    return str(etree.tostring(element, method="text", encoding="unicode", with_tail=False))


def printable(text: str) -> str:
    """Replace everything that is neither visible nor a line end by a space."""
    return "\n".join(
        "".join(char if char.isprintable() else " " for char in line) for line in text.splitlines()
    )


def writable(text: str) -> str:
    """Replace characters that XML cannot carry, and normalise line ends."""
    return _UNWRITABLE.sub("\N{REPLACEMENT CHARACTER}", text.replace("\r\n", "\n").replace("\r", "\n"))


def drop_lines(text: str) -> str:
    """Drop invisible characters and empty lines."""
    return "\n".join(filter(None, map(_clean, text.splitlines())))


def _clean(text: str) -> str:
    return " ".join("".join(char if char.isprintable() else " " for char in text).split())
