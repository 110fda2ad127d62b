"""The limits of operations and transactions, each said once.

FoundationDB takes transactions of 10,000,000 bytes, values of 100,000 and keys of 10,000, and
advises transactions of under 1 MB.
"""

from __future__ import annotations

#: How often a key's bytes count when it is set, cleared, or read: in the mutation, which names a
#: cleared key twice, and in the conflict range.
SENT_BY_SET, SENT_BY_CLEAR, SENT_BY_READ = 3, 4, 2
#: FoundationDB's limit of a key.
MAX_KEY_BYTES = 10_000
#: A longer value is stored in several keys.
MAX_VALUE_BYTES = 100_000
#: The stored bytes that one operation returns, or one push takes.
MAX_RETURNED_BYTES = 5_000_000
#: The bytes that one transaction sends, its keys and conflict ranges included.
MAX_SENT_BYTES = 9_000_000
#: The bytes of one of several transactions that share a long piece of work.
BATCH_BYTES = 1_000_000
#: The items that one operation returns or changes.
MAX_ITEMS = 10_000
#: The longest lease or delay: ten years.
MAX_SECONDS = 315_360_000
#: The items of each page that an iteration over a queue reads.
ITERATED_ITEMS = 500
