#!/bin/sh
# Builds the programs of test/estate, each in a Go module of its own, into .tools, and runs the tests
# that need them, and those of the objects of programs that cannot be built here.
set -eu
cd "$(dirname "$0")/.."
: "${GO:=go}" "${TOOLS:=$PWD/.tools}"
mkdir -p "$TOOLS"
export CGO_ENABLED=0 # as the Makefile builds
for name in flagger rollouts; do
	echo "Building $name for tests (the first time this takes minutes) ..."
	(cd "test/estate/$name" && GO=$GO ../../../hack/retry.sh "$GO" build -p 2 -trimpath -tags grpcnotrace \
		-ldflags '-s -w' -o "$TOOLS/$name" tool)
done
export LATEEN_FLAGGER=$TOOLS/flagger LATEEN_ROLLOUTS=$TOOLS/rollouts LATEEN_KUBE=$TOOLS/kube LATEEN_ENVOY=$TOOLS/envoy
export LATEEN_FLAGGER_REQUIRED=1 LATEEN_ROLLOUTS_REQUIRED=1 LATEEN_KUBE_REQUIRED=1 LATEEN_ENVOY_REQUIRED=1
export LATEEN_PROMETHEUS_REQUIRED=1
run() {
	"$GO" test -tags grpcnotrace -trimpath -count=1 -timeout 1h "$@"
}
run ./test/incluster -run '^(TestFlagger|TestArgoRollouts|TestWrittenObjects|TestValuesOfIstioCSR|TestKiali)'
run ./test/cluster -run '^TestFlagger'
