#!/usr/bin/env bash
# What CI runs first. Each step is named; all run, so that one call tells everything.
set -uo pipefail
cd "$(dirname "$0")/.."

state=$(mktemp -d)
trap 'rm -rf "$state"' EXIT
mkdir -m 700 "$state/keys"
python - "$state" <<'PY'
import secrets, sys
from pathlib import Path
keys = Path(sys.argv[1]) / "keys"
for name, text in (("secret.key", secrets.token_urlsafe(64)), ("audit.key", f"audit-1 {secrets.token_hex(32)}\n")):
    (keys / name).write_text(text)
    (keys / name).chmod(0o600)
PY
unset CHP_CONFIG
export CHP_STATE_DIR="$state" CHP_HTTPS=1 CHP_DATABASE_URL="sqlite:///$state/check.sqlite3"

failed=()
step() {
  local name=$1 output
  shift
  if output=$("$@" 2>&1); then
    printf '%-22s ok\n' "$name"
  else
    printf '%-22s FAILED\n%s\n' "$name" "$output"
    failed+=("$name")
  fi
}
step "format" ruff format --check .
step "lint" ruff check .
step "types" mypy accounts agent api audit backups benchmarks chp_site jobs panel provisioning sites
step "import contracts" lint-imports
step "migrations" python manage.py makemigrations --check --dry-run
step "deployment" python manage.py check --deploy --fail-level WARNING
step "templates" djlint --lint templates --quiet

[ ${#failed[@]} -eq 0 ] || { echo "Failed: ${failed[*]}"; exit 1; }
