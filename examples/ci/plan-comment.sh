#!/usr/bin/env bash
# Writes what applying manifests would do, as a comment in Markdown: plan-comment.sh FILE|DIR... > comment.md
# It ends as lateen plan does: 0 if no problem would appear, 3 if warnings would, 4 if errors would, and otherwise if there is no
# plan.
set -uo pipefail
export LC_ALL=C # lengths are in bytes
most=60000 # bytes: a comment of GitHub has at most 65,536 characters
files=()
for file in "$@"; do files+=(-f "$file"); done

status=0
plan=$(NO_COLOR=1 lateen plan "${files[@]}" 2>&1) || status=$?
case $status in
0) says="No problem would appear." ;;
3) says="**Warnings** would appear." ;;
4) says="**Errors** would appear." ;;
*) says="**There is no plan.**" ;;
esac
printf '<!-- lateen plan -->\n### What this change does to the mesh\n\n%s\n\n' "$says"
# A fence that is longer than any in the plan.
printf '`````text\n%s\n`````\n' "$(sed 's/`````/` ` ` ` `/g' <<<"$plan" | head -c "$most")"
if [ "${#plan}" -gt "$most" ]; then printf '\nThe rest is in the log of the job.\n'; fi
printf '%s\n' "$plan" >&2
exit "$status"
