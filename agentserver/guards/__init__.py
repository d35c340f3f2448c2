"""Rules about messages, one file each. Their order is the tuple that the assembly builds."""
