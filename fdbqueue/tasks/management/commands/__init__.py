"""The management commands of tasks."""
