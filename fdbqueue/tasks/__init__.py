"""Django Tasks on fdbqueue."""
