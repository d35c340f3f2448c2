"""Pages as a reader sees them. Internal.

Owns the way from markup to text. Loads nothing and runs nothing, whatever the markup says.
"""

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
"""The encodings of pages, by the names that Python gives them. Others that it knows are none of pages, and some
(``punycode``) take time that grows with the square of the text."""


class PageText(NamedTuple):
    """A page as a reader sees it.

    Args:
        title: on one line.
        text: one block a line.
        links: the label and the target of each, as the page has it, in order and once.
    """

    title: str = ""
    text: str = ""
    links: tuple[tuple[str, str], ...] = ()


def render_page(html: str) -> PageText:
    """The text of a page as a reader sees it."""
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
    return PageText(title, lines(_text(root)), links)


def encoding(name: str) -> str:
    """The encoding of that name; UTF-8 where no page has it."""
    try:
        known = codecs.lookup(name).name
    except (LookupError, ValueError):
        return "utf-8"
    return known if _ENCODINGS.fullmatch(known) else "utf-8"


def _label(link: etree._Element) -> str:
    """The words of a link, as far as the next link in it: all of each would be the page, once for every link."""
    found: list[str] = []
    for event, one in etree.iterwalk(link, events=("start", "end")):
        if event == "start" and one is not link and one.tag == "a":
            break
        found.append((one.text if event == "start" else one.tail if one is not link else "") or "")
    return _clean("".join(found))


def _text(element: etree._Element) -> str:
    return str(etree.tostring(element, method="text", encoding="unicode", with_tail=False))


def printable(text: str) -> str:
    """The text with a space for everything that is neither seen nor the end of a line."""
    return "\n".join(
        "".join(char if char.isprintable() else " " for char in line) for line in text.splitlines()
    )


def writable(text: str) -> str:
    """The text with a replacement character for each that XML cannot carry, and one kind of line end."""
    return _UNWRITABLE.sub("\N{REPLACEMENT CHARACTER}", text.replace("\r\n", "\n").replace("\r", "\n"))


def lines(text: str) -> str:
    """Every line without what cannot be seen, and none of them empty."""
    return "\n".join(filter(None, map(_clean, text.splitlines())))


def _clean(text: str) -> str:
    return " ".join("".join(char if char.isprintable() else " " for char in text).split())
