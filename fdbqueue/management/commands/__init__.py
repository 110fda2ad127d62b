"""The commands, each found by the name of its file."""
