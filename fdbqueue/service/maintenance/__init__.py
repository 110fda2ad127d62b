"""Check a queue, and correct it.

- :mod:`census`: counts a queue item by item, and finds what has expired.
- :mod:`recount`: corrects the counts of a queue that other programs write to.
"""
