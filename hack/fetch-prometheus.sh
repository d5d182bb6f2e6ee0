#!/bin/sh
# Puts Prometheus and promtool, which tests run, into .tools/, once: hack/fetch-prometheus.sh
#
# Debian and Ubuntu have them as a package, which is downloaded and unpacked in seconds. Elsewhere they are built (test/prometheus),
# which takes minutes; without service discovery, since tests say where targets are, and it is most of what would be compiled.
set -eu
cd "$(dirname "$0")/.."

if [ -x .tools/prometheus ] && [ -x .tools/promtool ]; then
	echo "Prometheus for tests is there: .tools/prometheus"
	exit 0
fi
mkdir -p .tools
if command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null; then
	download=$(mktemp -d .tools/download.XXXXXX)
	trap 'rm -rf "$download"' EXIT
	trap 'exit 1' HUP INT TERM
	echo "Fetching Prometheus of this distribution (19 MB) ..."
	hack/apt-download.sh "$download" "$(dpkg --print-architecture)" prometheus
	mv "$download/root/usr/bin/prometheus" "$download/root/usr/bin/promtool" .tools/
else
	for program in prometheus promtool; do
		hack/retry.sh hack/build-tool.sh $program test/prometheus -tags remove_all_sd github.com/prometheus/prometheus/cmd/$program
	done
fi
echo "Prometheus for tests: .tools/prometheus"
