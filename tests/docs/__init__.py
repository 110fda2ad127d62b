"""The documentation: its code blocks are run, and its references compared with the code."""
