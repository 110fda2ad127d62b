"""The demo: queues with an hour of history, and life in them while ``manage.py demo`` serves.

Each queue has a flow (:mod:`flows`, :mod:`queues`): what is pushed to it, and what its workers do.
:mod:`past` lets the flows work through an hour under an earlier clock, so that the charts have
something to show at once. :mod:`life` lets them go on, in threads, for as long as :mod:`server`
serves. Tasks are enqueued and run by :mod:`jobs`. All of it uses queues as any project would; only
the clock is set with a tool for tests.
"""
