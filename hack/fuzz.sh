#!/usr/bin/env bash
# Runs every fuzz target for a while, one after the other: hack/fuzz.sh 10s
set -euo pipefail
cd "$(dirname "$0")/.."
time=${1:-10s}
grep -rl --include='*_test.go' '^func Fuzz' internal test | sort | while read -r file; do
  package=./$(dirname "$file")
  sed -n 's/^func \(Fuzz[A-Za-z0-9_]*\).*/\1/p' "$file" | while read -r target; do
    echo "fuzz $package $target ($time)"
    go test -run '^$' -fuzz "^$target\$" -fuzztime "$time" -fuzzminimizetime 20x -parallel 2 "$package" </dev/null | grep -v '^fuzz: elapsed' || exit 1
  done
done
