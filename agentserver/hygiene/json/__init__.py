"""The requirements on a JSON Schema. Internal."""
