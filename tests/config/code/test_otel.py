"""``otel:`` in the YAML, its environment variables, and the errors of either."""

from __future__ import annotations

import pytest

from tests.config.conftest import ONE

BASE, WHOLE = "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"


def given(project, environ):
    project.environ = environ
    return project


def test_nothing_is_exported_unless_the_file_or_the_environment_asks_for_it(project):
    assert project.load(ONE).otel is None


def test_the_environment_alone_is_enough(project):
    found = given(project, {BASE: "http://c:4318/"}).load(ONE).otel
    assert (found.url, found.declared, found.sample, found.content) == (
        "http://c:4318/v1/traces",
        False,
        1.0,
        False,
    )
    assert found.resource == {"service.name": project.load(ONE).name}
    assert given(project, {BASE: "http://c", "OTEL_SDK_DISABLED": "true"}).load(ONE).otel is None
    assert given(project, {BASE: "nonsense"}).load(ONE).otel is None


def test_the_file_says_where_and_how_much(project):
    said = "otel: {endpoint: 'http://c:4318', sample: 0.25, content: true, redact: [iban]}\n"
    found = given(project, {BASE: "http://other"}).load(ONE + said).otel
    assert (found.url, found.declared, found.sample, found.content, found.redact) == (
        "http://c:4318/v1/traces", True, 0.25, True, ("iban",),
    )  # fmt: skip


def test_an_address_of_traces_is_taken_whole(project):
    found = given(project, {BASE: "http://a", WHOLE: "http://b/in"}).load(ONE + "otel: {}\n").otel
    assert (found.url, found.declared) == ("http://b/in", True)


@pytest.mark.parametrize(
    ("environ", "said", "expected"),
    [
        ({BASE: "http://c:4318/"}, "", "http://c:4318/v1/metrics"),
        ({BASE: "http://other"}, "otel: {endpoint: 'http://c:4318'}\n", "http://c:4318/v1/metrics"),
        ({BASE: "http://a", "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "http://b/in"}, "", "http://b/in"),
        ({WHOLE: "http://b/in"}, "", ""),
        ({BASE: "http://a", "OTEL_METRICS_EXPORTER": "none"}, "", ""),
    ],
)
def test_metrics_of_models_go_to_the_collector_of_spans_unless_the_environment_says_otherwise(
    project, environ, said, expected
):
    assert given(project, environ).load(ONE + said).otel.metrics == expected


@pytest.mark.parametrize(
    ("said", "environ", "expected"),
    [
        ("{endpoint: 'http://c'}", {}, ""),
        ("{endpoint: 'http://c', events: true}", {}, "http://c/v1/logs"),
        ("{endpoint: 'http://c', events: true}", {"OTEL_LOGS_EXPORTER": "none"}, ""),
        (
            "{events: true}",
            {BASE: "http://c", "OTEL_EXPORTER_OTLP_LOGS_ENDPOINT": "http://d/l"},
            "http://d/l",
        ),
    ],
)
def test_events_go_to_the_collector_where_they_are_asked_for(project, said, environ, expected):
    assert given(project, environ).load(f"{ONE}otel: {said}\n").otel.events == expected


def test_headers_come_from_the_environment_and_are_secrets(project):
    environ = {
        BASE: "http://c",
        "OTEL_EXPORTER_OTLP_HEADERS": "authorization=Bearer%20hunter2hunter2, x=1,nonsense",
        "OTEL_EXPORTER_OTLP_TRACES_HEADERS": "x=2",
        "OTEL_RESOURCE_ATTRIBUTES": "deployment.environment.name=test,service.name=desk",
        "OTEL_EXPORTER_OTLP_CERTIFICATE": "/ca.pem",
    }
    organism = given(project, environ).load(ONE)
    assert organism.otel.headers == {"authorization": "Bearer hunter2hunter2", "x": "2"}
    assert organism.otel.resource == {"deployment.environment.name": "test", "service.name": "desk"}
    assert organism.otel.certificate == "/ca.pem"
    assert "hunter2" not in repr(organism)
    assert organism.secrets.redact("say Bearer hunter2hunter2") == "say [redacted]"


@pytest.mark.parametrize(
    ("said", "fault"),
    [
        ("", f"7: otel: has no endpoint, and the environment has no {BASE}"),
        ("{endpoint: 'ftp://x'}", "7: otel.endpoint: is an address that begins with http:// or https://"),
        ("{endpoint: 'http://me:pass@x'}", "7: otel.endpoint: is an address that begins with http:// or https://"),
        ("{sample: 2, endpoint: 'http://c'}", "7: otel.sample: must be at most 1"),
        ("{headers: {a: b}, endpoint: 'http://c'}", '7: otel.headers: unknown key "headers"'),
        ("{content: maybe, endpoint: 'http://c'}", "7: otel.content: true or false was expected"),
    ],
)  # fmt: skip
def test_an_error_is_reported_with_its_line(project, said, fault):
    (found,) = project.findings(ONE + f"otel: {said}\n")
    assert fault in str(found)
