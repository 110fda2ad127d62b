"""The management command of the outbox."""
