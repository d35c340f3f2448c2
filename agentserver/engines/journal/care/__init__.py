"""The tables of a journal beside its steps: answers, names, what is set aside, the calendar, ageing out. Internal."""
