"""The memory of requests already seen, so that a copied one is refused, also after a restart."""

from pathlib import Path

from agent.durable import transaction
from agent.exceptions import Overloaded, Replayed, Stale
from agent.protocol import MAX_AGE_MS, MAX_AHEAD_MS

# A request is fresh for as long as both windows together; remembered for ten times that.
KEEP_MS = 10 * (MAX_AGE_MS + MAX_AHEAD_MS)
MOST = 500_000

_SCHEMA = """
CREATE TABLE IF NOT EXISTS nonce (nonce TEXT PRIMARY KEY, issued_at INTEGER NOT NULL) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS nonce_issued_at ON nonce (issued_at);
CREATE TABLE IF NOT EXISTS forgotten (until INTEGER NOT NULL);
INSERT INTO forgotten SELECT 0 WHERE NOT EXISTS (SELECT 1 FROM forgotten);
"""


class Nonces:
    """Nonces on disk, shared by all processes of the agent."""

    def __init__(self, state_dir: Path, most: int = MOST) -> None:
        """Take the state folder and how many nonces may be remembered at once."""
        self._path = state_dir / "nonces.sqlite3"
        self._most = most

    def prepare(self) -> None:
        """Make the file if it is not there."""
        with transaction(self._path) as connection:
            for statement in _SCHEMA.strip().splitlines():
                connection.execute(statement)

    def spend(self, nonce: str, issued_at: int, now_ms: int) -> None:
        """Remember the nonce. Raises Replayed if it is known, Stale or Overloaded if that cannot be told."""
        with transaction(self._path) as connection:
            connection.execute("UPDATE forgotten SET until = max(until, ?)", (now_ms - KEEP_MS,))
            connection.execute("DELETE FROM nonce WHERE issued_at < ?", (now_ms - KEEP_MS,))
            (until,) = connection.execute("SELECT until FROM forgotten").fetchone()
            # The clock went back past what is forgotten: a copy could not be told from the first.
            if issued_at < until:
                raise Stale(
                    f"clock skew: the agent's clock was ahead before; when it is right, remove {self._path}"
                )
            (count,) = connection.execute("SELECT count(*) FROM nonce").fetchone()
            if count >= self._most:
                raise Overloaded("too many requests within the time that they must be remembered")
            added = connection.execute("INSERT OR IGNORE INTO nonce VALUES (?, ?)", (nonce, issued_at))
            if added.rowcount == 0:
                raise Replayed
