"""What the read-only pages show, made ready for their templates."""
