"""What may be done in one place only is done nowhere else; and each rule finds what was planted for it."""

import textwrap
from collections.abc import Callable, Iterator

import pytest

from tests.architecture import job_rows, rules
from tests.architecture.source import Module, modules, parsed

Rule = Callable[[Module], Iterator[tuple[int, str]]]

# Rule -> the only places, as paths or folders; an empty tuple means nowhere.
DOORS: dict[Rule, tuple[str, ...]] = {
    job_rows.created_jobs: ("jobs/pipeline.py",),
    job_rows.changed_states: ("jobs/transitions.py",),
    job_rows.named_tables: (
        *(
            "jobs/dependencies.py",
            "jobs/events.py",
            "jobs/gates.py",
            "jobs/limits.py",
            "jobs/queries.py",
            "jobs/queue.py",
        ),
        *("jobs/transitions.py", "jobs/turns.py"),
    ),
    rules.written_trail: ("audit/trail.py",),
    rules.started_processes: ("agent/runner.py", "jobs/slot_process.py", "chp_site/demo/processes.py"),
    rules.opened_unix_sockets: (
        "agent/",
        "jobs/agent_client.py",
        "jobs/service_manager.py",
        "chp_site/demo/processes.py",
    ),
    rules.unsafe_code: (),
    rules.late_imports: (),
    # The chain's codes are no secrets once they stand in the table: there they are compared with each other.
    rules.compared_secrets: ("audit/anchor.py", "audit/chain.py"),
}

# A job's state and claim change in the first; then a heartbeat and progress, which are no states; then its
# place in line and its priority, which change only while it is queued.
WRITES_OF_JOBS = {
    ("jobs/queue.py", "beat: update(heartbeat_at)"),
    ("jobs/context.py", "progress: update(**)"),
    ("jobs/readiness.py", "_stored: update(**)"),
    ("jobs/readiness.py", "close_sites: update(blocked_by_id, readiness)"),
    ("jobs/readiness.py", "open_sites: update(**)"),
    ("jobs/readiness.py", "pause_site: update(readiness)"),
    ("jobs/readiness.py", "resume_site: update(**)"),
    ("jobs/aging.py", "_raise: update(**)"),
    ("jobs/transitions.py", "_consequences: update(cancelled_with_id)"),
    ("jobs/prune.py", "_remove: delete()"),
    # Reads.
}

# The outermost frames, where whatever happened must be told: of an attempt and of what it writes at its end;
# of an agent's child process, its connection and its operation.
OUTERMOST = {
    ("jobs/execution.py", "_run"),
    ("jobs/execution.py", "_record"),
    ("agent/runner.py", "start_child"),
    ("agent/session.py", "_outcome"),
    ("agent/execution.py", "_attempt"),
}

PLANTED: list[tuple[Rule, str]] = [
    (job_rows.created_jobs, "Job(site=site).save()"),
    (job_rows.created_jobs, "Job.objects.create(site=site)"),
    (job_rows.created_jobs, "Job.objects.using('default').bulk_create(rows)"),
    (job_rows.created_jobs, "site.jobs.create(job_type='BACKUP')"),
    (job_rows.changed_states, "Job.objects.filter(pk=1).update(status='SUCCESS')"),
    (job_rows.changed_states, "rows.update(claim_token='')"),
    (job_rows.changed_states, "job.status = 'FAILED'"),
    (job_rows.changed_states, "job.status, job.attempt = 'QUEUED', 0"),
    (job_rows.changed_states, "job.epoch += 1"),
    (job_rows.changed_states, "setattr(job, 'status', 'FAILED')"),
    (job_rows.changed_states, "job.save(update_fields=['status'])"),
    (job_rows.named_tables, "cursor.execute('UPDATE jobs_job SET priority = 0')"),
    (rules.written_trail, "AuditEntry(sequence=1)"),
    (rules.written_trail, "AuditEntry.objects.all().delete()"),
    (rules.written_trail, "AuditHead.objects.filter(pk=1).update(sequence=0)"),
    (rules.written_trail, "cursor.execute('DELETE FROM audit_auditentry')"),
    (rules.started_processes, "import subprocess"),
    (rules.started_processes, "from subprocess import run"),
    (rules.started_processes, "from multiprocessing import Process"),
    (rules.started_processes, "os.system('ls')"),
    (rules.started_processes, "from os import posix_spawn"),
    (rules.started_processes, "os.execv('/bin/ls', [])"),
    (rules.opened_unix_sockets, "socket.socket(socket.AF_UNIX)"),
    (rules.opened_unix_sockets, "from socket import AF_UNIX"),
    (rules.unsafe_code, "run('ls', shell=True)"),
    (rules.unsafe_code, "run('ls', shell=wanted)"),
    (rules.unsafe_code, "mark_safe(text)"),
    (rules.unsafe_code, "from django.utils.safestring import mark_safe as fine"),
    (rules.unsafe_code, "class Meta:\n    fields = '__all__'"),
    (rules.unsafe_code, "import pickle"),
    (rules.unsafe_code, "eval(text)"),
    (rules.unsafe_code, "exec(text)"),
    (rules.late_imports, "def act():\n    from jobs import pipeline"),
    (rules.late_imports, "class A:\n    def ready(self):\n        import jobs.models"),
    (rules.compared_secrets, "mac == expected"),
    (rules.compared_secrets, "row.signature != given"),
]


def violations(rule: Rule) -> list[str]:
    doors = DOORS[rule]
    return [
        f"{module.path}:{line}: {what}"
        for module in modules()
        if not any(
            module.path == door or (door.endswith("/") and module.path.startswith(door)) for door in doors
        )
        for line, what in rule(module)
    ]


@pytest.mark.parametrize("rule", DOORS, ids=lambda rule: rule.__name__)
def test_it_is_done_behind_its_door_only(rule: Rule) -> None:
    assert violations(rule) == []


@pytest.mark.parametrize(("rule", "code"), PLANTED, ids=lambda value: value if isinstance(value, str) else "")
def test_a_planted_violation_is_found(rule: Rule, code: str) -> None:
    assert list(rule(parsed("panel/views.py", code)))


@pytest.mark.parametrize(
    "rule", [rule for rule, doors in DOORS.items() if doors], ids=lambda rule: rule.__name__
)
def test_a_door_is_used(rule: Rule) -> None:
    """A door that nothing goes through is a rule that no longer finds anything."""
    doors = DOORS[rule]
    found = {
        door for door in doors for module in modules() if module.path.startswith(door) and list(rule(module))
    }
    assert found == set(doors)


def test_rows_of_jobs_are_written_in_the_named_places_only() -> None:
    found = {(module.path, what) for module in modules() for _, what in job_rows.changed_jobs(module)}
    assert found == WRITES_OF_JOBS


@pytest.mark.parametrize(
    "code",
    [
        "Job.objects.filter(pk=1).update(priority=0)",
        "rows = Job.objects.all()\n    rows.delete()",
        "jobs_visible_to(actor).update(payload={})",
        "rows = held_jobs()\n    late = rows.filter(pk=1)\n    late.update(**values)",
    ],
)
def test_a_planted_write_of_jobs_is_found(code: str) -> None:
    assert list(job_rows.changed_jobs(parsed("panel/views.py", f"def act():\n    {code}")))


def test_everything_is_caught_in_the_outermost_frames_only() -> None:
    found = {(module.path, function) for module in modules() for _, function in rules.broad_excepts(module)}
    assert found == OUTERMOST


@pytest.mark.parametrize("kind", ["Exception", "BaseException", "(ValueError, Exception)", ""])
def test_a_planted_broad_except_is_found(kind: str) -> None:
    code = f"def act():\n    try:\n        work()\n    except {kind}:\n        return None"
    assert list(rules.broad_excepts(parsed("panel/views.py", code))) == [(4, "act")]


def test_cleaning_up_and_raising_on_is_no_broad_except() -> None:
    code = """
        def act():
            try:
                work()
            except BaseException:
                clean_up()
                raise
    """
    assert not list(rules.broad_excepts(parsed("agent/act.py", textwrap.dedent(code))))


def test_an_app_may_import_its_own_once_the_models_are_there() -> None:
    code = "class A:\n    def ready(self):\n        from jobs import models"
    assert not list(rules.late_imports(parsed("jobs/apps.py", code)))
