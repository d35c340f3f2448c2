"""The console: a person, or a script, talks to an organism. Internal."""
