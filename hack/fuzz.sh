#!/usr/bin/env bash
# Runs every fuzz target for a while, as many at a time as there are processors: hack/fuzz.sh 10s
#
# Coverage guides the fuzzer through Lateen's own packages. `go test -fuzz` would compile all that they import once more for it,
# which takes minutes and guides it through other people's code. A package's program is built once for all its targets.
#
# What a target finds stands in its package's testdata/fuzz, and fails the run. Go's fuzzer also fails for reasons that are no
# find: it may take the end of its own time for a failure ("context deadline exceeded"), an input that took ten seconds for a
# deadlock, which on a busy machine any may take, and the kernel may end its processes for want of memory. Then it is looked at
# again what there is to find: all inputs of the target, with what was found, several times and with the race detector.
set -euo pipefail
cd "$(dirname "$0")/.."
time=${1:-10s}
race=$(command -v cc >/dev/null && echo -race || true)
module=github.com/lateen-mesh/lateen

# fuzz runs a target of a program; what the fuzzer says goes to the log.
fuzz() {
  (cd "$1" && exec "$program" -test.run '^$' -test.fuzz "^$2\$" -test.fuzztime "$time" -test.fuzzminimizetime 20x \
    -test.parallel 1 -test.fuzzcachedir "$(go env GOCACHE)/fuzz/$module/$1") </dev/null >"$log" 2>&1
}

# found tells that the log is of an input that fails by itself.
found() { grep -q 'Failing input written to' "$log" && ! grep -q 'hung or terminated unexpectedly' "$log"; }

# look runs all inputs of a target.
look() {
  echo "fuzz $1 $2: no input is known to fail; looking again"
  # shellcheck disable=SC2086 # nothing, if there is no C compiler
  CGO_ENABLED=${race:+1} go test $race -count 3 -timeout 10m -run "^$2\$" "./$1" </dev/null
}

# attempt fuzzes a target. One whose processes were ended gets its time once more.
attempt() {
  fuzz "$1" "$2" && return
  if found; then return 1; fi
  look "$1" "$2" || return 1
  grep -qE '^ *context deadline exceeded$' "$log" || fuzz "$1" "$2"
}

# fuzz.sh TIME NUMBER PACKAGE TARGET PROGRAM runs one target.
if [ $# -eq 5 ]; then
  program=$5
  log=$program.$4.log
  status=0
  attempt "$3" "$4" || status=1
  echo "fuzz $2 $3 $4: $(grep '^fuzz: elapsed' "$log" | tail -n 1)"
  [ $status -eq 0 ] || cat "$log"
  exit $status
fi

programs=$(mktemp -d)
trap 'rm -rf "$programs"' EXIT
processors=$(getconf _NPROCESSORS_ONLN)
files=$(grep -rl --include='*_test.go' '^func Fuzz' internal test | sort)
packages=$(for file in $files; do dirname "$file"; done | sort -u)
# shellcheck disable=SC2086 # packages have no spaces
echo "building the fuzz targets of $(echo $packages | wc -w | tr -d ' ') packages"
# shellcheck disable=SC2046,SC2086
go test -c -vet=off -gcflags="$module/...=-d=libfuzzer" -o "$programs/" $(printf './%s ' $packages)
targets=$(for file in $files; do sed -n "s|^func \(Fuzz[A-Za-z0-9_]*\).*|$(dirname "$file") \1|p" "$file"; done)
all=$(wc -l <<<"$targets" | tr -d ' ')
number=0
while read -r package target; do
  number=$((number + 1))
  echo "$number/$all $package $target $programs/${package##*/}.test"
done <<<"$targets" | xargs -P "$processors" -n 4 hack/fuzz.sh "$time"
