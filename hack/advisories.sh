#!/usr/bin/env bash
# Tells whether docs/envoy-advisories.md is about the pinned Envoy: hack/advisories.sh [DAYS [TODAY]]
#
# With DAYS it also fails if the page was looked up more than so many days ago. CI does not ask for that: a build must not
# fail by the calendar alone. TODAY (2026-11-27) is the date of this machine if it is not given.
set -euo pipefail
cd "$(dirname "$0")/.."
page=docs/envoy-advisories.md
pinned=$(sed -n 's/^version=//p' hack/fetch-envoy.sh)
about=$(sed -n 's/^\* Version: //p' $page)
looked=$(sed -n 's/^\* Looked up: //p' $page)
if [ "$about" != "$pinned" ]; then
  echo "$page is about Envoy $about, and hack/fetch-envoy.sh pins $pinned: look up its advisories and renew the page" >&2
  exit 1
fi
python3 - "$looked" "${1:-}" "${2:-}" <<'END'
import datetime, sys
looked, days, today = sys.argv[1:]
try:
    looked = datetime.date.fromisoformat(looked)
except ValueError:
    sys.exit('docs/envoy-advisories.md: want a line "* Looked up: YYYY-MM-DD", got %r' % looked)
today = datetime.date.fromisoformat(today) if today else datetime.date.today()
if days and (today - looked).days > int(days):
    sys.exit("docs/envoy-advisories.md was looked up on %s, more than %s days ago: renew it" % (looked, days))
END
echo "Envoy $pinned: advisories looked up on $looked"
