"""The other rules on the source: each finds the places where something is done that has one door, or none."""

import ast
from collections.abc import Iterator

from tests.architecture.source import PACKAGES, Module, dotted, imports, last_name

Finding = tuple[int, str]

TRAIL = ("AuditEntry", "AuditHead")
TRAIL_TABLES = ("audit_auditentry", "audit_audithead")
WRITERS = frozenset(
    {"create", "bulk_create", "get_or_create", "update_or_create", "update", "bulk_update", "delete", "save"}
)
PROCESS_MODULES = (
    "subprocess",
    "multiprocessing",
    "pty",
    "pexpect",
    "concurrent.futures",
    "asyncio",
    "fabric",
    "sh",
)
# Pipes between processes that somebody else has started.
NO_PROCESS = ("multiprocessing.connection",)
PROCESS_CALLS = ("fork", "system", "popen", "exec", "spawn", "posix_spawn")
UNSAFE_NAMES = frozenset({"mark_safe", "SafeString", "SafeText"})
PICKLES = ("pickle", "cPickle", "marshal", "shelve", "dill", "jsonpickle")
SECRETS = frozenset({"mac", "signature", "password", "secret", "token", "claim_token"})


def written_trail(module: Module) -> Iterator[Finding]:
    """Find places that write the audit trail."""
    for node in module.nodes():
        if isinstance(node, ast.Call):
            name = dotted(node.func)
            root, _, method = name.partition(".")
            if root in TRAIL and (not method or name.rpartition(".")[2] in WRITERS):
                yield node.lineno, f"writes by {name}()"
            elif last_name(node.func) in WRITERS and _root(node.func) in TRAIL:
                yield node.lineno, f"writes {_root(node.func)} by {last_name(node.func)}()"
        elif isinstance(node, ast.Constant) and any(name in str(node.value).lower() for name in TRAIL_TABLES):
            yield node.lineno, "names a table of the trail"


def started_processes(module: Module) -> Iterator[Finding]:
    """Find places that can start a process."""
    for line, name in imports(module.tree):
        of_os = name.startswith("os.") and _starts_process(name.removeprefix("os."))
        if of_os or (_is_below(name, PROCESS_MODULES) and not _is_below(name, NO_PROCESS)):
            yield line, f"imports {name}"
    for node in module.nodes():
        if isinstance(node, ast.Attribute) and dotted(node.value) == "os" and _starts_process(node.attr):
            yield node.lineno, f"uses os.{node.attr}"


def opened_unix_sockets(module: Module) -> Iterator[Finding]:
    """Find places that open a Unix socket."""
    for node in module.nodes():
        if isinstance(node, ast.Attribute | ast.Name) and last_name(node) == "AF_UNIX":
            yield node.lineno, "uses AF_UNIX"
    yield from ((line, f"imports {name}") for line, name in imports(module.tree) if name.endswith(".AF_UNIX"))


def unsafe_code(module: Module) -> Iterator[Finding]:
    """Find what is done nowhere: shells, unescaped text, all fields, pickles, code out of text."""
    for line, name in imports(module.tree):
        if name.partition(".")[0] in PICKLES:
            yield line, f"imports {name}"
    for node in module.nodes():
        if isinstance(node, ast.keyword) and node.arg == "shell" and not _is_constant(node.value, False):
            yield node.lineno, "shell="
        if isinstance(node, ast.Constant) and node.value == "__all__":
            yield node.lineno, '"__all__"'
        if isinstance(node, ast.Name | ast.Attribute | ast.alias) and _name_of(node) in UNSAFE_NAMES:
            yield node.lineno, _name_of(node)
        if isinstance(node, ast.Call) and dotted(node.func) in ("eval", "exec", "compile", "__import__"):
            yield node.lineno, f"{dotted(node.func)}()"


def late_imports(module: Module) -> Iterator[Finding]:
    """Find imports of ours inside functions. `AppConfig.ready` may: there the models exist at last."""
    for function in module.nodes():
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            if module.path.endswith("/apps.py") and function.name == "ready":
                continue
            for line, name in imports(function):
                if name.partition(".")[0] in PACKAGES:
                    yield line, f"{function.name} imports {name}"


def broad_excepts(module: Module) -> Iterator[Finding]:
    """Find handlers of everything, by their function. One that only cleans up and raises on is none."""
    for function in module.nodes():
        if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        for node in ast.walk(function):
            if isinstance(node, ast.ExceptHandler) and _is_broad(node) and not _raises_on(node):
                yield node.lineno, function.name


def compared_secrets(module: Module) -> Iterator[Finding]:
    """Find secrets compared by == or !=, which take longer the more of a guess is right."""
    for node in module.nodes():
        if not isinstance(node, ast.Compare) or not isinstance(node.ops[0], ast.Eq | ast.NotEq):
            continue
        sides = [node.left, *node.comparators]
        if any(isinstance(side, ast.Constant) for side in sides):
            continue
        yield from ((node.lineno, last_name(side)) for side in sides if last_name(side) in SECRETS)


def _root(node: ast.AST) -> str:
    while isinstance(node, ast.Attribute | ast.Call | ast.Subscript):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else ""


def _is_below(name: str, roots: tuple[str, ...]) -> bool:
    return any(name == root or name.startswith(f"{root}.") for root in roots)


def _starts_process(name: str) -> bool:
    return name.startswith(PROCESS_CALLS)


def _is_constant(node: ast.AST, value: object) -> bool:
    return isinstance(node, ast.Constant) and node.value is value


def _name_of(node: ast.Name | ast.Attribute | ast.alias) -> str:
    return node.name if isinstance(node, ast.alias) else last_name(node)


def _is_broad(handler: ast.ExceptHandler) -> bool:
    if handler.type is None:
        return True
    kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return any(dotted(kind) in ("Exception", "BaseException") for kind in kinds)


def _raises_on(handler: ast.ExceptHandler) -> bool:
    last = handler.body[-1]
    return isinstance(last, ast.Raise) and last.exc is None
