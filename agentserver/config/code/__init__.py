"""Code of the project that an organism names: handlers, payloads, settings. Internal."""
