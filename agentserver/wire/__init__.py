"""The wire: envelopes, and payload text that a model wrote, as bytes and as parsed elements. Internal."""
