"""Hygiene rules for XSD. Internal."""
