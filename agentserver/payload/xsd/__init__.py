"""The schemas of payloads: written from a field table, or read from a hand-written file. Internal."""
