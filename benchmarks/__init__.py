"""Measured work: the product's own queue under load, one JSON line per figure."""
