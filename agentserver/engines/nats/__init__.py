"""The replicated log on NATS JetStream, with the extra ``nats``. Internal."""
