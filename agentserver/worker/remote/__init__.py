"""Workers elsewhere: tickets in a broker's queue, and the talk between a server and who takes one. Internal."""
