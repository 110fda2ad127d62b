"""Thin commands: parse, one call of the service, print."""
