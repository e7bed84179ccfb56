#!/usr/bin/env bash
# The Debian packages whose programs the tests run for real. Installs what is missing as root with apt; otherwise
# says which groups of tests are skipped and why.
set -euo pipefail

declare -A programs=(
  [postgresql]="/usr/lib/postgresql/*/bin/initdb" [mariadb-server]="/usr/sbin/mariadbd" [mariadb-client]="/usr/bin/mariadb"
  [zstd]="/usr/bin/zstd" [sqlite3]="/usr/bin/sqlite3" [acl]="/usr/bin/setfacl" [attr]="/usr/bin/setfattr"
  [chromium]="/usr/bin/chromium" [systemd]="/usr/bin/systemd-analyze"
)
declare -A groups=(
  [postgresql]="every database test on PostgreSQL" [mariadb-server]="MariaDB dumps" [mariadb-client]="MariaDB dumps"
  [zstd]="zstd archives (gzip is used instead)" [sqlite3]="restore by hand" [acl]="ACL in backups"
  [attr]="extended attributes in backups" [chromium]="pages in a browser"
  [systemd]="checks of the systemd units"
)
missing=()
for package in "${!programs[@]}"; do
  compgen -G "${programs[$package]}" >/dev/null || missing+=("$package")
done
[ ${#missing[@]} -eq 0 ] && exit 0

if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
  echo "Installing for the tests: ${missing[*]}"
  # Only while this runs: a package must not start its service on this machine.
  guard=/usr/sbin/policy-rc.d
  made=
  if [ ! -e "$guard" ]; then printf '#!/bin/sh\nexit 101\n' >"$guard"; chmod 755 "$guard"; made=1; fi
  trap '[ -z "$made" ] || rm -f "$guard"' EXIT
  export DEBIAN_FRONTEND=noninteractive
  log=$(mktemp)
  if apt-get -q -o DPkg::Lock::Timeout=300 update >"$log" 2>&1 &&
    apt-get -q -y -o DPkg::Lock::Timeout=300 install --no-install-recommends "${missing[@]}" >>"$log" 2>&1; then
    rm -f "$log"
    exit 0
  fi
  tail -20 "$log"
  echo "apt-get could not install them; the tests that need them are skipped."
fi
echo "Not installed, so these tests are skipped (they fail with CHP_REQUIRE_SERVICES=1):"
for package in "${missing[@]}"; do printf '  %-15s %s\n' "$package" "${groups[$package]}"; done
