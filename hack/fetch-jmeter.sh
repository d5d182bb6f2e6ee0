#!/bin/sh
# Fetches the pinned Apache JMeter into .tools/, once: hack/fetch-jmeter.sh
#
# Maven downloads its parts and what they need (hack/jmeter/pom.xml) from Maven Central or the mirror of your settings. They come to
# lie as in JMeter's own archive: bin with the launcher and the properties, lib, lib/ext. They are used only if the checksum over
# all of them is the one written here. For a new version change the pom, the version and the checksum.
set -eu
cd "$(dirname "$0")/.."

version=5.6.3
sha256=64e8124b7a64641f7e9b67b6eabab65accd3b2e3655a2eb2bbe5ddddb2d307e9
tools=.tools
home=$tools/jmeter-$version

if [ -x "$home/bin/jmeter" ] && [ -x $tools/jmeter ]; then
	echo "JMeter $version is there: $tools/jmeter"
	exit 0
fi
for program in java mvn unzip; do
	if ! command -v $program >/dev/null; then
		echo "Fetching JMeter needs $program, which is not in \$PATH: Java 8 or newer, Maven and unzip." >&2
		echo "On Debian and Ubuntu: apt-get install openjdk-17-jre-headless maven unzip" >&2
		echo "Or set LATEEN_JMETER to the program jmeter of a JMeter $version that you have." >&2
		exit 1
	fi
done

checksum() {
	if command -v sha256sum >/dev/null; then sha256sum "$@"; else shasum -a 256 "$@"; fi
}

mkdir -p $tools
new=$(mktemp -d "$tools/download.XXXXXX")
trap 'rm -rf "$new"' EXIT
trap 'exit 1' HUP INT TERM
echo "Fetching JMeter $version (70 MB) ..."
hack/retry.sh mvn -q -B -f hack/jmeter/pom.xml org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies \
	-DincludeScope=runtime -DoutputDirectory="$PWD/$new/lib"
is=$(cd "$new/lib" && LC_ALL=C && export LC_ALL && checksum ./*.jar | checksum | cut -d ' ' -f 1)
if [ "$is" != "$sha256" ]; then
	echo "The parts of JMeter $version have the checksum $is; want $sha256." >&2
	exit 1
fi
mkdir "$new/bin" "$new/lib/ext" "$new/lib/junit"
mv "$new/lib/ApacheJMeter-$version.jar" "$new/bin/ApacheJMeter.jar"
unzip -q "$new/lib/ApacheJMeter_config-$version.jar" 'bin/*' -d "$new"
rm "$new/lib/ApacheJMeter_config-$version.jar"
mv "$new"/lib/ApacheJMeter_*.jar "$new/lib/ext/"
cp hack/jmeter/jmeter.sh "$new/bin/jmeter"
chmod 755 "$new" "$new/bin/jmeter"
if ! "$new/bin/jmeter" --version -j "$new/log" >"$new/says" 2>&1 || ! grep -qF "$version" "$new/says"; then
	echo "JMeter $version does not run here:" >&2
	cat "$new/says" >&2
	exit 1
fi
rm -f "$new/says" "$new/log"
rm -rf "$home"
mv "$new" "$home"
ln -sfn "jmeter-$version/bin/jmeter" $tools/jmeter
echo "JMeter $version: $tools/jmeter"
