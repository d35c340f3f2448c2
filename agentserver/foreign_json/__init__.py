"""JSON that somebody else wrote: counted before it is read, and read in one place. Internal."""
