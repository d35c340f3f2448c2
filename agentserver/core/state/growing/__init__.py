"""Internal: state that grows by what is new. A step makes it longer without touching what is there."""
