"""Renders audit records as text, HTML and JSON, with redaction. Internal."""
