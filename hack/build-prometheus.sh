#!/bin/sh
# Builds Prometheus and promtool of test/prometheus into .tools/, once. Usage: hack/build-prometheus.sh
#
# Service discovery is left out: tests say where targets are, and it is most of what would be compiled.
set -eu
cd "$(dirname "$0")/.."

version=$(cat test/prometheus/go.mod test/prometheus/go.sum "$0" | cksum | cut -d ' ' -f 1)
mkdir -p .tools
for program in prometheus promtool; do
	if [ -x ".tools/$program-$version" ]; then
		echo "$program is there: .tools/$program-$version"
	else
		echo "Building $program for tests (the first time both take two minutes) ..."
		(cd test/prometheus && ${GO:-go} build -p 2 -tags remove_all_sd -ldflags '-s -w' -o "../../.tools/$program-$version.new" \
			"github.com/prometheus/prometheus/cmd/$program")
		mv ".tools/$program-$version.new" ".tools/$program-$version"
	fi
	ln -sfn "$program-$version" ".tools/$program"
done
