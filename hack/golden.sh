#!/usr/bin/env bash
# Writes all golden files anew: every package whose tests have an -update flag.
set -euo pipefail
cd "$(dirname "$0")/.."
grep -rlE --include='*_test.go' 'golden\.(File|Cases|Scripts|Archives)\(|translatetest\.Golden' internal |
  xargs -n1 dirname | sort -u |
  while read -r package; do
    if go test "./$package" -list . -update >/dev/null 2>&1; then
      echo "update $package"
      go test "./$package" -update >/dev/null
    fi
  done
git --no-pager diff --stat
