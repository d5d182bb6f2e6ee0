#!/bin/sh
# Runs a command that fetches something, and again if it fails, as networks do: four times at most. Usage: hack/retry.sh COMMAND ...
set -u
for pause in 2 5 15; do
	"$@" && exit 0
	echo "That failed. Again in $pause s: $*" >&2
	sleep "$pause"
done
exec "$@"
