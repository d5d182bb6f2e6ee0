#!/bin/sh
# Builds the Kubernetes control plane of test/kube into .tools/kube, once. Usage: hack/build-kube.sh
#
# The program is kept under a name that holds a hash of its sources and of the versions that they use, so that it is built again
# when one of them changes and never otherwise: the first build compiles Kubernetes, four to five minutes on two cores.
set -eu
cd "$(dirname "$0")/.."

checksum() {
	if command -v sha256sum >/dev/null; then sha256sum; else shasum -a 256; fi | cut -c 1-16
}

name=kube-$(cat test/kube/*.go test/kube/go.mod test/kube/go.sum "$0" | checksum)
mkdir -p .tools
if [ -x ".tools/$name" ]; then
	echo "Kubernetes for tests is there: .tools/$name"
else
	echo "Building Kubernetes for tests (the first time this takes four to five minutes) ..."
	# Of vet, without what looks through all that is imported for functions like Printf and functions that never return.
	(cd test/kube && ${GO:-go} vet -printf=false -lostcancel=false . && ${GO:-go} build -p 2 -ldflags '-s -w' -o "../../.tools/$name.new" .)
	mv ".tools/$name.new" ".tools/$name"
fi
ln -sfn "$name" .tools/kube
