#!/usr/bin/env bash
# The suite in parallel: all of it on SQLite, then all that touches the panel's database on PostgreSQL.
set -uo pipefail
cd "$(dirname "$0")/.."
workers=${WORKERS:-2}
parallel=(-q -n "$workers" --dist worksteal --durations=15)

report=$(mktemp -d)
trap 'rm -rf "$report"' EXIT

CHP_TEST_DATABASE=sqlite python -m pytest "${parallel[@]}" "$@" | tee "$report/sqlite"
sqlite=${PIPESTATUS[0]}

if compgen -G "/usr/lib/postgresql/*/bin/initdb" >/dev/null; then
  # The agent knows no database of the panel: its tests would only run the same twice.
  CHP_TEST_DATABASE=postgresql python -m pytest "${parallel[@]}" --ignore=tests/agent --ignore=tests/architecture "$@" |
    tee "$report/postgresql"
  postgresql=${PIPESTATUS[0]}
elif [ "${CHP_REQUIRE_SERVICES:-}" = 1 ]; then
  echo "PostgreSQL is not installed and CHP_REQUIRE_SERVICES=1." >&2
  postgresql=1
else
  echo "PostgreSQL is not installed: its half of the suite is skipped."
  postgresql=0
fi

echo
echo "SQLite:     $(tail -1 "$report/sqlite")"
[ -f "$report/postgresql" ] && echo "PostgreSQL: $(tail -1 "$report/postgresql")"
[ "$sqlite" -eq 0 ] && [ "$postgresql" -eq 0 ]
