"""Telemetry of a server for programs that watch many: metrics for Prometheus, spans for OpenTelemetry. Internal."""
