#!/bin/sh
# Fetches the pinned C library that Envoy is linked with, for the proxy's image, once:
# hack/fetch-libc.sh DIRECTORY ARCH, with ARCH amd64 or arm64. It comes to lie in DIRECTORY/libc-ARCH as in an image.
#
# It is Debian's, from the package libc6, which apt-get downloads with lists and settings of its own: this works on Debian 12,
# needs no root, and changes nothing of the machine. The package is only unpacked, and used only if its checksum is the one
# written here. Debian keeps the newest version alone: when it has another, change the version and both checksums.
set -eu

version=2.36-9+deb12u14
case "${2:-}" in
amd64)
	triplet=x86_64-linux-gnu
	loader=lib64/ld-linux-x86-64.so.2
	sha256=ba4f88f73dbc3ae9055f3c20f4523bfdbaf1ad13ff95e258924f77d20b4fbedf
	;;
arm64)
	triplet=aarch64-linux-gnu
	loader=lib/ld-linux-aarch64.so.1
	sha256=01f4330719fd4f65580e16ea5a0527f372fca750e8f588d26deaf09f2d3b1cf4
	;;
*) echo "usage: hack/fetch-libc.sh DIRECTORY amd64|arm64" >&2 && exit 2 ;;
esac

mkdir -p "$1"
tools=$(cd "$1" && pwd)
fetch=$(cd "$(dirname "$0")" && pwd)/apt-download.sh
library=$tools/libc-$2
if [ "$(cat "$library.version" 2>/dev/null)" = "$version" ]; then
	echo "The C library $version is there: $library"
	exit 0
fi
if ! command -v apt-get >/dev/null || ! command -v dpkg-deb >/dev/null; then
	echo "Fetching the C library needs apt-get and dpkg-deb of Debian 12." >&2
	echo "Put that of your system into $library as it lies in an image, and its version $version into $library.version." >&2
	exit 1
fi

download=$(mktemp -d "$tools/download.XXXXXX")
trap 'rm -rf "$download"' EXIT
trap 'exit 1' HUP INT TERM
echo "Fetching the C library $version for $2 ..."
"$fetch" "$download" "$2" "libc6=$version"
cd "$download"
package=$(ls libc6_*.deb)
got=$(sha256sum "$package" | cut -d ' ' -f 1)
if [ "$got" != "$sha256" ]; then
	echo "The C library that came is not the pinned one: its SHA-256 is $got, want $sha256." >&2
	exit 1
fi

rm -rf "$library"
mkdir -p "$library/lib/$triplet" "$library/$(dirname "$loader")" "$library/usr/share/doc/libc6"
for name in libc.so.6 libm.so.6 libdl.so.2 librt.so.1 libpthread.so.0; do
	cp "root/lib/$triplet/$name" "$library/lib/$triplet/$name"
done
cp "root/lib/$triplet/$(basename "$loader")" "$library/$loader"
cp root/usr/share/doc/libc6/copyright "$library/usr/share/doc/libc6/copyright"
echo "$version" >"$library.version"
echo "The C library $version: $library"
