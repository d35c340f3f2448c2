"""The settings of OpenTelemetry for an organism: what ``otel:`` says, and the variables that stand in for it.

Owns which variable of the environment stands for which key. What collectors ask for as a proof comes from there alone.
Refuses to know spans.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from agentserver.config.keys.otel import OtelEntry
from agentserver.config.organism import Otel
from agentserver.remedies.configuration import ConfigCode

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from agentserver.config.findings import Mistakes
    from agentserver.config.validation import Parsed

BASE, WHOLE = "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
HEADERS = ("OTEL_EXPORTER_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_TRACES_HEADERS")
CERTIFICATES = ("OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE", "OTEL_EXPORTER_OTLP_CERTIFICATE")
TRACES = "/v1/traces"
METRICS, METRICS_WHOLE = "/v1/metrics", "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT"


def read_otel(main: Parsed, environ: Mapping[str, str], report: Mistakes) -> Otel | None:
    """The settings of OpenTelemetry; None where neither the file nor the environment wants that."""
    data = main.document.data
    if "otel" in main.faulty or environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return None
    asked = "otel" in data
    entry = OtelEntry.model_validate(data["otel"] or {}) if asked else OtelEntry()
    url = _url(entry, environ)
    if not url:
        if asked:
            why = f"has no endpoint, and the environment has no {BASE}"
            report.error(
                ConfigCode.MISSING, main.document.where(("otel",)), why, "endpoint: http://localhost:4318"
            )
        return None
    if urlsplit(url).scheme not in {"http", "https"} or not urlsplit(url).hostname:
        if asked:
            report.error(ConfigCode.VALUE, main.document.where(("otel",)), f"{BASE} is no address of HTTP")
        return None
    headers = dict(pair for name in HEADERS for pair in _pairs(environ.get(name, "")))
    resource = dict(_pairs(environ.get("OTEL_RESOURCE_ATTRIBUTES", "")))
    resource["service.name"] = environ.get("OTEL_SERVICE_NAME") or resource.get("service.name") or main.name
    certificate = next(filter(None, map(environ.get, CERTIFICATES)), "") or ""
    return Otel(
        url,
        headers,
        certificate,
        resource,
        entry.sample,
        entry.content,
        tuple(entry.redact),
        asked=asked,
        metrics=_metrics(entry, environ),
    )


def proofs(environ: Mapping[str, str]) -> list[str]:
    """The values of the headers that the environment names, which nobody is to read."""
    return [value for name in HEADERS for _, value in _pairs(environ.get(name, ""))]


def _url(entry: OtelEntry, environ: Mapping[str, str]) -> str:
    if entry.endpoint is None and environ.get(WHOLE):
        return environ[WHOLE]
    base = entry.endpoint or environ.get(BASE, "")
    return base and base.rstrip("/") + TRACES


def _metrics(entry: OtelEntry, environ: Mapping[str, str]) -> str:
    """The address for metrics; none where the environment names one for spans alone, or has metrics off."""
    if environ.get("OTEL_METRICS_EXPORTER", "").strip().lower() == "none":
        return ""
    if entry.endpoint is None and environ.get(METRICS_WHOLE):
        return environ[METRICS_WHOLE]
    base = entry.endpoint or environ.get(BASE, "")
    return base and base.rstrip("/") + METRICS


def _pairs(text: str) -> Iterator[tuple[str, str]]:
    """The pairs of ``name=value,name=value``, whose values are percent-encoded; what is none is left out."""
    for each in text.split(","):
        name, equals, value = each.partition("=")
        if equals and name.strip() and (name + value).isprintable():
            yield name.strip(), unquote(value.strip())
