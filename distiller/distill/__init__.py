"""Room 2: a finished turn in, verified claims out."""
