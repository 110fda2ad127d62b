"""A database whose commits take effect without saying so."""

from __future__ import annotations


class Unsure:
    """A database whose commits take effect and report that it is not known."""

    def __init__(self, database, error):
        self._database = database
        self._error = error

    def create_transaction(self):
        transaction = self._database.create_transaction()
        commit = transaction.commit
        outer = self

        class Commit:
            def wait(self):
                commit().wait()
                if transaction.get_committed_version() != -1:  # it has written
                    raise outer._error

        class Wrapped:
            def commit(self):
                return Commit()

            def __getattr__(self, name):
                return getattr(transaction, name)

            def __getitem__(self, key):
                return transaction[key]

            def __setitem__(self, key, value):
                transaction[key] = value

        return Wrapped()
