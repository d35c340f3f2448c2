"""The claims of the pump on conversations: had, taken up, given back and lost. Internal."""
