"""Hygiene rules for JSON Schema. Internal."""
