"""The documentation: each of its code blocks is run, and what it says is compared."""
