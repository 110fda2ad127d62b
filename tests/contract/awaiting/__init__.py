"""The operations for event loops."""
