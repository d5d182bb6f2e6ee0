#!/usr/bin/env bash
# Looks for known vulnerabilities in what Lateen calls: hack/vulncheck.sh GOVULNCHECK
#
# The database is asked over the network (GOVULNDB, or Go's own). A vulnerability that Lateen calls fails the check (status 1).
# Where the database cannot be reached, nothing is checked, and the status is 75 (EX_TEMPFAIL of sysexits.h): hack/test-rest.sh goes on,
# since builds must work offline, and says at its end what was not checked. With LATEEN_VULNCHECK_REQUIRED it fails.
set -euo pipefail
cd "$(dirname "$0")/.."
database=${GOVULNDB:-https://vuln.go.dev}

reachable() {
  case $1 in
  file:*) return 0 ;;
  esac
  python3 - "$1/index/db.json" <<'END' 2>/dev/null
import sys, urllib.request
urllib.request.urlopen(sys.argv[1], timeout=10).read()
END
}

if ! reachable "$database"; then
  echo "NOT CHECKED: the vulnerability database $database cannot be reached from here" >&2
  if [ -n "${LATEEN_VULNCHECK_REQUIRED:-}" ]; then exit 1; fi
  exit 75
fi
make --no-print-directory "$1"
"$1" -db "$database" ./...
