#!/usr/bin/env bash
# Runs one lab with bin/lateen, and writes its report as JSON into a file:
#
#   hack/lab.sh NAME FILE             SCALE may be set: the share of the published size; FULL: all of it, and
#                                   all sidecars of the bookshops as Envoys;
#                                   LIMITS: whether the control planes of the bookshops have those of CPU (auto)
#
# The lab of gateways counts the updates of a status, which takes an API server (make kube): a test
# starts it.
set -euo pipefail
cd "$(dirname "$0")/.."
name=$1
file=$(realpath -m "$2")
if [ -n "${FULL:-}" ]; then SCALE=1; fi
if [ "$name" = gateway ]; then
	LATEEN_KUBE="$PWD/.tools/kube" LATEEN_KUBE_REQUIRED=1 LATEEN_ENVOY="$PWD/.tools/envoy" LATEEN_ENVOY_REQUIRED=1 \
		"${GO:-go}" test -count=1 -timeout 1h ./internal/cli/loadtest -run '^TestGatewayLabCountsAttachedRoutes$' \
		-args -programs="$PWD/bin" -report="$file" ${SCALE:+-scale="$SCALE"} >&2
else
	how=()
	if [ "$name" = bookinfo-20 ]; then how=(--limits "${LIMITS:-auto}" ${FULL:+--real}); fi
	bin/lateen perf lab "$name" ${SCALE:+--scale "$SCALE"} "${how[@]}" -o json >"$file"
fi
