"""The template tags of the pages."""
