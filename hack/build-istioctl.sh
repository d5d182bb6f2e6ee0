#!/bin/sh
# Builds Istio's own istioctl of test/istioctl into .tools/istioctl, once. Usage: hack/build-istioctl.sh
#
# The program is kept under a name that holds a hash of its sources and of the versions that they use, so that it is built again
# when one of them changes and never otherwise.
set -eu
cd "$(dirname "$0")/.."

checksum() {
	if command -v sha256sum >/dev/null; then sha256sum; else shasum -a 256; fi | cut -c 1-16
}

name=istioctl-$(cat test/istioctl/*.go test/istioctl/go.mod test/istioctl/go.sum "$0" | checksum)
mkdir -p .tools
if [ -x ".tools/$name" ]; then
	echo "istioctl for tests is there: .tools/$name"
else
	echo "Building istioctl for tests (the first time this takes minutes) ..."
	(cd test/istioctl && ${GO:-go} build -p 2 -ldflags '-s -w' -o "../../.tools/$name.new" .)
	mv ".tools/$name.new" ".tools/$name"
fi
ln -sfn "$name" .tools/istioctl
