#!/usr/bin/env bash
# Measures versions, and fails if a figure of the newest became worse than that of the version before (the rule stands
# in hack/perf-history.py). A scheduler runs it on a machine that does nothing else, always the same one:
#
#   hack/perf-history.sh                   this version: benchmarks and labs, RUNS times, into HISTORY; then the page
#   hack/perf-history.sh --past N          N commits, spread evenly from the first that has labs to this one
#   hack/perf-history.sh --past COMMIT...  these commits
#
# RUNS (3), LABS, BENCH (a pattern; "none": no benchmarks), HISTORY (bin/history.jsonl), PAGE (bin/history.md) and NOTE
# (a sentence for the page) may be set. A scheduled job keeps HISTORY from one run to the next. SCALE, another size than
# those below, is for trials: figures of different sizes are different figures. Commits of the past are built in
# worktrees that are removed afterwards; one that does not build is named and left out. Of the past, LABS are by default
# three quick labs, and there are no benchmarks.
set -euo pipefail
cd "$(dirname "$0")/.."
history=${HISTORY:-bin/history.jsonl}
page=${PAGE:-bin/history.md}
runs=${RUNS:-3}
results=$PWD/bin/history-run

# Versions of the past know no limits of CPU, and not every machine may set them.
export LIMITS=off

# The size of each lab as a share of the published one: the same for all versions, or they could not be compared.
sizes='
book          1
bookinfo-20   1
kubecon       0.02
aks-churn     0.06
aks-services  0.02
dns           1
phantom       1
data-plane    1
app           1
gateway       1
around        1
'

size() {
	local scale
	scale=$(awk -v lab="$1" '$1 == lab { print $2 }' <<<"$sizes")
	if [ -z "$scale" ]; then
		echo "LABS: there is no lab $1: want some of $(awk '{ printf "%s ", $1 }' <<<"$sizes")" >&2
		return 1
	fi
	echo "${SCALE:-$scale}"
}

# committed prints when a commit was made, by which the history is ordered.
committed() { TZ=UTC0 git show -s --format=%cd --date=format-local:%Y-%m-%dT%H:%M:%SZ "$1"; }

this_version() {
	local parts="clean-commit build envoy"
	case " $labs " in *" gateway "* | *" around "*) parts+=" kube" ;; esac
	case " $labs " in *" around "*) parts+=" prometheus rsyslogd" ;; esac
	make $parts
	for run in $(seq "$runs"); do
		for lab in $labs; do
			SCALE=$(size "$lab") hack/lab.sh "$lab" "$results/$lab-$run.json"
		done
		if [ "${BENCH:-.}" != none ]; then
			COUNT=1 BENCH=${BENCH:-} hack/bench.sh run "$results/bench-$run.txt"
		fi
	done
	hack/perf-history.py add --committed "$(committed HEAD)" "$history" "$results"/*
}

# spread prints commits of the past, oldest first: $1 of those since the labs came.
spread() {
	local first
	first=$(git log --first-parent --diff-filter=A --format=%H -- internal/perf/lab/lab.go | tail -1)
	if [ -z "$first" ]; then
		echo "--past: no commit that is here has labs: fetch the others (git fetch --unshallow)" >&2
		return 1
	fi
	{ git rev-list --first-parent "$first..HEAD" && echo "$first"; } | awk -v n="$1" '
		{ commit[NR] = $1 }
		END {
			if (n > NR) n = NR
			for (i = n - 1; i >= 0; i--) print commit[n == 1 ? 1 : 1 + int(i * (NR - 1) / (n - 1))]
		}'
}

# build_past builds what labs run of a commit, in a worktree of its own: the control plane and the load. All commits are
# built in one way; only what the version is stamped into differs, and stands in their Makefiles.
build_past() {
	local version=$1 tree=$trees/$1 log=$trees/$1.log programs=./cmd/lateen stamp
	local flags="-s -w" # symbols for debuggers take a third of the disk, and are not loaded
	git worktree add --quiet --detach "$tree" "$version"
	if [ -d "$tree/cmd/lateen-perf" ]; then programs+=" ./cmd/lateen-perf"; fi
	for stamp in $(grep -oE '[^ ]+\.[vV]ersion=' "$tree/Makefile" | sort -u); do flags+=" -X $stamp$version"; done
	mkdir -p "$tree/bin"
	# shellcheck disable=SC2086 # programs are words
	if ! (cd "$tree" && CGO_ENABLED=0 "${GO:-go}" build -tags grpcnotrace -trimpath -ldflags "$flags" -o bin/ $programs) \
		>"$log" 2>&1; then
		echo "$version does not build, and is left out: $(tail -1 "$log")" >&2
		return 1
	fi
}

# lab_past runs a lab of a commit. A lab that the commit lacks, or that fails, has no figures.
lab_past() {
	local version=$1 lab=$2 file=$results/$1/$2-$3.json
	mkdir -p "$results/$version"
	if ! (cd "$trees/$version" && bin/lateen perf lab "$lab" --scale "$(size "$lab")" -o json) \
		>"$file" 2>"$trees/$version.log"; then
		echo "$version: lab $lab has failed, and is left out: $(tail -1 "$trees/$version.log")" >&2
		rm -f "$file"
	fi
}

# past measures commits. All are run once before any is run again: other work of the machine spreads over all of them.
past() {
	local commits=$* versions="" commit version
	case $commits in
	*[!0-9]*) ;;
	*) if [ ${#commits} -lt 4 ]; then commits=$(spread "$((10#$commits))"); fi ;;
	esac
	trees=$(mktemp -d)
	trap 'rm -rf "$trees"; git worktree prune' EXIT
	make envoy
	export LATEEN_ENVOY=$PWD/.tools/envoy
	for commit in $commits; do
		version=$(git describe --tags --always "$commit")
		if build_past "$version"; then versions+=" $version"; fi
	done
	if [ -z "$versions" ]; then
		echo "--past: none of these commits can be measured: want others" >&2
		return 1
	fi
	for run in $(seq "$runs"); do
		for version in $versions; do
			for lab in $labs; do
				lab_past "$version" "$lab" "$run"
			done
			echo "run $run of $runs: $version is measured" >&2
		done
	done
	for version in $versions; do
		if compgen -G "$results/$version/*" >/dev/null; then
			hack/perf-history.py add --committed "$(committed "$version")" "$history" "$results/$version"/*
		fi
	done
}

labs=${LABS:-book bookinfo-20 kubecon aks-churn aks-services dns phantom data-plane app gateway around}
case "${1:-} $#" in
" 0") measure=this_version ;;
"--past "[2-9]* | "--past "1?*)
	measure=past
	labs=${LABS:-bookinfo-20 kubecon aks-services}
	shift
	;;
*)
	sed -n '2,13s/^# \{0,1\}//p' "$0" >&2
	exit 2
	;;
esac
for lab in $labs; do size "$lab" >/dev/null; done
hack/perf-history.py verify "$history" # before hours of measuring
rm -rf "$results"
mkdir -p "$results"
"$measure" "$@"
code=0
hack/perf-history.py check "$history" || code=$?
hack/perf-history.py page "$history" "$page" ${NOTE:+"$NOTE"}
echo "The history is drawn in $page"
exit "$code"
