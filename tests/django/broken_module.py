"""A module of a project that cannot be imported."""

raise RuntimeError("it is broken")
