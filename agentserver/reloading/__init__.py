"""Another edition of an organism that runs: what may change, and what is open for it. Internal."""
