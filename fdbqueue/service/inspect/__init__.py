"""Figures of many queues, and searches through one, for pages and commands.

- :mod:`overview`: counts, ends and ages of queues, read side by side.
- :mod:`scan`: a search through the items of a queue, within a time limit.
"""
