"""Its English."""
