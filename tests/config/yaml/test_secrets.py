import io
import json
import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentserver.config.yaml.secrets import MARK, MIN_LENGTH, RedactingFilter, Secrets


def test_longest_first():
    assert Secrets.of(["token", "token-long"]).redact("token-long token") == f"{MARK} {MARK}"


def test_overlapping_occurrences_leave_nothing():
    assert Secrets.of(["abcdef", "defghi"]).redact("-abcdefghi-") == f"-{MARK}-"
    assert Secrets.of(["aaaa"]).redact("aaaaaa") == MARK


def test_neighbours_stay_two():
    assert Secrets.of(["abcd", "efgh"]).redact("abcdefgh") == MARK * 2


def test_short_values_are_not_redacted():
    assert Secrets.of(["x" * (MIN_LENGTH - 1), ""]).redact("xxx") == "xxx"
    assert Secrets.of(["x" * MIN_LENGTH]).redact("xxxx") == MARK


def test_a_short_line_is_hidden_with_its_value_only():
    secrets = Secrets.of(["line-one\nshort"])
    assert secrets.redact("line-one short line-one\nshort") == f"{MARK} short {MARK}"


def test_the_mark_is_not_searched():
    assert Secrets.of(["redacted", "abcd"]).redact("abcd") == MARK


@pytest.mark.parametrize(
    "form",
    [
        'p&ss "wörd"\nline two',
        "line two",
        'p&ss \\"wörd\\"\\nline two',
        'p&amp;ss "wörd"',
        "p%26ss%20%22w%C3%B6rd%22",
        "p%26ss+%22w%C3%B6rd%22",
        'p&ss \\"w\\u00f6rd\\"',
        "p&amp;ss &quot;wörd&quot;",
    ],
)
def test_the_forms_a_value_takes(form):
    secrets = Secrets.of(['p&ss "wörd"\nline two'])
    assert secrets.redact(f"<{form}>") == f"<{MARK}>"


def test_neither_repr_nor_str_shows_them():
    assert "hunter22" not in repr(Secrets.of(["hunter22"])) + str(Secrets.of(["hunter22"]))


@given(st.lists(st.text(alphabet="abc", min_size=4, max_size=6)), st.text(alphabet="abc", max_size=40))
def test_no_secret_survives(values, text):
    secrets = Secrets.of(values)
    parts = secrets.redact(text).split(MARK)
    assert not any(value in part for value in values for part in parts)
    assert "".join(parts) == text or any(value in text for value in values)


@pytest.fixture
def log():
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.addFilter(RedactingFilter(Secrets.of(["hunter22"])))
    logger = logging.Logger("test")  # noqa: LOG001 - of this test alone
    logger.addHandler(handler)
    return logger, stream, handler


class Shy:
    def __repr__(self):
        return "<Shy hunter22>"


def test_message_and_arguments(log):
    logger, stream, _ = log
    logger.info("key %s of %s", "hunter22", Shy())
    assert stream.getvalue() == f"key {MARK} of <Shy {MARK}>\n"


def test_arguments_that_do_not_fit(log):
    logger, stream, _ = log
    logger.info("key %d", "hunter22")
    assert stream.getvalue() == f"key %d ('{MARK}',)\n"


def test_traceback_and_stack(log):
    logger, stream, _ = log
    try:
        int("hunter22")
    except ValueError:
        logger.exception("failed", stack_info=True)
    assert "hunter22" not in stream.getvalue()
    assert f"invalid literal for int() with base 10: '{MARK}'" in stream.getvalue()


def test_extra_attributes(log):
    logger, stream, handler = log
    handler.setFormatter(
        type("Json", (logging.Formatter,), {"format": lambda self, r: json.dumps([r.a, r.b, r.c, r.d])})()
    )
    logger.info("x", extra={"a": "hunter22", "b": {"hunter22": ["hunter22"]}, "c": Shy(), "d": 5})
    assert json.loads(stream.getvalue()) == [MARK, {MARK: [MARK]}, f"<Shy {MARK}> <Shy {MARK}>", 5]
