"""The agent that a listener with a model is: one call of the model for each message that it is given.

Refuses to know providers and the YAML.

Internal.
"""
