"""Domain names: one form for every spelling of a name, and why some can be no site's. Pure."""

import re
import unicodedata
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from functools import cache

import idna
from publicsuffixlist import PublicSuffixList

LONGEST_NAME = 253
LONGEST_LABEL = 63
_LONGEST_INPUT = 1_000

# Names of special use (RFC 6761, 7686, 9476) and the infrastructure domain; .test is decided by the caller.
RESERVED = frozenset({"alt", "arpa", "example", "invalid", "local", "localhost", "onion"})

# Signs that show what was pasted instead of a domain, with what to do; looked for in this order.
_PASTED = (
    ("://", "is an address of a page. Give the domain alone, without http://."),
    ("@", "looks like a mail address. Give the part after the @ alone."),
    ("/", "contains a path. Give the domain alone, without anything from the / on."),
    ("[", "is an IP address. Give a domain name."),
    (":", "contains a port or an IPv6 address. Give the domain alone, without anything from the : on."),
    ("*", "contains a wildcard. A site has one name of its own; give it without the *."),
    ("_", "contains an underscore, which no web host name may have. Use a hyphen."),
    ('"', "contains a quotation mark. Give the domain without quotation marks."),
    ("'", "contains a quotation mark. Give the domain without quotation marks."),
)

# Where the last part is one of these, browsers read the whole as an IPv4 address.
_NUMBER = re.compile(r"\d+|0x[0-9a-f]*")

# Scripts that are written together in one label (Unicode TS 39, "highly restrictive").
_TOGETHER = (
    frozenset({"LATIN", "CJK", "HIRAGANA", "KATAKANA"}),
    frozenset({"LATIN", "CJK", "HANGUL"}),
    frozenset({"LATIN", "CJK", "BOPOMOFO"}),
)
# First words of Unicode names that say another script than their first word, or none.
_SCRIPT_OF = {
    "IDEOGRAPHIC": "CJK",
    "ARABIC-INDIC": "ARABIC",
    "EXTENDED": "ARABIC",
    "KATAKANA-HIRAGANA": "",
    "DIGIT": "",
    "HYPHEN-MINUS": "",
    "MIDDLE": "",
    "MODIFIER": "",
}


class InvalidDomain(ValueError):
    """The text is no domain that a site may have; the message names what is wrong and what to do."""


@dataclass(frozen=True)
class DomainName:
    """A domain in its one form: `ascii` is stored and compared, `unicode` is shown."""

    ascii: str
    unicode: str


def normalise_domain(
    text: str,
    *,
    own_hosts: Collection[str] = frozenset(),
    reserved: Collection[str] = RESERVED,
    allow_test: bool = False,
    allow_www: bool = False,
) -> DomainName:
    """Give the one form of a domain that is to be a site's name (IDNA 2008 after UTS 46 mapping).

    `own_hosts` are the panel's own names: neither they nor names below them become a site. `reserved` are
    top-level names that never do; `allow_test` lets names under .test pass, `allow_www` a leading "www."
    (for aliases). Raises InvalidDomain.
    """
    labels = _labels(_typed(text))
    decoded = [_decoded(label) for label in labels]
    for label in decoded:
        _require_one_script(label)
    name = DomainName(".".join(_encoded(label) for label in decoded), ".".join(decoded))
    if len(name.ascii) > LONGEST_NAME:
        raise InvalidDomain(f"The domain has {len(name.ascii)} characters; the most is {LONGEST_NAME}.")
    _require_usable(name.ascii, {*reserved} if allow_test else {*reserved, "test"})
    _require_foreign(name.ascii, own_hosts)
    if not allow_www:
        _require_no_www(name.ascii)
    return name


def _typed(text: str) -> str:
    if not isinstance(text, str) or not text.strip(" \t"):
        raise InvalidDomain("No domain was given. Give one like shop.example.com.")
    name = text.strip(" \t")
    if len(name) > _LONGEST_INPUT:
        raise InvalidDomain(f"The domain has {len(name)} characters; the most is {LONGEST_NAME}.")
    for character in name:
        if character.isspace():
            raise InvalidDomain(
                f"{name[:80]!r} contains a space or line break. Give one domain without spaces."
            )
        if unicodedata.category(character).startswith("C"):
            code = f"U+{ord(character):04X}"
            raise InvalidDomain(f"{name[:80]!r} contains the invisible character {code}. Type the name anew.")
    for sign, advice in _PASTED:
        if sign in name:
            raise InvalidDomain(f"{name[:80]!r} {advice}")
    return name


def _labels(name: str) -> list[str]:
    try:
        mapped = idna.uts46_remap(name, std3_rules=True)
    except idna.IDNAError as error:
        raise InvalidDomain(
            f"{name[:80]!r} contains a character that no domain may have: {error}."
        ) from error
    labels = mapped.removesuffix(".").split(".")
    if "" in labels:
        raise InvalidDomain(
            f"{name[:80]!r} has an empty part: a dot at the start, or two dots together. Remove it."
        )
    if len(labels) > 1 and _NUMBER.fullmatch(labels[-1]):
        raise InvalidDomain(f"{name[:80]!r} is an IP address or ends in a number. Give a domain name.")
    return labels


def _decoded(label: str) -> str:
    if label.startswith("-") or label.endswith("-"):
        raise InvalidDomain(f"The part {label[:80]!r} begins or ends with a hyphen. Remove the hyphen.")
    try:
        decoded = idna.ulabel(label)
        if idna.uts46_remap(decoded) == decoded:
            return decoded
    except idna.IDNAError as error:
        raise InvalidDomain(f"The part {label[:80]!r} is not allowed in a domain: {error}.") from error
    raise InvalidDomain(
        f"The part {label[:80]!r} does not decode to a name in its normal form. Type the name itself."
    )


def _encoded(label: str) -> str:
    try:
        return idna.alabel(label).decode("ascii")
    except idna.IDNAError as error:
        raise InvalidDomain(
            f"The part {label[:80]!r} is too long or not allowed: {error}. "
            f"A part between dots has {LONGEST_LABEL} characters at most."
        ) from error


def _require_one_script(label: str) -> None:
    scripts = {script for script in map(_script, label) if script}
    if len(scripts) > 1 and not any(scripts <= together for together in _TOGETHER):
        named = " and ".join(sorted(script.title() for script in scripts))
        raise InvalidDomain(
            f"The part {label[:80]!r} mixes the scripts {named}, by which names are faked. "
            "Write it in one script; perhaps a letter only looks right."
        )


def _script(character: str) -> str:
    if unicodedata.category(character).startswith("M"):
        return ""
    first = unicodedata.name(character, "UNKNOWN").split(" ", 1)[0]
    return _SCRIPT_OF.get(first, first)


def _require_usable(name: str, reserved: Iterable[str]) -> None:
    last = name.rsplit(".", 1)[-1]
    if last in reserved:
        raise InvalidDomain(
            f"{name!r} is reserved: .{last} names exist on no public network. Give a registered name."
        )
    if "." not in name:
        raise InvalidDomain(f"{name!r} has no dot. Give the whole domain, like {name}.com.")
    if _registrable(name) is None:
        raise InvalidDomain(
            f"{name!r} is a public suffix, under which others register. Give a name below, like shop.{name}."
        )


def _require_foreign(name: str, own_hosts: Iterable[str]) -> None:
    for host in own_hosts:
        own = host.strip(".").lower()
        if own and (name == own or name.endswith(f".{own}")):
            raise InvalidDomain(
                f"{name!r} is the panel's own name or lies under it ({own}). Give another domain."
            )


def _require_no_www(name: str) -> None:
    rest = name.removeprefix("www.")
    if rest != name and _registrable(rest) is not None:
        raise InvalidDomain(
            f"{name!r} begins with www. Give {rest!r}; www.{rest} is added to it as an alias."
        )


def _registrable(name: str) -> str | None:
    registrable: str | None = _suffixes().privatesuffix(name)
    return registrable


@cache
def _suffixes() -> PublicSuffixList:
    # Names under a suffix that the list does not have (.test, a new one) count as registrable.
    return PublicSuffixList(accept_unknown=True)
