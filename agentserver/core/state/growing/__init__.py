"""State that grows by what is new: a step makes it longer without touching what is there."""
