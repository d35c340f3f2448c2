from __future__ import annotations

import errno
import io
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentserver.characters.printing import escape_unseen
from agentserver.characters.table import is_unseen
from agentserver.trace.terminal import (
    MAX_LINE,
    Screen,
    Style,
    format_paint,
    make_plain_line,
    split_visible_lines,
    wants_colour,
    wrap,
)


@given(st.text())
def test_nothing_that_a_terminal_could_act_on_is_passed_on(text):
    shown = escape_unseen(text)
    assert not any(map(is_unseen, shown))
    assert "\x1b" not in shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain ä 漢 🙂", "plain ä 漢 🙂"),
        ("\x1b[31mred", "\\x1b[31mred"),
        ("\x9b31m", "\\x9b31m"),
        ("a\rb\x08\x7f\x00", "a\\rb\\x08\\x7f\\x00"),
        ("\u202egnp.exe", "\\u202egnp.exe"),
        ("zero\u200bwidth", "zero\\u200bwidth"),
        ("line\u2028separator", "line\\u2028separator"),
        ("\udc80", "\\udc80"),
        ("non\u00a0breaking\x1b", "non\\xa0breaking\\x1b"),
        ("C:\\new", "C:\\\\new"),
    ],
)
def test_dangerous_characters_are_escaped(text, shown):
    assert escape_unseen(text) == shown


def test_lines_are_the_texts_own():
    assert list(split_visible_lines("a\tb\r\nc\rd\n")) == ["a    b", "c\\rd", ""]


def test_a_long_line_is_cut_and_counted():
    (line,) = split_visible_lines("x" * (MAX_LINE + 7))
    assert line == "x" * MAX_LINE + " ... (7 more)"


def test_text_to_be_decided_about_is_never_cut():
    assert [*split_visible_lines("x" * MAX_LINE + "to\tmallory\n\nend\r\n", whole=True)] == [
        "x" * MAX_LINE,
        "to\\tmallory",
        "",
        "end\\r",
        "",
    ]


def test_paint_escapes_text_inside_its_own_colours():
    line = ((Style.BAD, "\x1b[0m!"), (Style.PLAIN, " ok"))
    assert format_paint(line, colour=True) == "\x1b[31m\\x1b[0m!\x1b[0m ok"
    assert format_paint(line, colour=False) == "\\x1b[0m! ok"


class Tty(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize(
    ("stream", "environ", "wanted"),
    [
        (Tty(), {"TERM": "xterm"}, True),
        (Tty(), {"TERM": "xterm", "NO_COLOR": "1"}, False),
        (Tty(), {"TERM": "xterm", "NO_COLOR": ""}, True),
        (Tty(), {"TERM": "dumb"}, False),
        (Tty(), {}, False),
        (io.StringIO(), {"TERM": "xterm"}, False),
    ],
)
def test_colour_is_for_terminals_whose_owner_did_not_decline(stream, environ, wanted):
    assert wants_colour(stream, environ) is wanted


@pytest.mark.anyio
async def test_a_screen_redacts_and_prints_whole_lines():
    out = io.StringIO()
    screen = Screen(redact=lambda text: text.replace("hunter2", "[redacted]"), out=lambda: out)
    screen.show()
    screen.show(make_plain_line("it is hunter2"), make_plain_line("end"))
    screen.say("two\nlines")
    screen.prompt("> \x1b")
    await screen.flush()
    assert out.getvalue() == "it is [redacted]\nend\ntwo\nlines\n> \\x1b"


@pytest.mark.anyio
async def test_a_reader_that_went_away_is_noticed_once():
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as stream:
        screen = Screen(out=lambda: stream)
        screen.say("anybody?")
        await screen.flush()
        assert screen.closed
        screen.say("nobody")
        await screen.flush()


@pytest.mark.anyio
async def test_a_disk_that_is_full_is_no_reader_that_went_away():
    with Path("/dev/full").open("w") as stream:  # noqa: ASYNC230 - a device
        screen = Screen(out=lambda: stream)
        screen.say("room?")
        await screen.flush()
        assert screen.closed
        assert screen.unwritten.errno == errno.ENOSPC


@pytest.mark.parametrize(
    ("line", "pieces"),
    [
        ([(Style.DIM, "  | "), (Style.PLAIN, "one two three")], ["  | one two", "  | three"]),
        ([(Style.PLAIN, "one two three")], ["one two", "  three"]),
        ([(Style.DIM, "+0.1s  "), (Style.NAME, "aa"), (Style.PLAIN, " bb")], ["+0.1s  aa bb"]),
        (
            [(Style.DIM, "+0.1s  "), (Style.NAME, "aa"), (Style.PLAIN, " bbbb")],
            ["+0.1s  aa", "         bbbb"],
        ),
        ([(Style.NAME, "/raw  "), (Style.PLAIN, "show replies")], ["/raw  show", "      replies"]),
        ([(Style.PLAIN, "averylongwordwithoutend x")], ["averylongwordwithoutend", "  x"]),
        ([(Style.PLAIN, r"\a\b\c\d of x")], [r"\a\b\c\d", "  of x"]),  # a backslash is printed as two
        ([], [""]),
    ],
)
def test_long_lines_wrap_between_words(line, pieces):
    assert ["".join(text for _, text in piece) for piece in wrap(tuple(line), 12)] == pieces


@given(
    st.lists(st.tuples(st.sampled_from(Style), st.text("ab |+.0s", max_size=9)), max_size=6),
    st.integers(1, 30),
)
def test_pieces_hold_every_word_in_order(line, columns):
    def words(lines):
        return "".join(text for each in lines for _, text in each).replace(" ", "").replace("|", "")

    assert words(wrap(tuple(line), columns)) == words([tuple(line)])
