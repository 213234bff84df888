"""The only input and output: one module for each port and technology, named `<port>_<technology>`."""
