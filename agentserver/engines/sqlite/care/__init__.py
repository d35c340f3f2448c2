"""The care of a journal by operators: shrinking, copying, answers, conversations set aside. Internal."""
