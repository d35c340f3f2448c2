from pathlib import Path

from agentserver.config.findings import (
    MAX_FINDINGS,
    MAX_TEXT,
    ConfigError,
    ConfigMistake,
    Mistakes,
    Severity,
    SourceSpan,
    did_you_mean,
    escape_printable,
    format_path,
)
from agentserver.config.yaml.secrets import Secrets
from agentserver.remedies.configuration import ConfigCode
from tests.config.conftest import ONE

A, B = Path("a.yaml"), Path("b.yaml")


def test_how_a_finding_reads():
    code = ConfigCode.NAME.value
    finding = ConfigMistake(
        code,
        Severity.ERROR,
        A,
        16,
        "listeners[2].peers[0]",
        'unknown listener "shoutr"',
        'did you mean "shouter"?',
    )
    assert (
        str(finding)
        == 'a.yaml:16: listeners[2].peers[0]: unknown listener "shoutr" (did you mean "shouter"?)'
    )
    assert str(ConfigMistake(code, Severity.WARNING, A, 1, "", "odd")) == "a.yaml:1: warning: odd"
    assert finding.format_with_code() == f"{finding} [config:name]"
    assert str(ConfigError((finding, finding))) == f"{finding}\n{finding}"


def test_paths():
    assert format_path(("listeners", 2, "peers", 0)) == "listeners[2].peers[0]"
    assert format_path(()) == ""


def test_suggestions_ignore_case_and_stay_silent_when_nothing_is_near():
    assert did_you_mean("Shoutr", ["shouter", "logger"]) == 'did you mean "shouter"?'
    assert did_you_mean("zebra", ["shouter"]) == ""
    for known in (["send", "Send"], ["Send", "send"]):  # a function and its payload class differ only in case
        assert did_you_mean("sned", known) == 'did you mean "send"?'
    assert did_you_mean("x" * 10_000, ["shouter"]) == ""


def test_findings_come_by_file_and_line_and_once_for_each_value():
    report = Mistakes()
    report.add_error(ConfigCode.VALUE, SourceSpan(B, 1, "x"), "b1")
    report.add_error(ConfigCode.VALUE, SourceSpan(A, 9), "a9")
    report.add_error(ConfigCode.VALUE, SourceSpan(A, 2, "x"), "a2")
    report.add_error(ConfigCode.VALUE, SourceSpan(A, 2, "x"), "again")
    report.add_warning(ConfigCode.VALUE, SourceSpan(A, 2, "x"), "warned")
    report.add_error(ConfigCode.VALUE, SourceSpan(A, 9), "no path, so another one")
    report.add_error(ConfigCode.VALUE, SourceSpan(Path("c.yaml"), 1), "c1")
    messages = [finding.message for finding in report.settle([A, B], Secrets())]
    assert messages == ["a2", "warned", "a9", "no path, so another one", "b1", "c1"]


def test_findings_are_bounded_in_number():
    report = Mistakes()
    for line in range(MAX_FINDINGS + 5):
        report.add_warning(ConfigCode.VALUE, SourceSpan(A, line + 1), "x")
    findings = report.settle([A], Secrets())
    assert len(findings) == MAX_FINDINGS + 1
    assert (findings[-1].message, findings[-1].severity) == ("and 5 more findings", Severity.WARNING)
    report.add_error(ConfigCode.VALUE, SourceSpan(A, 999), "x")
    assert report.settle([A], Secrets())[-1].severity is Severity.ERROR


def test_findings_show_neither_secrets_nor_control_characters():
    report = Mistakes()
    report.add_error(ConfigCode.VALUE, SourceSpan(A, 1, "hunter22"), "a\x1b[2J hunter22\n", "hunter22?")
    (finding,) = report.settle([A], Secrets.of(["hunter22"]))
    assert (finding.path, finding.message, finding.suggestion) == (
        "[redacted]",
        "a\\x1b[2J [redacted]\\n",
        "[redacted]?",
    )


def test_a_long_text_is_cut():
    assert escape_printable("x" * MAX_TEXT) == "x" * MAX_TEXT
    assert escape_printable("x" * (MAX_TEXT + 1)) == "x" * (MAX_TEXT - 3) + "..."


TRIGGERS = """
http: {}
hooks:
  - {name: first, listener: greeter, signature: gitlab, secret: "${SECRET}"}
  - {name: second, listener: greter, signature: github, secret: "${SECRET}"}
inbox:
  - {name: first, folder: ../outside, listener: greeter}
  - {name: second, folder: inbox, listener: greter}
notify:
  - {name: first}
  - {name: second, command: [page], listeners: [greter]}
schedules:
  - {name: first, listener: greeter, every: soon, fields: {name: Ada}}
  - {name: second, listener: greter, every: 1h, fields: {name: Ada}}
"""


def test_a_faulty_entry_of_a_list_hides_no_finding_about_its_neighbour(project):
    project.environ["SECRET"] = "canary-7781"
    errors = project.errors(ONE + TRIGGERS)
    for key, below in {"hooks": "", "inbox": "", "notify": "s[0]", "schedules": ""}.items():
        assert any(f": {key}[0]" in each for each in errors), errors
        assert any(f': {key}[1].listener{below}: unknown listener "greter"' in each for each in errors), (
            errors
        )
