#!/usr/bin/env bash
# Measures this version, and fails if a figure became worse than that of the version before (the rule stands in
# hack/perf-history.py). A scheduler runs it on a machine that does nothing else, always the same one:
#
#   hack/perf-history.sh              benchmarks and labs, RUNS times, into HISTORY; then the page
#
# RUNS (3), LABS, SCALE (of the labs), BENCH (a pattern; "none": no benchmarks), HISTORY (bin/history.jsonl), PAGE
# (bin/history.md) and NOTE (a sentence for the page) may be set. A scheduled job keeps HISTORY from one run to the next.
set -euo pipefail
cd "$(dirname "$0")/.."
history=${HISTORY:-bin/history.jsonl}
page=${PAGE:-bin/history.md}
results=bin/history-run
make build envoy kube
rm -rf "$results"
mkdir -p "$results"
for run in $(seq "${RUNS:-3}"); do
	for lab in ${LABS:-book bookinfo-20 kubecon aks-churn aks-services dns phantom data-plane app gateway around}; do
		hack/lab.sh "$lab" "$results/$lab-$run.json"
	done
	if [ "${BENCH:-.}" != none ]; then
		COUNT=1 BENCH=${BENCH:-} hack/bench.sh run "$results/bench-$run.txt"
	fi
done
hack/perf-history.py add "$history" "$results"/*
code=0
hack/perf-history.py check "$history" || code=$?
hack/perf-history.py page "$history" "$page" ${NOTE:+"$NOTE"}
echo "The history is drawn in $page"
exit "$code"
