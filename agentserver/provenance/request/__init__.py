"""The request of the principal: its words, indexed, and which of them are orders. Internal."""
