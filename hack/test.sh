#!/usr/bin/env bash
# Runs all that CI runs, and tells which step it is at and how long each took: hack/test.sh
# Without root it skips what makes network namespaces or images, and says so at the end.
#
# On a new machine with two processors most of the time goes into compiling, so all steps compile alike: with the same tags,
# Kubernetes, the linter and Lateen at the same time, and `go vet` as part of the linter alone.
set -euo pipefail
cd "$(dirname "$0")/.."
fuzztime=${1:-10s}
tools=$PWD/.tools
go=${GO:-go}
export GO=$go
# As the Makefile builds; the race detector alone needs C.
export GOFLAGS="-trimpath -tags=grpcnotrace ${GOFLAGS:-}" CGO_ENABLED=0
export LATEEN_ENVOY=$tools/envoy LATEEN_ENVOY_REQUIRED=1 LATEEN_KUBE=$tools/kube LATEEN_KUBE_REQUIRED=1
export LATEEN_CLIENTS_REQUIRED=1 LATEEN_PROMETHEUS_REQUIRED=1 LATEEN_PROMTOOL_REQUIRED=1 LATEEN_DASHBOARDS_REQUIRED=1

# -race needs a C compiler; without one the tests run without it.
race=$(command -v cc >/dev/null && echo -race || true)

# alone are packages in which nothing runs at the same time as something else, neither in the code nor in its tests: the race
# detector would find nothing, and make them seven times slower.
alone='/(internal/(api/convert|translate/[a-z]+)|test/(imports|mutants|docs))$'

# waiting are packages whose tests mostly wait for Envoys and API servers.
waiting='/test/'

steps=8
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

# behind runs what needs no race detector, or is cut short for it, and gives way to all else.
behind() {
  local apart
  renice -n 19 -p "$BASHPID" >/dev/null || true
  apart=$(packages "$alone")
  # shellcheck disable=SC2086 # packages have no spaces
  tests "$(count <<<"$apart")" -timeout 60m $apart
  tests 1 -run 'LargerMesh|ThousandReplicas|LargeEstate' ./internal/app
  tests 2 -run 'StaysWithinItsMemory|CostsLittleMemory|StallAndLeave' ./test/wire ./internal/perf/sidecar
  tests 1 -run 'EqualsFromNothing|EveryKindOfChange|AmongThousands|TablesOfOthers|CostsWhatItChanges' \
    ./internal/compile
}

# beside runs tests that mostly wait, and behind them what computes. It tells what all of them find.
beside() {
  local failed=0 computing
  behind &
  computing=$!
  tests "$@" || failed=1
  make conformance-core || failed=1
  wait "$computing" || failed=1
  return $failed
}

packages() { "$go" list ./... | grep -E "$@"; }
count() { wc -w | tr -d ' '; }

run "fetching modules, Envoy, Prometheus and tools" make -j 3 modules envoy prometheus kube-modules conformance-modules dashboards-sdk
run "building Lateen, Kubernetes and its clients for tests, and the linter" make -j 3 build kube clients linter
run "vet and lint" make lint
run "known vulnerabilities" optional hack/vulncheck.sh "$tools/govulncheck"
run "the bookinfo mesh, checked" bin/lateen up examples/bookinfo --check
concurrent=$(packages -v "$alone")
quick=$(grep -v "$waiting" <<<"$concurrent")
live=$(grep "$waiting" <<<"$concurrent")
# shellcheck disable=SC2086 # packages have no spaces
run "tests${race:+ with the race detector}" tests "$(count <<<"$quick")" $race -timeout 45m $quick
# shellcheck disable=SC2086
run "tests with real Envoys, conformance tests of the Gateway API, and behind them planted faults and other tests" \
  beside "$(count <<<"$live")" $race -timeout 45m $live
run "fuzzing" hack/fuzz.sh "$fuzztime"
printf 'all tests pass, in %s:\n%s' "$(elapsed "$SECONDS")" "$times"
if [ -n "$unchecked" ]; then echo "${unchecked#?}" >&2; fi
if [ "$(id -u)" -ne 0 ]; then
  echo "skipped without root: test/cluster, test/conformance, test/images, parts of test/incluster and internal/agent/intercept"
fi
