"""The organism as a client: one supervised connection for each server, one listener for each tool. Internal."""
