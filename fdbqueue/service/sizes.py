"""How much an operation and a transaction may hold, and for how long a lease lasts by default.

FoundationDB allows transactions of 10,000,000 bytes, values of 100,000 and keys of 10,000, and
recommends transactions of less than 1 MB.
"""

from __future__ import annotations

#: How many times a key is sent when it is set, cleared or read: in the mutation (twice for a
#: clear) and twice in the conflict range.
SENT_BY_SET, SENT_BY_CLEAR, SENT_BY_READ = 3, 4, 2
#: FoundationDB's limit for a key.
MAX_KEY_BYTES = 10_000
#: The value of one key, which FoundationDB limits: a longer one is stored in several.
CHUNK_BYTES = 100_000
#: The longest value, once encoded: a larger one belongs into a store of files.
MAX_VALUE_BYTES = 1_000_000
#: The most stored bytes that one operation returns, or one push takes.
MAX_RETURNED_BYTES = 5_000_000
#: The most bytes that one transaction sends, keys and conflict ranges included.
MAX_SENT_BYTES = 9_000_000
#: The most bytes that a lease sends to acknowledge others in its transaction.
MAX_ENDS_BYTES = 8_000_000
#: The most bytes of each transaction, if a long piece of work takes several.
STEP_BYTES = 1_000_000
#: The most items that one operation returns or changes.
MAX_ITEMS_A_CALL = 10_000
#: The longest lease or delay: ten years.
MAX_SECONDS = 315_360_000
#: The longest name of a worker.
MAX_WORKER_CHARACTERS = 200
#: How much of a reason is kept, with a dead letter, a failed attempt or a pause.
MAX_REASON_CHARACTERS = 1_000
#: The items on each page that an iteration over a queue reads.
ITERATED_ITEMS = 500
#: The most shards that a queue may have.
MAX_SHARDS = 100
#: The longest unique key, in UTF-8.
MAX_UNIQUE_BYTES = 1_000
#: The longest idempotency key.
MAX_IDEMPOTENCY_CHARACTERS = 1_000
#: Responses of idempotency keys are kept for a day by default, for at most a year.
DEFAULT_RESPONSE_SECONDS, MAX_RESPONSE_SECONDS = 86_400, 31_536_000
#: For how long an item is leased, unless the call says otherwise.
LEASE_SECONDS = 60
