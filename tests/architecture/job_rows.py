"""The rules on rows of jobs: made in one place, moved in one place."""

import ast
import re
from collections.abc import Iterator
from functools import cache

from tests.architecture.source import Module, calls, dotted, last_name, modules

Finding = tuple[int, str]

# The state of a job, and everything that says who owns it.
STATE = frozenset({"status", "claim_token", "epoch", "attempt", "worker_id", "worker_name", "deadline_at"})
TABLES = re.compile(r"\bjobs_(job|jobevent|sitegate|jobdependency)\b")
CREATORS = frozenset({"create", "acreate", "bulk_create", "get_or_create", "update_or_create"})
WRITERS = frozenset({"update", "aupdate", "bulk_update", "update_or_create", "delete", "adelete", "raw"})


def created_jobs(module: Module) -> Iterator[Finding]:
    """Find places that make a job's row."""
    for call in calls(module.tree):
        if dotted(call.func) in ("Job", "models.Job"):
            yield call.lineno, "makes a Job"
        elif isinstance(call.func, ast.Attribute) and call.func.attr in CREATORS and is_jobs(call.func.value):
            yield call.lineno, f"makes jobs by {call.func.attr}()"


def changed_states(module: Module) -> Iterator[Finding]:
    """Find places that change the state or the claim of a row, by any spelling."""
    for node in module.nodes():
        if isinstance(node, ast.Call):
            yield from ((node.lineno, f"changes {name}") for name in _named_columns(node) if name in STATE)
        for target in _assigned(node):
            if isinstance(target, ast.Attribute) and target.attr in STATE and dotted(target.value) != "self":
                yield target.lineno, f"assigns {target.attr}"


def changed_jobs(module: Module) -> Iterator[Finding]:
    """Find statements that write or delete rows of jobs, whatever their columns are."""
    for function in ast.walk(module.tree):
        if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        local = _names_of_jobs(function)
        for call in calls(function):
            if not isinstance(call.func, ast.Attribute) or call.func.attr not in WRITERS:
                continue
            if is_jobs(call.func.value, local):
                keywords = sorted(keyword.arg or "**" for keyword in call.keywords)
                yield call.lineno, f"{function.name}: {call.func.attr}({', '.join(keywords)})"


def named_tables(module: Module) -> Iterator[Finding]:
    """Find SQL that names a table of the engine."""
    for node in module.nodes():
        if isinstance(node, ast.Constant) and TABLES.search(str(node.value)):
            yield node.lineno, "names a table of the engine"


def is_jobs(node: ast.AST, local: frozenset[str] = frozenset()) -> bool:
    """Say whether an expression is a queryset of jobs: `Job.objects`, or from a function that gives one."""
    while isinstance(node, ast.Attribute | ast.Call | ast.Subscript):
        if isinstance(node, ast.Call):
            if last_name(node.func) in _functions_giving_jobs():
                return True
            node = node.func
        elif dotted(node) in ("Job.objects", "models.Job.objects", "site.jobs", "customer.jobs"):
            return True
        else:
            node = node.value
    return isinstance(node, ast.Name) and node.id in local


@cache
def _functions_giving_jobs() -> frozenset[str]:
    functions = (node for module in modules() for node in module.nodes() if isinstance(node, ast.FunctionDef))
    return frozenset(
        function.name
        for function in functions
        if function.returns is not None and ast.unparse(function.returns).strip("'\"") == "QuerySet[Job]"
    ) - {"get_queryset"}


def _names_of_jobs(function: ast.AST) -> frozenset[str]:
    found: frozenset[str] = frozenset()
    for node in ast.walk(function):
        if isinstance(node, ast.Assign) and is_jobs(node.value, found):
            found |= {target.id for target in node.targets if isinstance(target, ast.Name)}
    return found


def _named_columns(call: ast.Call) -> list[str]:
    name = last_name(call.func)
    if name in WRITERS:
        return [keyword.arg for keyword in call.keywords if keyword.arg]
    if name == "setattr" and len(call.args) == 3:
        return _texts(call.args[1])
    if name == "save":
        return [text for keyword in call.keywords for text in _texts(keyword.value)]
    return []


def _texts(node: ast.AST) -> list[str]:
    constants = (inner.value for inner in ast.walk(node) if isinstance(inner, ast.Constant))
    return [value for value in constants if isinstance(value, str)]


def _assigned(node: ast.AST) -> list[ast.expr]:
    if isinstance(node, ast.Assign):
        return [inner for target in node.targets for inner in _unpacked(target)]
    if isinstance(node, ast.AugAssign | ast.AnnAssign):
        return [node.target]
    return []


def _unpacked(target: ast.expr) -> list[ast.expr]:
    return list(target.elts) if isinstance(target, ast.Tuple | ast.List) else [target]
