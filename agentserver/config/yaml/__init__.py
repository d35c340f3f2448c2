"""YAML files as plain values, each with its line. Internal."""
