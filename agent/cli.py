"""The command `hosting-agent`. Exit codes: 0 good, 1 the answer is no, 2 bad usage or configuration."""

import argparse
import json
import logging
import re
import sqlite3
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from agent import client, server
from agent.declarations import schema
from agent.declarations.names import JOB_UUID
from agent.declarations.table import DECLARATIONS
from agent.exceptions import AgentError, PolicyRefused
from agent.journal import Journal
from agent.policy import Policy, load_policy

GOOD, NO, BAD = 0, 1, 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command line (without the program's name) and give the exit code."""
    options = _parser().parse_args(arguments)
    command: Callable[[argparse.Namespace], int] = options.command
    try:
        return command(options)
    except PolicyRefused as error:
        return _fail(BAD, error)
    except AgentError as error:
        return _fail(NO, error)
    except BrokenPipeError:
        # Who reads has seen enough, as `| head` does; nothing more may be written at exit either.
        sys.stdout = None
        return GOOD
    except (OSError, sqlite3.Error) as error:
        return _fail(BAD, error)


def _fail(code: int, error: object) -> int:
    print(f"hosting-agent: {error}", file=sys.stderr)
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="hosting-agent", description="The root helper of a hosting server.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    _command(commands, _serve, "serve", "listen and execute signed requests until SIGTERM")
    _command(
        commands, _check, "check", "read the policy, say what it is, and look whether its folders are there"
    )
    actions = _command(commands, _actions, "actions", "list every action there is", has_policy=False)
    ping = _command(commands, _ping, "ping", "ask the running agent who it is")
    journal = _command(commands, _journal, "journal", "show what was executed, newest first")
    journal.add_argument("--job", metavar="UUID", type=_job_uuid, help="only the operations of this job")
    journal.add_argument("--limit", metavar="N", type=_positive, default=50, help="at most so many (50)")
    for command in (actions, ping, journal):
        command.add_argument("--json", action="store_true", help="answer as JSON")
    return parser


def _command(
    commands: "argparse._SubParsersAction[argparse.ArgumentParser]",
    run: Callable[[argparse.Namespace], int],
    name: str,
    summary: str,
    *,
    has_policy: bool = True,
) -> argparse.ArgumentParser:
    parser = commands.add_parser(name, help=summary, description=f"{summary[0].upper()}{summary[1:]}.")
    parser.set_defaults(command=run)
    if has_policy:
        parser.add_argument(
            "--policy", metavar="FILE", type=Path, required=True, help="the agent's policy, TOML"
        )
    return parser


def _job_uuid(text: str) -> str:
    if not re.fullmatch(JOB_UUID, text.lower()):
        raise argparse.ArgumentTypeError("give the UUID of a job")
    return text.lower()


def _positive(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 1 <= int(text[:10]) <= 1_000_000:
        raise argparse.ArgumentTypeError("give a whole number from 1 to 1000000")
    return int(text)


def _serve(options: argparse.Namespace) -> int:
    policy = load_policy(options.policy)
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    server.serve(policy)
    return GOOD


def _check(options: argparse.Namespace) -> int:
    policy = load_policy(options.policy)
    for name, value in _facts(policy).items():
        print(f"{name}: {value}")
    folders = {
        "sites_root": policy.sites_root,
        **{f"stores.{name}": path for name, path in policy.stores.items()},
    }
    missing = [f"{name}: there is no folder {path}" for name, path in folders.items() if not path.is_dir()]
    for line in missing:
        _fail(NO, line)
    return NO if missing else GOOD


def _facts(policy: Policy) -> dict[str, object]:
    facts = {name: value for name, value in vars(policy).items() if name not in ("keys", "stores")}
    stores = {f"stores.{name}": path for name, path in policy.stores.items()}
    listed = {
        name: ", ".join(map(str, value)) if isinstance(value, tuple) else value
        for name, value in facts.items()
    }
    return {**listed, **stores, "keys": ", ".join(policy.keys)}


def _actions(options: argparse.Namespace) -> int:
    described = [schema.describe(declaration) for declaration in DECLARATIONS.values()]
    if options.json:
        return _print_json(described)
    for action in described:
        print(f"{action['action']}  lock={action['lock']}  ({', '.join(action['arguments'])})")
    return GOOD


def _ping(options: argparse.Namespace) -> int:
    body = client.ask(load_policy(options.policy), "agent.ping", {})
    if options.json:
        return _print_json(body)
    user = "as root" if body["root"] else "without root"
    print(f"{body['server']} answers, version {body['version']}, {user}, {_shown_time(int(body['time_ms']))}")
    return GOOD


def _journal(options: argparse.Namespace) -> int:
    journal = Journal(load_policy(options.policy).state_dir)
    if not journal.path.exists():
        raise PolicyRefused(f"there is no journal at {journal.path}: was the agent ever started?")
    entries = journal.of_job(options.job, options.limit) if options.job else journal.latest(options.limit)
    if options.job and not entries:
        return _fail(NO, f"the journal has nothing of job {options.job}")
    if options.json:
        return _print_json([entry.shown() for entry in entries])
    for entry in entries:
        claim = entry.claim
        print(f"{_shown_time(entry.started_at)}  {entry.state:11}  {claim.action}  {claim.request_id}")
    return GOOD


def _print_json(value: object) -> int:
    print(json.dumps(value, indent=2))
    return GOOD


def _shown_time(milliseconds: int) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%SZ", time.gmtime(milliseconds / 1000))
