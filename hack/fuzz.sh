#!/usr/bin/env bash
# Runs every fuzz target for a while, one after the other: hack/fuzz.sh 10s
#
# What a target finds stands in its package's testdata/fuzz, and ends the run. Go's fuzzer also fails for reasons that are no find: it
# may take the end of its own time for a failure ("context deadline exceeded"), an input that took ten seconds for a deadlock, which on a
# busy machine any may take, and the kernel may end its processes for want of memory. Then it is looked at again what there is to find:
# all inputs of the target, with what was found, several times and with the race detector.
set -euo pipefail
cd "$(dirname "$0")/.."
time=${1:-10s}
race=$(command -v cc >/dev/null && echo -race || true)
log=$(mktemp)
trap 'rm -f "$log"' EXIT

# fuzz runs a target; what the fuzzer says goes to the log too.
fuzz() {
  local status=0
  go test -run '^$' -fuzz "^$2\$" -fuzztime "$time" -fuzzminimizetime 20x -parallel 2 "$1" </dev/null >"$log" 2>&1 || status=1
  grep -v '^fuzz: elapsed' "$log" || true
  return $status
}

# found tells that the log is of an input that fails by itself.
found() { grep -q 'Failing input written to' "$log" && ! grep -q 'hung or terminated unexpectedly' "$log"; }

# look runs all inputs of a target.
look() {
  echo "fuzz $1 $2: no input is known to fail; looking again"
  # shellcheck disable=SC2086 # nothing, if there is no C compiler
  go test $race -count 3 -timeout 10m -run "^$2\$" "$1" </dev/null
}

# attempt fuzzes a target. One whose processes were ended gets its time once more.
attempt() {
  fuzz "$1" "$2" && return
  if found; then return 1; fi
  look "$1" "$2" || return 1
  grep -qE '^ *context deadline exceeded$' "$log" || fuzz "$1" "$2"
}

grep -rl --include='*_test.go' '^func Fuzz' internal test | sort | while read -r file; do
  package=./$(dirname "$file")
  sed -n 's/^func \(Fuzz[A-Za-z0-9_]*\).*/\1/p' "$file" | while read -r target; do
    echo "fuzz $package $target ($time)"
    attempt "$package" "$target" || exit 1
  done
done
