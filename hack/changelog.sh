#!/usr/bin/env bash
# Joins the fragments of changes/ under a heading at the top of CHANGELOG.md, and removes them:
# hack/changelog.sh RELEASE [DATE] (in the repository, or in the directory $ROOT)
set -euo pipefail
cd "${ROOT:-$(dirname "$0")/..}"
release=${1:?usage: hack/changelog.sh RELEASE [DATE]}
date=${2:-$(date -u +%F)}
title="# Changelog"
heading="## $release"

shopt -s nullglob
export LC_ALL=C # the order of the names
fragments=()
for file in changes/*.md; do
  [ "$file" = changes/README.md ] || fragments+=("$file")
done
if [ ${#fragments[@]} -eq 0 ]; then
  echo "changes/ has no fragments: nothing to release" >&2
  exit 1
fi
before=""
if [ -e CHANGELOG.md ]; then
  before=$(tail -n +2 CHANGELOG.md)
  if grep -qF "$heading (" CHANGELOG.md; then
    echo "CHANGELOG.md has $release already" >&2
    exit 1
  fi
fi
{
  printf '%s\n\n%s (%s)\n\n' "$title" "$heading" "$date"
  cat "${fragments[@]}"
  if [ -n "$before" ]; then printf '%s\n' "$before"; fi
} >CHANGELOG.md.new
mv CHANGELOG.md.new CHANGELOG.md
rm "${fragments[@]}"
