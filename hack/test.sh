#!/usr/bin/env bash
# Runs all that CI runs, and tells which step it is at and how long each took: hack/test.sh
#
# On a new machine with two processors most of the time goes into compiling, so all steps compile alike: with the same tags,
# Kubernetes, the linter and Lateen at the same time, and `go vet` as part of the linter alone.
set -euo pipefail
cd "$(dirname "$0")/.."
fuzztime=${1:-10s}
tools=$PWD/.tools
go=${GO:-go}
export GO=$go
export GOFLAGS="-tags=grpcnotrace ${GOFLAGS:-}" # as the binary is built (see the Makefile)
export LATEEN_ENVOY=$tools/envoy LATEEN_ENVOY_REQUIRED=1 LATEEN_KUBE=$tools/kube LATEEN_KUBE_REQUIRED=1
export LATEEN_CLIENTS_REQUIRED=1 LATEEN_PROMETHEUS_REQUIRED=1 LATEEN_PROMTOOL_REQUIRED=1 LATEEN_DASHBOARDS_REQUIRED=1

# -race needs a C compiler; without one the tests run without it.
race=$(command -v cc >/dev/null && echo -race || true)

# alone are packages in which nothing runs at the same time as something else, neither in the code nor in its tests: the race
# detector would find nothing, and make them seven times slower.
alone='/(internal/(api/convert|translate/[a-z]+)|test/(imports|mutants|docs))$'

steps=9
step=0
what=""
times=""

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

# tests runs packages' tests; of every ten packages it tells how far it is.
tests() {
  local line done=0 all=$1
  shift
  "$go" test -vet=off "$@" | while IFS= read -r line; do
    printf '%s\n' "$line"
    case $line in
    "ok  "* | "?   "* | "FAIL	"*)
      done=$((done + 1))
      if [ $((done % 10)) -eq 0 ]; then echo "      $done of $all packages (after $(elapsed "$SECONDS"))"; fi
      ;;
    esac
  done
}

# serial runs what needs no race detector, or is cut short for it.
serial() {
  local apart
  apart=$(packages "$alone")
  # shellcheck disable=SC2086 # packages have no spaces
  tests "$(count <<<"$apart")" -timeout 45m $apart
  tests 1 -run 'LargerMesh|ThousandReplicas' ./internal/app
  tests 1 -run 'EqualsFromNothing|EveryKindOfChange|AmongThousands|TablesOfOthers|CostsWhatItChanges' \
    ./internal/compile
}

packages() { "$go" list ./... | grep -E "$@"; }
count() { wc -w | tr -d ' '; }

run "fetching modules, Envoy and tools" make -j 3 modules envoy kube-modules conformance-modules dashboards-sdk
run "building Lateen, Kubernetes, its clients and Prometheus for tests, and the linter" make -j 3 build kube clients prometheus linter
run "vet and lint" make lint
run "known vulnerabilities" make vulncheck
run "the bookinfo mesh, checked" bin/lateen up examples/bookinfo --check
concurrent=$(packages -v "$alone")
# shellcheck disable=SC2086 # packages have no spaces
run "tests${race:+ with the race detector}, and live tests with real Envoys" \
  tests "$(count <<<"$concurrent")" $race -timeout 45m $concurrent
run "tests of what runs alone, planted faults, and what the race detector cuts short" serial
run "the core conformance tests of the Gateway API" make conformance-core
run "fuzzing" hack/fuzz.sh "$fuzztime"
printf 'all tests pass, in %s:\n%s' "$(elapsed "$SECONDS")" "$times"
