"""Where transactions run.

An engine is a module with a function ``open(**options)`` that returns a database object:
anything whose ``create_transaction()`` gives transactions with the methods and meanings
of the FoundationDB Python binding (API version 730). A setting names it by its path, so
that it may be yours.
"""
