"""JSON from other parties: limits are counted before parsing, and there is one parser. Internal."""
