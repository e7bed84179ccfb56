"""The one door for text and data from outside. Nothing in it raises, whatever it is given."""

from audit.masking import register_secret
from audit.plain_data import clean_data
from audit.plain_text import clean_text, mask_secrets

__all__ = ["clean_data", "clean_text", "mask_secrets", "register_secret"]
