"""Ways in: a request becomes one use case, its result is shown."""
