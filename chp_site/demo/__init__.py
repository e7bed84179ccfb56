"""`make demo` and `make demo-check`: the whole road on one machine, in a folder of its own."""
