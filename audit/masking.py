"""Secrets in text from outside: found by their value, and by the shapes that they usually have."""

import base64
import json
import re
import threading
from urllib.parse import quote

MASK = "***"
SHORTEST_SECRET = 6

# The first line may end any name (PGPASSWORD), the others only as a word of their own (not bypass).
_NAME = (
    r"(?:password|passwd|passphrase|secret"
    r"|(?<![a-z])(?:pass|pwd|token|credentials?|cookie|session_?id|signature"
    r"|(?:api|access|auth|private|secret|encryption)[_-]?key))"
)
SECRET_NAME = re.compile(rf"{_NAME}$", re.IGNORECASE)

_PRIVATE_KEY = r"-----BEGIN ([A-Z0-9 ]{0,40}PRIVATE KEY)-----.*?(?:-----END \1-----|\Z)"
_HEADER = (
    r"(authorization\\?[\"']?[ \t]*[:=][ \t]*\\?[\"']?(?:(?:basic|bearer|digest|token)[ \t]+)?)[^\s\"'\\]+"
)
_COOKIE = r"(cookie[ \t]*:[ \t]*)[^\r\n]+"
_BEARER = r"(\bbearer[ \t]+)[\w.~+/=-]{8,}"
_URL = r"(\b[a-z][a-z0-9+.-]{0,30}://[^\s/:@\"']{0,200}:)[^\s/\"']{1,500}@"
_SQL = r"(\bidentified[ \t]+by[ \t]+(?:password[ \t]+)?)(?:'[^']*'?|\"[^\"]*\"?)"
# name=value, name: "value", also inside a quoted text; a quotation mark ends at its like.
_ASSIGNED = (
    rf"({_NAME}\\?[\"']?[ \t]*[=:][ \t]*(\\?[\"'])?)"
    r"(?(2)(?:(?!\2)(?:[^\n\\]|\\[^\n]))*|[^\s,;&\"'\\]+)"
)
_OPTION = rf"((?<!-)--(?=[a-z])[a-z-]{{0,40}}?{_NAME}[ \t]+)[^\s-]\S*"

_SHAPES = (
    (re.compile(_PRIVATE_KEY, re.DOTALL), MASK),
    (re.compile(_URL, re.IGNORECASE), rf"\1{MASK}@"),
    *(
        (re.compile(shape, re.IGNORECASE), rf"\1{MASK}")
        for shape in (_HEADER, _COOKIE, _BEARER, _SQL, _ASSIGNED, _OPTION)
    ),
)

# Every shape holds one of these; most texts hold none and are spared the shapes.
_HINT = re.compile(r"[=:]|bearer|identified|--", re.IGNORECASE)

_registered: set[str] = set()
_values: re.Pattern[str] | None = None
_lock = threading.Lock()


def register_secret(value: str | bytes) -> None:
    """Have this value masked wherever it appears, also as written in JSON, in a URL, in hex or in base64.

    Called at start for every secret that the process holds. Values under SHORTEST_SECRET bytes are passed
    over: masking them would hide ordinary words.
    """
    global _values  # noqa: PLW0603 - one register per process, filled at its start
    raw = value if isinstance(value, bytes) else value.encode("utf-8", "surrogatepass")
    if len(raw) < SHORTEST_SECRET:
        return
    with _lock:
        _registered.update(_spellings(raw))
        longest_first = sorted(_registered, key=len, reverse=True)
        _values = re.compile("|".join(re.escape(text) for text in longest_first))


def mask(text: str) -> str:
    """Give the text with its secrets replaced by MASK."""
    if _values is not None:
        text = _values.sub(MASK, text)
    if _HINT.search(text):
        for shape, replacement in _SHAPES:
            text = shape.sub(replacement, text)
    return text


def _spellings(raw: bytes) -> set[str]:
    spelled = {
        raw.hex(),
        base64.b64encode(raw).decode("ascii"),
        base64.urlsafe_b64encode(raw).decode("ascii").rstrip("="),
    }
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError:
        return spelled
    in_json = {json.dumps(text, ensure_ascii=ascii_only)[1:-1] for ascii_only in (True, False)}
    return spelled | in_json | {text, quote(text, safe="")}
