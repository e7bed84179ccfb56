"""Compressed streams into and out of a store, hashed on the way, every exit code checked."""

import hashlib
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from agent.exceptions import ActionFailed
from agent.owner import Owner
from agent.paths import open_regular
from agent.runner import Argument, Finished, Tool, has_tool

CHUNK = 1024 * 1024


@dataclass(frozen=True)
class Compression:
    """A compressor by its name, the ending of its files, and its two commands."""

    name: str
    suffix: str
    compress: tuple[str, ...]
    decompress: tuple[str, ...]


ZSTD = Compression("zstd", ".zst", ("zstd", "-q", "-3", "-T0", "-c"), ("zstd", "-q", "-d", "-c"))
GZIP = Compression("gzip", ".gz", ("gzip", "-c"), ("gzip", "-d", "-c"))
BY_NAME = {compression.name: compression for compression in (ZSTD, GZIP)}


def best_compression() -> Compression:
    """Give zstd where it is installed, else gzip."""
    return ZSTD if has_tool("zstd") else GZIP


@dataclass(frozen=True)
class Stored:
    """A file that was written to a store: its name, size in bytes, and digest."""

    name: str
    size: int
    sha256: str


def store_output(
    arguments: Sequence[Argument], target: Path, compression: Compression, *, owner: Owner | None = None
) -> tuple[Stored, Finished]:
    """Run a tool and store its output compressed; give the file and how the tool ended, not yet judged."""
    source = Tool(arguments, owner=owner)
    try:
        stored = store_stream(source.output, target, compression)
    except BaseException:
        # Nobody reads its output any more: it would wait for ever.
        source.stop()
        raise
    return stored, source.finish()


def store_stream(source: IO[bytes], target: Path, compression: Compression) -> Stored:
    """Store what a file or pipe gives, compressed and synced. Raises ActionFailed."""
    compressor = Tool(compression.compress, stdin=source)
    descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    digest, size = hashlib.sha256(), 0
    try:
        with os.fdopen(descriptor, "wb") as file:
            while chunk := compressor.output.read(CHUNK):
                file.write(chunk)
                digest.update(chunk)
                size += len(chunk)
            file.flush()
            os.fsync(file.fileno())
    except BaseException as error:
        compressor.stop()
        if isinstance(error, OSError):
            raise ActionFailed(f"cannot write {target.name}: {error.strerror}") from error
        raise
    compressor.finish().require()
    return Stored(target.name, size, digest.hexdigest())


@contextmanager
def opened(path: Path, compression: Compression) -> Iterator[IO[bytes]]:
    """Give the decompressed stream of a stored file. Raises ActionFailed at its end where it was damaged."""
    with open_regular(path) as file:
        tool = Tool(compression.decompress, stdin=file)
    try:
        yield tool.output
        while tool.output.read(CHUNK):
            pass
    except BaseException:
        tool.stop()
        raise
    tool.finish().require()


def sha256_of(path: Path) -> str:
    """Read a stored file and give its digest."""
    digest = hashlib.sha256()
    with open_regular(path) as file:
        while chunk := file.read(CHUNK):
            digest.update(chunk)
    return digest.hexdigest()
