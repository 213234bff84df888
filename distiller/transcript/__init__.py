"""Room 1: bytes of session files in, finished turns out."""
