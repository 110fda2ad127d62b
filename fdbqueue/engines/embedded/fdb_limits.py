"""FoundationDB's limits, from its "Known Limitations"."""

from __future__ import annotations

# How queues keep within them: service/sizes.py

KEY_SIZE_LIMIT = 10_000  # bytes
VALUE_SIZE_LIMIT = 100_000  # bytes
TRANSACTION_SIZE_LIMIT = 10_000_000  # bytes
TRANSACTION_LIFE_SECONDS = 5.0
VERSIONS_PER_SECOND = 1_000_000
MAX_WATCHES = 10_000  # outstanding, each database

#: The end of the keys a transaction may use, and with access to the system keys.
KEYS_END = b"\xff"
SYSTEM_KEYS_END = b"\xff\xff"
#: A longer key is not looked for: the client knows that there is none.
READ_KEY_SIZE_LIMIT = 10_008
