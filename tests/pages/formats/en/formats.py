"""Every digit is a group: even a small number shows whether it was written for people."""

DECIMAL_SEPARATOR = "§"
THOUSAND_SEPARATOR = "¤"
NUMBER_GROUPING = 1
