"""The wire format: envelopes and payload text, as bytes and as parsed elements. Internal."""
