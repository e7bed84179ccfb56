"""What a slot has begun of the jobs it was handed, in memory that its supervisor sees after its death."""

import mmap
import os
import struct

_FORM = struct.Struct("i")
NONE = -1


class Ledger:
    """One number shared by two processes: the position of the job that was begun last, NONE at first."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self._memory = mmap.mmap(descriptor, _FORM.size)

    @property
    def begun(self) -> int:
        """Give the position, in the order of the hand, of the job that was begun last."""
        (position,) = _FORM.unpack(self._memory[: _FORM.size])
        return int(position)

    @begun.setter
    def begun(self, position: int) -> None:
        self._memory[: _FORM.size] = _FORM.pack(position)

    def close(self) -> None:
        """Let go of the memory."""
        self._memory.close()
        os.close(self.descriptor)


def new_ledger() -> Ledger:
    """Make the memory. Its descriptor is handed to the slot."""
    descriptor = os.memfd_create("chp-slot", os.MFD_CLOEXEC)
    os.ftruncate(descriptor, _FORM.size)
    ledger = Ledger(descriptor)
    ledger.begun = NONE
    return ledger
