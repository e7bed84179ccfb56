"""The product's own source, parsed: what the architecture rules are asked about."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = (
    "accounts",
    "agent",
    "api",
    "audit",
    "backups",
    "chp_site",
    "jobs",
    "panel",
    "provisioning",
    "sites",
)


@dataclass(frozen=True)
class Module:
    """One file: its path from the root, and its syntax tree."""

    path: str
    tree: ast.Module

    def nodes(self) -> Iterator[ast.AST]:
        """Give every node of the file."""
        return ast.walk(self.tree)


@cache
def modules() -> tuple[Module, ...]:
    """Give every module of the product, migrations left out: Django writes those."""
    files = [ROOT / "manage.py"]
    for package in PACKAGES:
        files += sorted((ROOT / package).rglob("*.py"))
    return tuple(
        parsed(_name(file), file.read_text("utf-8")) for file in files if "migrations" not in file.parts
    )


def parsed(path: str, text: str) -> Module:
    """Give a module of this text, as if it stood at this path."""
    return Module(path, ast.parse(text))


def _name(file: Path) -> str:
    return file.relative_to(ROOT).as_posix()


def dotted(node: ast.AST) -> str:
    """Give `a.b.c` for a name or a chain of attributes, else an empty text."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        before = dotted(node.value)
        return f"{before}.{node.attr}" if before else ""
    return ""


def last_name(node: ast.AST) -> str:
    """Give the last part of a name or of a chain of attributes."""
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def calls(tree: ast.AST) -> Iterator[ast.Call]:
    """Give every call below a node."""
    return (node for node in ast.walk(tree) if isinstance(node, ast.Call))


def imports(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Give line and full name of everything that is imported below a node."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from ((node.lineno, f"{node.module or '.'}.{alias.name}") for alias in node.names)
