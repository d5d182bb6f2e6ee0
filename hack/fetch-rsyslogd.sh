#!/bin/sh
# Puts rsyslogd, whose shipping of access logs lateen perf lab around measures, into .tools/, once:
# hack/fetch-rsyslogd.sh [DIRECTORY]
#
# It is that of Debian or Ubuntu with two of its libraries, downloaded and unpacked, never installed. .tools/rsyslogd runs it with these
# libraries and its own modules.
set -eu
cd "$(dirname "$0")/.."

mkdir -p "${1:-.tools}"
tools=$(cd "${1:-.tools}" && pwd)
if [ -x "$tools/rsyslogd" ]; then
	echo "rsyslogd is there: $tools/rsyslogd"
	exit 0
fi
if ! command -v apt-get >/dev/null || ! command -v dpkg-deb >/dev/null; then
	echo "Fetching rsyslogd needs apt-get and dpkg-deb of Debian or Ubuntu. Elsewhere, LATEEN_RSYSLOGD names one; the lab does without."
	exit 0
fi
download=$(mktemp -d "$tools/download.XXXXXX")
trap 'rm -rf "$download"' EXIT
trap 'exit 1' HUP INT TERM
echo "Fetching rsyslogd of this distribution (1 MB) ..."
mkdir "$download/files"
for package in rsyslog libestr0 libfastjson4; do
	mkdir "$download/$package"
	hack/apt-download.sh "$download/$package" "$(dpkg --print-architecture)" "$package"
	cp "$download/$package"/root/usr/lib/*/*.so.* "$download/files/" 2>/dev/null || true # rsyslog has none
done
cp "$download/rsyslog/root/usr/sbin/rsyslogd" "$download"/rsyslog/root/usr/lib/*/rsyslog/*.so "$download/files/"
rm -rf "$tools/rsyslog"
mv "$download/files" "$tools/rsyslog"
cat >"$download/rsyslogd" <<'END'
#!/bin/sh
# rsyslogd with its own modules and libraries (hack/fetch-rsyslogd.sh).
files=$(cd "$(dirname "$0")" && pwd)/rsyslog
LD_LIBRARY_PATH=$files exec "$files/rsyslogd" -M "$files" "$@"
END
chmod 755 "$download/rsyslogd"
mv "$download/rsyslogd" "$tools/rsyslogd"
echo "rsyslogd: $tools/rsyslogd"
