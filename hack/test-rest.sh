#!/usr/bin/env bash
# Runs what CI runs beside hack/test.sh: the linter, the race detector, all live tests, API servers, conformance, planted faults
# and fuzzing: hack/test-rest.sh [FUZZTIME]
# Without root it skips what makes network namespaces or images, and says so at the end.
cd "$(dirname "$0")/.."
steps=7
# shellcheck source=hack/steps.sh
. hack/steps.sh
fuzztime=${1:-10s}
export LATEEN_ENVOY=$tools/envoy LATEEN_ENVOY_REQUIRED=1 LATEEN_KUBE=$tools/kube LATEEN_KUBE_REQUIRED=1
export LATEEN_RATELIMIT_REQUIRED=1
export LATEEN_CLIENTS_REQUIRED=1 LATEEN_PROMETHEUS_REQUIRED=1 LATEEN_PROMTOOL_REQUIRED=1 LATEEN_DASHBOARDS_REQUIRED=1

# -race needs a C compiler; without one the tests run without it.
race=$(command -v cc >/dev/null && echo -race || true)

# alone are packages in which nothing runs at the same time as something else, neither in the code nor in its tests: the race
# detector would find nothing, and make them seven times slower. hack/test.sh runs them.
alone='/(internal/(api/convert|translate/[a-z]+)|test/(imports|mutants|docs))$'

# waiting are packages whose tests mostly wait: for Envoys, API servers and load tests.
waiting='(/test/.*|/internal/(perf/(lab|dataplane)|cli/perf))$'

# raced runs packages with the race detector. What a property draws runs in one goroutine most of the time, seven times slower
# than without it: ten draws have all goroutines in them that a hundred have. hack/test.sh draws a hundred.
raced() {
  local imports drawing failed=0
  imports=$("$go" list -f '{{.ImportPath}} {{join .TestImports " "}} {{join .XTestImports " "}}' "$@")
  drawing=$(grep pgregory.net/rapid <<<"$imports" | cut -d ' ' -f 1)
  # shellcheck disable=SC2046,SC2086 # packages have no spaces
  tests $(($# - $(count <<<"$drawing"))) $race -timeout 45m $(printf '%s\n' "$@" | grep -vxF "$drawing") || failed=1
  # shellcheck disable=SC2086
  tests "$(count <<<"$drawing")" $race -timeout 45m $drawing -rapid.checks=10 || failed=1
  return $failed
}

# behind plants faults, and gives way to all else. It still gets a tenth of what another process does.
behind() {
  renice -n 10 -p "$BASHPID" >/dev/null || true
  tests 1 -timeout 60m ./test/mutants
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

run "fetching Prometheus and tools" make -j 3 prometheus kube-modules conformance-modules dashboards-sdk
run "building all programs, Kubernetes and what else tests run, and the linter" make -j 3 build kube clients ratelimit linter
run "vet and lint" make lint
run "known vulnerabilities" optional hack/vulncheck.sh "$tools/govulncheck"
concurrent=$(packages -v "$alone")
quick=$(grep -vE "$waiting" <<<"$concurrent")
live=$(grep -E "$waiting" <<<"$concurrent")
# shellcheck disable=SC2086 # packages have no spaces
run "tests${race:+ with the race detector}" raced $quick
# shellcheck disable=SC2086
run "tests with real Envoys, conformance tests of the Gateway API, and behind them planted faults" \
  beside "$(count <<<"$live")" $race -timeout 45m $live
run "fuzzing" hack/fuzz.sh "$fuzztime"
finish "the rest of the tests passes"
if [ "$(id -u)" -ne 0 ]; then
  echo "skipped without root: test/cluster, test/conformance, test/images, parts of test/incluster and internal/agent/intercept"
fi
