"""A program that holds an SQLite database for itself for some seconds, as a backup tool may."""

import sqlite3
import sys
import time


def main() -> None:
    """Take the path and the seconds from the command line."""
    path, seconds = sys.argv[1], float(sys.argv[2])
    connection = sqlite3.connect(path, timeout=30, isolation_level=None)
    connection.execute("BEGIN EXCLUSIVE")
    time.sleep(seconds)
    connection.execute("ROLLBACK")


if __name__ == "__main__":
    main()
