#!/bin/sh
# Builds a program that tests run into .tools/NAME, once: hack/build-tool.sh NAME DIR [flags of go build] PACKAGE
#
# DIR is the Go module of its own in which it is built. The command $BEFORE, if there is one, runs there first. The program is kept under a name that holds a hash of the module's files and
# of these arguments, so that it is built again when one of them changes and never otherwise.
set -eu
cd "$(dirname "$0")/.."
name=$1 dir=$2
shift 2

checksum() {
	if command -v sha256sum >/dev/null; then sha256sum; else shasum -a 256; fi | cut -c 1-16
}

kept=$name-$( (find "$dir" -type f | sort | xargs cat; cat "$0"; echo "$@") | checksum)
mkdir -p .tools
if [ -x ".tools/$kept" ]; then
	echo "$name for tests is there: .tools/$kept"
else
	echo "Building $name for tests (the first time this takes minutes) ..."
	export CGO_ENABLED=0 # as the Makefile builds
	(cd "$dir" && ${BEFORE:-true} && ${GO:-go} build -p 2 -trimpath -ldflags '-s -w' -o "../../.tools/$kept.new" "$@")
	mv ".tools/$kept.new" ".tools/$kept"
fi
ln -sfn "$kept" ".tools/$name"
