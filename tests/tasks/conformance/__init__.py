"""The conformance kit over several backends, and over backends that are wrong on purpose.

A backend passes what it claims; what it fails although it should pass it is in the
``known_failures`` of its test case, with the reason.
"""
