"""FIFO and priority queues in FoundationDB for Django projects."""
