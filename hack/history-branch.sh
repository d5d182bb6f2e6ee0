#!/usr/bin/env bash
# Keeps the figures of versions on a branch that has nothing else, for a scheduled job:
#
#   hack/history-branch.sh take DIR            checks the branch out into DIR, empty the first time
#   hack/history-branch.sh keep DIR MESSAGE    commits what stands in DIR, and pushes it
#
# BRANCH (perf-history) and REMOTE (origin) may be set. DIR may be left from an earlier job, in any state.
set -euo pipefail
branch=${BRANCH:-perf-history}
remote=${REMOTE:-origin}
author=(-c user.name=perf-history -c user.email=perf-history@users.noreply.github.com)

# tip prints the branch's commit, or a new one without files if there is no such branch. That a remote does not answer is
# an error: else its history would be begun anew.
tip() {
	local code=0
	git ls-remote --exit-code --heads "$remote" "$branch" >/dev/null || code=$?
	case $code in
	0)
		git fetch --quiet "$remote" "refs/heads/$branch"
		git rev-parse FETCH_HEAD
		;;
	2) git "${author[@]}" commit-tree -m "history: begins" "$(git mktree </dev/null)" ;;
	*) return "$code" ;;
	esac
}

take() {
	local commit
	commit=$(tip)
	rm -rf "$1"
	git worktree prune
	git worktree add --quiet --detach "$1" "$commit"
}

keep() {
	cd "$1"
	git add -A
	if git diff --cached --quiet; then
		echo "the history has nothing new"
		return
	fi
	git "${author[@]}" commit --quiet -m "$2"
	git push --quiet "$remote" "HEAD:refs/heads/$branch"
}

case "${1:-} $#" in
"take 2") take "$2" ;;
"keep 3") keep "$2" "$3" ;;
*)
	sed -n '2,7s/^# \{0,1\}//p' "$0" >&2
	exit 2
	;;
esac
