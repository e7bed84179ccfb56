#!/usr/bin/env bash
# The engine under load for long: chaos for SOAK_SECONDS on each database, and the engine's tests at full size.
# CHP_CHAOS_SEED repeats the decisions of an earlier run. What a run that found something made is kept.
set -uo pipefail
cd "$(dirname "$0")/.."
seconds=${SOAK_SECONDS:-600}
seed=${CHP_CHAOS_SEED:-$((RANDOM * 32768 + RANDOM))}
export CHP_ENGINE_JOBS=${CHP_ENGINE_JOBS:-5000} CHP_ENGINE_CANCELS=${CHP_ENGINE_CANCELS:-500}

databases=(sqlite)
if compgen -G "/usr/lib/postgresql/*/bin/initdb" >/dev/null; then
  databases+=(postgresql)
elif [ "${CHP_REQUIRE_SERVICES:-}" = 1 ]; then
  echo "PostgreSQL is not installed and CHP_REQUIRE_SERVICES=1." >&2
  exit 1
else
  echo "PostgreSQL is not installed: the soak is on SQLite only."
fi

failed=()
for database in "${databases[@]}"; do
  folder=$(mktemp -d)
  chmod 755 "$folder"
  echo "== $database: chaos for $seconds s, seed $seed"
  if python -m tests.engine.chaos --database "$database" --seconds "$seconds" --seed "$seed" \
    --folder "$folder" 2>"$folder/chaos.log"; then
    rm -rf "$folder"
  else
    failed+=("chaos on $database, seed $seed: see $folder")
  fi
  echo "== $database: $CHP_ENGINE_JOBS jobs, $CHP_ENGINE_CANCELS cancellations"
  CHP_TEST_DATABASE=$database python -m pytest -q tests/engine/test_concurrency.py tests/engine/test_cancellation.py ||
    failed+=("the engine's tests on $database")
done

[ ${#failed[@]} -eq 0 ] || { printf 'Failed: %s\n' "${failed[@]}"; exit 1; }
