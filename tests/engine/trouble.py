"""What the chaos can do to something."""

from random import Random
from typing import Protocol


class Trouble(Protocol):
    """Makes its trouble, chosen by the dice, and says which."""

    __name__: str

    def __call__(self, dice: Random, /) -> str: ...
