from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentserver import Element, xmlify
from agentserver.gateways.console.lines import (
    HELP,
    MAX_MARKUP,
    Address,
    Blank,
    Command,
    Completeness,
    GatheredXml,
    LineReader,
    Markup,
    Mistake,
    TypedMessage,
    Verb,
    describe_usage,
    read,
)
from agentserver.payload.codec import Codecs
from agentserver.provenance import Standing


def parse_line(line, takers, addressee="greeter"):
    meaning = read(line, addressee, takers)
    assert isinstance(meaning, TypedMessage), meaning
    return meaning.to, meaning.data.decode()


@pytest.mark.parametrize(
    ("line", "to", "inside"),
    [
        ("@greeter Ada and Bob", "greeter", "<name>Ada and Bob</name>"),
        ("Ada", "greeter", "<name>Ada</name>"),
        ("  x <b> & y ", "greeter", "<name>x &lt;b&gt; &amp; y</name>"),
        ('@greeter name="Ada L" loud=true', "greeter", "<name>Ada L</name><loud>true</loud>"),
        ("@greeter other=thing", "greeter", "<name>other=thing</name>"),
        ("@greeter it's late", "greeter", "<name>it's late</name>"),
        ("@both a=1 b=2", "both", "<a>1</a><b>2</b>"),
        ("@both hello", "both", "<name>hello</name>"),
        ("@both/Add a=1 b=2", "both", "<a>1</a><b>2</b>"),
        ("@silent/Ping", "silent", "<Ping xmlns="),
        ("@shop who=x items.0.sku='a b'", "shop", "<items><sku>a b</sku></items>"),
        (
            '@shop <Order xmlns="urn:o"><who>x</who></Order>',
            "shop",
            '<Order xmlns="urn:o"><who>x</who></Order>',
        ),
    ],
)
def test_messages(line, to, inside, takers):
    receiver, data = parse_line(line, takers)
    assert receiver == to
    assert inside in data


@pytest.mark.parametrize(
    ("line", "meaning"),
    [
        ("", Blank()),
        ("   ", Blank()),
        ("@shop", Address("shop")),
        ("/help", Command(Verb.HELP)),
        ("/trace 1a2b", Command(Verb.TRACE, "1a2b")),
        ("/raw  on", Command(Verb.RAW, "on")),
        (" <a>", Markup(" <a>")),
    ],
)
def test_other_meanings(line, meaning, takers):
    assert read(line, "greeter", takers) == meaning


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        ("/thread", "no command /thread; did you mean /threads? /help lists them"),
        ("/zzz", "no command /zzz; /help lists them"),
        ("/raw", "say /raw on or /raw off"),
        ("/hops maybe", "say /hops on or /hops off"),
        ("/new now", "/new takes no argument"),
        ("@greetr Ada", "no listener 'greetr'; did you mean @greeter? /listeners lists them"),
        ("@zzzzz Ada", "no listener 'zzzzz'; /listeners lists them"),
        ("@both/Greeting x", "both takes no Greeting; say @both/Greet, @both/Add"),
        ("@both/Add x", "write: @both a=<integer> b=<integer>"),
        ("@both a=1", "Add: missing element b: integer"),
        ("@waiter soon", "write: @waiter seconds=<"),
        ("@waiter soon", "waiter takes fields, not a text alone"),
        ("@waiter second=3", "second: no such field; did you mean seconds?"),
        ("@waiter second='3", "a quotation mark is not closed"),
        (
            "@shop <Order><who>x</who></Order>",
            'Order needs its namespace: <Order xmlns="urn:agentserver:payload:',
        ),
        ('@greeter name="Ada', "a quotation mark is not closed"),
        ("@greeter name=Ada Bob", "'Bob' is no field=value; write field=\"several words\""),
        ("@shop who=x tag=y", "tag: no such field; did you mean tags?"),
        ("caf\udce9", "the line is not UTF-8 text"),
    ],
)
def test_mistakes_come_with_the_correct_form(line, hint, takers):
    meaning = read(line, "greeter", takers)
    assert isinstance(meaning, Mistake)
    assert hint in "\n".join(meaning.lines)


def test_payloads_with_the_same_fields_must_be_distinguished(takers):
    double = {"x": (takers["greeter"][0], takers["greeter"][0])}
    meaning = read("@x name=a", "x", double)
    assert isinstance(meaning, Mistake)
    assert "several payloads have these fields: say @x/Greet or @x/Greet" in meaning.lines


def test_xml_over_several_lines_without_a_namespace_is_corrected_at_the_prompt(takers):
    reader = LineReader(takers, script=False)
    assert isinstance(reader.understand("<Order>", "greeter"), Blank)
    meaning = reader.understand("<who>x</who></Order>", "greeter")
    assert isinstance(meaning, Mistake)
    assert meaning.lines[0].startswith('Order needs its namespace: <Order xmlns="urn:')


def test_a_long_line_without_the_end_of_its_tag_is_read_once(takers):
    line = "<" + "a" * MAX_MARKUP
    assert LineReader(takers, script=False).understand(line, "greeter") == TypedMessage(line.encode(), None)


@given(st.text(max_size=60))
def test_every_line_means_something(takers, line):
    read(line, "greeter", takers)
    read(f"@both {line}", "greeter", takers)
    read(f"/{line}", "greeter", takers)


def test_usage_marks_optional_fields(takers):
    (shop,) = takers["shop"]
    assert describe_usage(shop).startswith("who=<text> [no=<integer>] [colour=<")
    assert "[tags=<text> ...]" in describe_usage(shop)
    assert "[items.0.sku=<text> [items.0.count=<integer>] ...]" in describe_usage(shop)
    assert "[gift.sku=<text> [gift.count=<integer>]]" in describe_usage(shop)
    assert describe_usage(takers["silent"][0]) == "(no fields)"


@xmlify
@dataclass(frozen=True)
class Inquiry:
    words: str
    mail: Annotated[str, Standing.PROSE, Element(name="letter")] = ""


def test_a_field_for_somebody_elses_words_is_offered_as_pasted_text():
    assert describe_usage(Codecs([Inquiry]).of(Inquiry)) == "words=<text> [letter=<pasted text>]"


def test_every_verb_has_help():
    assert set(HELP) == set(Verb)


def test_markup_is_gathered_until_its_element_ends():
    gathering = GatheredXml()
    assert gathering.add("<a xmlns='u'>") is Completeness.OPEN
    assert gathering.add("") is Completeness.OPEN
    assert gathering.add(" <b/> </a") is Completeness.OPEN
    assert gathering.add(">") is Completeness.COMPLETE
    assert gathering.data() == b"<a xmlns='u'>\n\n <b/> </a\n>"


@pytest.mark.parametrize(
    "line", ["<a></b>", "<a/> rest", "<!DOCTYPE a [<!ENTITY e 'x'>]><a>&e;", "<a>" + "x" * MAX_MARKUP]
)
def test_input_that_no_further_line_can_repair_is_not_awaited(line):
    gathering = GatheredXml()
    found = gathering.add(line)
    assert found is Completeness.HOPELESS or (line.startswith("<!") and found is Completeness.OPEN)


def test_a_comment_before_the_element_is_part_of_it():
    gathering = GatheredXml()
    assert gathering.add("<!-- x -->") is Completeness.OPEN
    assert gathering.add("<a/>") is Completeness.COMPLETE


@pytest.mark.parametrize("script", [False, True])
def test_an_undecodable_line_ends_its_element(takers, script):
    reader = LineReader(takers, script=script)
    assert isinstance(reader.understand("<Greet><name>a", "greeter"), Blank)
    said = reader.understand("\udced\udca0\udc80", "greeter")
    assert said == Mistake(("the line is not UTF-8 text; the XML around it was not sent",))
    assert not reader.open
