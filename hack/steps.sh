#!/usr/bin/env bash
# What hack/test.sh and hack/test-rest.sh share: steps that tell which one it is and how long each took. It is sourced, with the
# number of steps in $steps, from the root of the repository.
#
# On a new machine with two processors most of the time goes into compiling, so all steps compile alike: with the same tags, and
# `go vet` as part of the linter alone.
set -euo pipefail
tools=$PWD/.tools
go=${GO:-go}
export GO=$go
# As the Makefile builds; the race detector alone needs C.
export GOFLAGS="-trimpath -tags=grpcnotrace ${GOFLAGS:-}" CGO_ENABLED=0

step=0
what=""
times=""
unchecked=""

# ended tells which step failed.
ended() {
  local status=$?
  if [ $status -ne 0 ]; then echo "[$step/$steps] failed (after $(elapsed "$SECONDS")): $what" >&2; fi
}
trap ended EXIT

elapsed() { echo "$(($1 / 60))m$(($1 % 60))s"; }

# run is a step: what it is, and its command.
run() {
  local begin=$SECONDS
  what=$1
  shift
  step=$((step + 1))
  echo "[$step/$steps] $what (after $(elapsed "$SECONDS"))"
  "$@"
  times="$times$(printf '%8s  %s' "$(elapsed $((SECONDS - begin)))" "$what")
"
}

# optional is a step of its own whose command ends with status 75 where it could not look: the rest goes on, and the end says so.
optional() {
  local status=0
  "$@" || status=$?
  if [ $status -eq 75 ]; then
    unchecked="$unchecked
NOT CHECKED: $what"
    return 0
  fi
  return $status
}

# tests runs packages' tests; of every ten packages it tells how far it is.
tests() {
  local line done=0 all=$1
  shift
  CGO_ENABLED=$([[ " $* " == *" -race "* ]] && echo 1 || echo 0) "$go" test -vet=off "$@" | while IFS= read -r line; do
    printf '%s\n' "$line"
    case $line in
    "ok  "* | "?   "* | "FAIL	"*)
      done=$((done + 1))
      if [ $((done % 10)) -eq 0 ]; then echo "      $done of $all packages (after $(elapsed "$SECONDS"))"; fi
      ;;
    esac
  done
}

packages() { "$go" list ./... | grep -E "$@"; }
count() { wc -w | tr -d ' '; }

# finish tells how long all took.
finish() {
  printf '%s, in %s:\n%s' "$1" "$(elapsed "$SECONDS")" "$times"
  if [ -n "$unchecked" ]; then echo "${unchecked#?}" >&2; fi
}
