"""Tests of what Django's Tasks API promises, over several backends.

``kit`` has the tests, for any backend; ``docs/task-backends.md`` says how to run them over one.
Here they run over Django's own backends, over django-tasks-db, and over backends that are wrong on
purpose, whose defects the kit must find; ``tests/tasks/test_conformance.py`` runs them over ours.

A backend passes what it claims; what it fails although it should pass it is in the
``known_failures`` of its test case, with the reason.
"""
