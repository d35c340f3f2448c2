"""Workers elsewhere: tickets in a broker's queue, and the talk between a server and the worker that takes one. Internal."""
