"""Tests of Django Tasks on fdbqueue."""
