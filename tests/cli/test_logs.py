from __future__ import annotations

import io
import json
import logging
import sys
import warnings

import pytest

from agentserver.cli.process import Format, Level, Logging, configure, is_no_hop
from agentserver.config.yaml.secrets import Secrets
from agentserver.core.messages import Moment
from agentserver.core.records.audit import AuditRecord, Event
from agentserver.core.state.conversation import Conversation
from agentserver.pump.records import LogSink

WHERE = {"conversation": "c1", "thread_id": "t1"}


@pytest.fixture
def log(command, capsys):
    """Configure logging, log, and return the output; ``command`` restores everything."""

    def run(form, do, level=Level.WARNING):
        configure(Logging(level, form), Secrets.of(["hunter2"]))
        do(logging.getLogger("agentserver.pump"))
        return capsys.readouterr().err

    return run


def fail(text):
    raise ValueError(text)


def crash(logger):
    try:
        fail("hunter2 \x1b[31m")
    except ValueError:
        logger.warning("it was %s", "hunter2\x1b[31m", exc_info=True, extra=WHERE)


def test_text_is_redacted_and_harmless(log):
    first, *traceback = log(Format.TEXT, crash).splitlines()
    assert first.endswith(
        "+00:00 WARNING agentserver.pump: it was [redacted]\\x1b[31m [conversation=c1 thread=t1]"
    )
    assert traceback[0] == "  | Traceback (most recent call last):"
    assert traceback[-1] == "  | ValueError: [redacted] \\x1b[31m"


def test_a_warning_is_one_line_without_source(log):
    def warn(_logger):
        logging.captureWarnings(True)
        with warnings.catch_warnings():
            warnings.simplefilter("always")
            warnings.warn("coroutine 'send' was never awaited", RuntimeWarning, stacklevel=1)

    (line,) = log(Format.TEXT, warn).splitlines()
    assert line.endswith(": RuntimeWarning: coroutine 'send' was never awaited")


def test_json_is_one_object_a_line(log):
    (line,) = log(Format.JSON, crash).splitlines()
    record = json.loads(line)
    assert {key: record[key] for key in ("level", "logger", "message", "conversation", "thread")} == {
        "level": "warning", "logger": "agentserver.pump", "message": "it was [redacted]\x1b[31m", "conversation": "c1", "thread": "t1",
    }  # fmt: skip
    assert record["time"].endswith("+00:00")
    assert record["traceback"].endswith("ValueError: [redacted] \x1b[31m")
    assert "\x1b" not in line


def test_missing_fields_are_left_out(log):
    record = json.loads(log(Format.JSON, lambda logger: logger.error("plain", stack_info=False)))
    assert set(record) == {"time", "level", "logger", "message"}
    assert log(Format.TEXT, lambda logger: logger.error("plain")).endswith("agentserver.pump: plain\n")


def test_the_log_level_is_the_requested_one(log):
    assert log(Format.TEXT, lambda logger: logger.info("quiet")) == ""
    assert "quiet" in log(Format.TEXT, lambda logger: logger.info("quiet"), Level.INFO)


def test_requests_are_logged_at_the_default_level(log):
    access = logging.getLogger("agentserver.http.access")
    assert "GET /v1" in log(Format.TEXT, lambda _: access.info("GET /v1 200"))


def test_an_uncaught_exception_is_redacted(log, capsys):
    log(Format.TEXT, lambda logger: None)
    try:
        fail("hunter2")
    except ValueError as error:
        sys.excepthook(type(error), error, error.__traceback__)
    shown = capsys.readouterr().err
    assert "ValueError: [redacted]" in shown
    assert "hunter2" not in shown


def test_a_stack_is_shown(log):
    assert "Stack (most recent call last):" in log(
        Format.TEXT, lambda logger: logger.warning("x", stack_info=True)
    )


def test_a_live_view_needs_no_log_of_hops():
    def record(name, **more):
        return logging.makeLogRecord({"name": name, **more})

    assert not is_no_hop(record("agentserver.pump", event="refused"))
    assert is_no_hop(record("agentserver.pump"))
    assert is_no_hop(record("agentserver.pump", exc_text="Traceback"))
    assert is_no_hop(record("listeners.mine", event="refused"))


def test_a_live_view_hides_logs_of_conversations_and_shows_those_of_the_server(caplog):
    conversation = Conversation.begin("console", Moment(0.0, b""))
    event = AuditRecord(Event.REFUSED, 0.0, conversation.id, conversation.tree.root, "ada", "bob")
    LogSink([], list)((event,))
    logging.getLogger("agentserver.pump").warning("a listener returned bytes, which is deprecated")
    hop, said = caplog.records
    assert (hop.levelname, is_no_hop(hop)) == ("WARNING", False)
    assert is_no_hop(said)


BREAKS = ["\n", "\r", "\r\n", "\x0b", "\x0c", "\x1c", "\x85", "\u2028", "\u2029", "\x1b[1A\x1b[2K", "\x9b2K"]
FORGED = "2026-11-22T00:00:00.000+00:00 ERROR   agentserver.pump: forged"


@pytest.mark.parametrize("form", Format)
@pytest.mark.parametrize("mark", BREAKS)
def test_no_message_forges_a_record(log, form, mark):
    def write(logger):
        try:
            fail(f"it{mark}{FORGED}")
        except ValueError:
            logger.warning(
                "it%s", f"{mark}{FORGED}", exc_info=True, extra={"conversation": f"c{mark}{FORGED}"}
            )

    shown = log(form, write)
    lines = [line for line in shown.splitlines() if not line.startswith("  | ")]
    assert len(lines) == 1
    assert not lines[0].startswith(FORGED)
    assert not any(char in shown for char in "\x1b\x9b\r\x85\u2028")


def test_an_uncaught_exception_is_harmless(log, capsys):
    log(Format.TEXT, lambda logger: None)
    try:
        fail("\x1b[2J\u202e")
    except ValueError as error:
        sys.excepthook(type(error), error, error.__traceback__)
    assert "ValueError: \\x1b[2J\\u202e\n" in capsys.readouterr().err


def test_a_warning_about_a_blocked_loop_bypasses_a_prompt_that_writes_by_that_loop(log, monkeypatch):
    direct, by_the_loop = io.StringIO(), io.StringIO()
    monkeypatch.setattr(sys, "__stderr__", direct)

    def log_both(logger):
        monkeypatch.setattr(sys, "stderr", by_the_loop)
        logger.error("hunter2 is held", extra={"held": True})
        logger.error("it goes on")

    log(Format.TEXT, log_both)
    assert "[redacted] is held\n" in direct.getvalue()
    assert "it goes on" in by_the_loop.getvalue()
    assert "held" not in by_the_loop.getvalue()
