"""Formats of a country whose numbers no program reads."""
