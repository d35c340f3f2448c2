"""The care of a journal's file by operators: shrinking, copying, answering beside a server. Internal."""
