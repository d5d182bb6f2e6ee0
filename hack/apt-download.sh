#!/bin/sh
# Downloads a package of Debian or Ubuntu and unpacks it, without installing it: hack/apt-download.sh DIRECTORY ARCH PACKAGE[=VERSION]
#
# DIRECTORY gets the package as *.deb and its files in root/. apt-get checks the package against the distribution's keys, with lists of
# its own in DIRECTORY, so this needs no root and changes nothing of the machine.
set -eu

if ! command -v apt-get >/dev/null || ! command -v dpkg-deb >/dev/null; then
	echo "Fetching ${3%%=*} needs apt-get and dpkg-deb of Debian or Ubuntu." >&2
	exit 1
fi
retry=$(cd "$(dirname "$0")" && pwd)/retry.sh
directory=$(cd "$1" && pwd) arch=$2
mkdir -p "$directory/lists/partial" "$directory/cache/archives/partial" "$directory/none" "$directory/root"
sources=/etc/apt/sources.list
for file in /etc/apt/sources.list.d/debian.sources /etc/apt/sources.list.d/ubuntu.sources; do
	if [ -e "$file" ]; then sources=$file; fi
done

apt() {
	"$retry" apt-get -qq -o APT::Architecture="$arch" -o APT::Architectures::="$arch" -o Dir::State::Lists="$directory/lists" \
		-o Dir::State::status=/dev/null -o Dir::Cache="$directory/cache" -o Dir::Etc::sourceparts="$directory/none" \
		-o Dir::Etc::sourcelist="$sources" -o APT::Sandbox::User= "$@"
}

cd "$directory"
apt update
apt download "${3%%=*}:$arch${3#"${3%%=*}"}"
dpkg-deb -x ./*.deb root
