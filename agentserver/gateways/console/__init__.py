"""The console for people and scripts. Internal."""
