"""Workers on other machines: their calls, the routes by which they come, and their own side. Internal."""
