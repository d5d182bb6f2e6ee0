#!/usr/bin/env bash
# Runs the conformance tests of the Gateway API: hack/conformance.sh [FLAGS OF THE TESTS]
#
# They need root, and a network namespace for each Pod. Where these cannot be had, the tests are
# skipped, unless $LATEEN_CONFORMANCE_REQUIRED is set. They are a Go module of its own; its
# dependencies have the versions of Lateen's and are built with the same tags, so that most of them
# are compiled once for both. Without vet, which would look through all of them.
set -euo pipefail
cd "$(dirname "$0")/.."
tools=$PWD/.tools

if [ "$(uname)" != Linux ] || [ "$(id -u)" != 0 ] || ! unshare --net --mount true 2>/dev/null; then
  echo "the conformance tests of the Gateway API need Linux, root, and the right to make network namespaces" >&2
  if [ -n "${LATEEN_CONFORMANCE_REQUIRED:-}" ]; then exit 1; fi
  echo "skipped: the conformance tests of the Gateway API"
  exit 0
fi
export LATEEN_KUBE=$tools/kube LATEEN_KUBE_REQUIRED=1 LATEEN_ENVOY=$tools/envoy LATEEN_ENVOY_REQUIRED=1
cd test/conformance
export CGO_ENABLED=0 # as the Makefile builds
"${GO:-go}" test -vet=off -trimpath -tags=grpcnotrace -count=1 -timeout 90m . "$@"
