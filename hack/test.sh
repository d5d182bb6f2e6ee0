#!/usr/bin/env bash
# Runs the tests of every day, and tells which step it is at and how long each took: hack/test.sh
#
# It needs no program but Go and Envoy: what needs an API server, Prometheus, the race detector or the linter is in
# hack/test-rest.sh, and CI runs both.
cd "$(dirname "$0")/.."
steps=5
# shellcheck source=hack/steps.sh
. hack/steps.sh
export LATEEN_ENVOY=$tools/envoy LATEEN_ENVOY_REQUIRED=1
# Tests that need these are skipped, also where they are there.
export LATEEN_KUBE=none LATEEN_CLIENTS=none LATEEN_RATELIMIT=none LATEEN_PROMETHEUS=none LATEEN_PROMTOOL=none

# apart are packages whose tests measure, wait for Envoys and API servers, or plant faults.
apart='/(internal/perf/lab|test/(agent|bench|booklab|cluster|clients|conformance|images|incluster|istioctl|kube|live|mutants|observe|prometheus|wire))(/|$)'

# features are live tests, one of each feature.
features='RequestsFollowTheirVirtualService|GatewaysLeadRequestsIntoTheMesh|GatewayAPILeadsRequestsIntoTheMesh'
features+='|IngressesLeadRequestsIntoTheMesh|TimeoutsRetriesAndLimitsHold|PoliciesDecideAsDocumented'
features+='|TokensDecideAsDocumented|EndpointsWithSidecarAreCalledInMutualTLS|GatewaysServeTLS'
features+='|ServiceEntriesLeadOutOfTheMesh|SidecarLimitsWhatAWorkloadReaches|LocalityDecidesWhereRequestsGo'
features+='|AccessLogsReachTheirProviders|TelemetriesChangeMetrics|SpansOfBookinfo|WorkloadEntriesServe'
features+='|WorkloadsOfAllKindsAreReached|RolloutToAnotherAccountFailsNoRequest'

run "fetching modules and Envoy" make -j 2 modules envoy
run "the bookinfo mesh, checked" make check
quick=$(packages -v "$apart")
# shellcheck disable=SC2086 # packages have no spaces
run "unit, golden and property tests" tests "$(count <<<"$quick")" -timeout 30m $quick
run "what streams cost" tests 1 -run 'StaysWithinItsMemory|CostsLittleMemory|StallAndLeave' ./test/wire
run "a live test of each feature, with real Envoys" tests 1 -timeout 20m -run "^Test($features)\$" ./test/live/features
finish "tests pass"
