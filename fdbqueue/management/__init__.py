"""The manage.py commands."""
