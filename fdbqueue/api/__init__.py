"""The REST API: queues over HTTP, on Django REST framework."""
