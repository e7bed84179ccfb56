"""The kinds of names and numbers that declarations are made of."""

from typing import Annotated

from agent.declarations.schema import Between, Matching

# An owner's uid is derived from it, so it must leave room below the largest uid.
SiteId = Annotated[int, Between(1, 2**31 - 1)]

_LABEL = r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
DomainName = Annotated[
    str,
    Matching(
        rf"(?:{_LABEL}\.)+(?![0-9]+\Z){_LABEL}",
        "a domain name in lower-case ASCII (IDNA form) without a trailing dot",
        253,
    ),
]

BackupCode = Annotated[
    str,
    Matching(r"BK-[0-9]{8}-[0-9]{6}(?:-[1-9][0-9]{0,5})?", "a backup code such as BK-20260813-170001", 32),
]

StoreName = Annotated[
    str,
    Matching(r"[a-z][a-z0-9_-]{0,31}", "the name of a store in the agent's policy, such as archive", 32),
]

# A name never begins with a dash: it may become an argument of a tool.
DatabaseName = Annotated[
    str,
    Matching(r"[A-Za-z0-9_][A-Za-z0-9_$.-]{0,63}", "letters, digits, _, $, . or -, not beginning with -", 64),
]

DatabaseEngine = Annotated[str, Matching(r"mariadb|sqlite", "mariadb or sqlite", 16)]

Sha256OrNothing = Annotated[
    str, Matching(r"(?:[0-9a-f]{64})?", "64 hexadecimal digits, or an empty text", 64)
]

JOB_UUID = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
REQUEST_ID = rf"{JOB_UUID}:[0-9]{{1,10}}:[a-z0-9][a-z0-9_.-]{{0,63}}"

JobUuid = Annotated[str, Matching(JOB_UUID, "the UUID of a job in lower case", 36)]
RequestId = Annotated[str, Matching(REQUEST_ID, "a request id, job UUID:epoch:step", 128)]
