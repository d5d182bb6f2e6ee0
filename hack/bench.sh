#!/usr/bin/env bash
# Runs the benchmarks of test/bench and compares results:
#
#   hack/bench.sh run [FILE]     measures into FILE (bin/bench.txt) in Go's benchmark format
#   hack/bench.sh compare        compares bin/bench.txt with the baseline in the repository
#
# BENCH (a pattern as for go test -bench), COUNT and BENCHTIME say what to run, how often, and how long each time.
set -euo pipefail
cd "$(dirname "$0")/.."
latest=bin/bench.txt
baseline=test/bench/baseline.txt

# facts are the configuration of a run, as lines of the benchmark format. go test adds goos, goarch, pkg and cpu.
facts() {
  echo "cores: $(getconf _NPROCESSORS_ONLN)"
  awk '/^MemTotal:/ {printf "memory: %.0f GiB\n", $2 / 1048576}' /proc/meminfo
  echo "go: $(go env GOVERSION)"
  echo "commit: $(git describe --tags --always --dirty)" # as the Makefile names versions
  echo "date: $(date -u +%F)"
}

# run measures. Names go without the number of cores, which is among the facts.
run() {
  local file=${1:-$latest}
  mkdir -p "$(dirname "$file")"
  {
    facts
    go test -run '^$' -bench "${BENCH:-.}" -benchmem -count "${COUNT:-6}" -benchtime "${BENCHTIME:-100ms}" \
      -timeout 60m ./test/bench
  } | sed -uE 's/^(Benchmark[^[:space:]]*)-[0-9]+([[:space:]])/\1\2/' | tee "$file"
}

# machine is what must be equal for times to be comparable.
machine() { grep -hE '^(cores|memory|cpu|go):' "$1" | sort -u; }

compare() {
  if [ ! -s "$latest" ]; then
    echo "There is no $latest to compare with the baseline: run make bench first." >&2
    exit 1
  fi
  if ! diff <(machine "$baseline") <(machine "$latest") >bin/bench-machines.txt; then
    echo "Baseline (<) and $latest (>) were measured on different machines: compare allocations, not times."
    cat bin/bench-machines.txt
    echo
  fi
  # Only what was run now: else a run of a few benchmarks would be lost among the others, and change the geometric mean.
  awk 'NR == FNR { if (/^Benchmark/) ran[$1] = 1; next } !/^Benchmark/ || $1 in ran' "$latest" "$baseline" >bin/bench-baseline.txt
  .tools/benchstat -row .fullname -ignore cores,memory,go,cpu,commit,date baseline=bin/bench-baseline.txt now="$latest"
}

case ${1:-} in
run) run "${2:-}" ;;
compare) compare ;;
*)
  sed -n '2,8s/^# \{0,1\}//p' "$0" >&2
  exit 2
  ;;
esac
