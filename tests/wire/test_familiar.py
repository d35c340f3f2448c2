from __future__ import annotations

from contextlib import suppress
from xml.parsers import expat

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentserver.wire.envelope import (
    SCHEMA,
    Bounds,
    canonical,
    check_familiar,
    collect_names,
    read_payload,
    write,
)
from tests.core.paper import Ask, listener, rules

KNOWN = frozenset([b"a", b"b", b"urn:x"])
PIECES = ["<a>", "</a>", "<a ", "<b/>", "a='1'", ' a="1"', ' xmlns="urn:x"', ' xmlns:p="urn:x"', "<p:a/>", "<c>", ">",
          "<![CDATA[", "]]>", "<!--", "-->", "<?pi ?>", "&amp;", "&e;", "&", "x", "=", '"', "'", "<", "/>", ' c="<c>"']  # fmt: skip


def seen_names(data):
    """Every name that a parser comes by, whether or not the document is well-formed."""
    found = set()
    parser = expat.ParserCreate()

    def start(name, attributes):
        found.add(name)
        for key, value in attributes.items():
            found.update([value] if key == "xmlns" else [key])

    parser.StartElementHandler = start
    parser.ProcessingInstructionHandler = lambda target, _: found.add(target)
    parser.SkippedEntityHandler = lambda name, _: found.add(name)
    with suppress(expat.ExpatError):
        parser.Parse(data, True)
    return {name.encode() for name in found}


@given(st.lists(st.sampled_from(PIECES)).map(lambda parts: "<a>" + "".join(parts) + "</a>"))
def test_a_familiar_document_shows_no_parser_a_name_that_is_not_known(text):
    if check_familiar(text.encode(), KNOWN):
        assert seen_names(text.encode()) <= KNOWN


@pytest.mark.parametrize(
    "text",
    ["", "x", "<c/>", '<a c="1"/>', '<a xmlns="urn:y"/>', "<a><c></a>", "<p:a/>", '<a xmlns:p="urn:x"/>', "<?c?><a/>",
     "<a>&c;</a>", "<a b='1'/>", '<a b="<c>"/>', "<!--<c>--><a/>", "<a><![CDATA[<c>]]></a>", "<a"],
)  # fmt: skip
def test_a_document_that_may_hold_another_name_is_not_familiar(text):
    assert not check_familiar(text.encode(), KNOWN)


@pytest.mark.parametrize("text", ["<a/>", '<a xmlns="urn:x" b="&lt;"><b>x = 1 &#65; ></b ></a>', "<a\n/>"])
def test_a_document_of_known_names_alone_is_familiar(text):
    assert check_familiar(text.encode(), KNOWN)


def test_the_servers_own_output_is_familiar_to_it():
    shop = rules(listener("a"))
    codec = shop.codecs.of(Ask)
    markup = codec.encode(Ask('x = "1" & <c d="2"/> \u20ac'))
    known = collect_names([SCHEMA, codec.xsd()])
    assert known <= shop.bounds.names
    assert check_familiar(write("p", "a", "t", markup), known)
    assert check_familiar(canonical(read_payload(markup.encode(), Bounds())), known)
