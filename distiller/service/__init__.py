"""Use cases: rooms and ports joined; no input or output, no threads, no clock of their own."""
