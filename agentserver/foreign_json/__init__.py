"""JSON of other parties: counted before it is parsed, and parsed in one place. Internal."""
