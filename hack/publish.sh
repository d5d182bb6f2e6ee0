#!/usr/bin/env bash
# Publishes the images and the charts of a version: hack/publish.sh [--dry-run] REGISTRY VERSION
#
# hack/publish.sh registry.example.com/mesh v1.2.3 pushes registry.example.com/mesh/lateen:v1.2.3
# and the other images, then registry.example.com/mesh/charts/base:1.2.3 and the other charts. The
# chart lateen gets the pushed image as its default. cosign signs each by its digest, and attaches
# to an image what its programs are made of. It signs without a key: with the identity of the CI
# job, or of the person who answers its question in a browser.
#
# With --dry-run each command is printed, one a line, and none is run. DIGEST stands for a digest.
# A command that fails ends the script. All that needs no registry comes before the first push.
set -euo pipefail
cd "$(dirname "$0")/.."

# The images of hack/images, each with the programs whose SBOM it gets.
images=("lateen lateen-discovery" "lateen-proxy lateen-agent" "lateen-cli lateen lateen-installer")
charts=(base lateen gateway)
packages=bin/charts

fail() {
  echo "hack/publish.sh: $1" >&2
  exit 1
}

# show prints a command as a shell takes it.
show() {
  local word line=""
  for word; do
    if [[ ! $word =~ ^[A-Za-z0-9_./:@=,+-]+$ ]]; then word=${word@Q}; fi
    line+=" $word"
  done
  echo "${line# }"
}

# run shows a command and runs it.
run() {
  show "$@"
  if [ -z "$dry" ]; then "$@"; fi
}

# pushed runs a command that prints the digest of what is in a repository, and leaves
# REPOSITORY@DIGEST in $reference: pushed REPOSITORY COMMAND ...
pushed() {
  local repository=$1 digest=DIGEST
  shift
  show "$@"
  if [ -z "$dry" ]; then
    digest=$("$@")
    digest=${digest##*@}
    if [[ ! $digest =~ ^sha256:[0-9a-f]{64}$ ]]; then fail "$* printed no digest: $digest"; fi
  fi
  reference=$repository@$digest
}

# check_arguments refuses what would fail after some of it is pushed.
check_arguments() {
  local usage="want make publish REGISTRY=registry.example.com/mesh VERSION=v1.2.3"
  if [ -z "$registry" ]; then fail "REGISTRY is empty; $usage"; fi
  if [[ ! $registry =~ ^[a-z0-9.-]+(:[0-9]+)?(/[a-z0-9._-]+)*$ ]]; then
    fail "REGISTRY = $registry: want a host and a path in small letters, without oci:// and a slash at the end; $usage"
  fi
  local number='(0|[1-9][0-9]*)'
  if [[ ! $version =~ ^v$number\.$number\.$number(-[0-9A-Za-z.-]+)?$ ]]; then
    fail "VERSION = $version: want a tag such as v1.2.3 or v1.2.3-rc.1; $usage"
  fi
}

# check_tools looks for the programs that it runs.
check_tools() {
  local tool
  for tool in git make crane helm cosign; do
    if command -v "$tool" >/dev/null; then continue; fi
    case $tool in
    git | make) fail "$tool is not installed: install it" ;;
    *) fail "$tool is not installed: run make publish-tools, which builds it into .tools, or put it into PATH" ;;
    esac
  done
}

# check_commit: what is published is a commit that others can check out by the version.
check_commit() {
  local tagged
  tagged=$(git rev-parse --verify --quiet "refs/tags/$version^{commit}") ||
    fail "there is no tag $version: run git tag $version"
  if [ "$tagged" != "$(git rev-parse HEAD)" ]; then
    fail "the tag $version is of another commit: run git checkout $version"
  fi
  if [ -n "$(git status --porcelain)" ]; then
    fail "this tree has changes that are not committed: commit or remove them (git status)"
  fi
}

package_charts() {
  local chart line='    image: ""' values=$packages/lateen/values.yaml
  run rm -rf "$packages"
  run mkdir -p "$packages"
  for chart in "${charts[@]}"; do
    run cp -R "charts/$chart" "$packages/$chart"
  done
  run grep -qxF "$line" "$values" || fail "$values has no line '$line' for the image of the control plane"
  run sed -i "s|^$line\$|    image: $registry/lateen:$version|" "$values"
  for chart in "${charts[@]}"; do
    run helm package "$packages/$chart" --version "${version#v}" --app-version "$version" --destination "$packages"
  done
}

push_images() {
  local image program words
  for image in "${images[@]}"; do
    read -ra words <<<"$image"
    image=${words[0]}
    pushed "$registry/$image" crane push "bin/images/$image" "$registry/$image:$version"
    run cosign sign --yes --recursive "$reference"
    for program in "${words[@]:1}"; do
      run cosign attest --yes --type cyclonedx --predicate "bin/$program.cdx.json" "$reference"
    done
  done
}

push_charts() {
  local chart
  for chart in "${charts[@]}"; do
    run helm push "$packages/$chart-${version#v}.tgz" "oci://$registry/charts"
    pushed "$registry/charts/$chart" crane digest "$registry/charts/$chart:${version#v}"
    run cosign sign --yes "$reference"
  done
}

dry=""
if [ "${1:-}" = --dry-run ]; then
  dry=yes
  shift
fi
registry=${1:-}
version=${2:-}
reference=""
check_arguments
if [ -z "$dry" ]; then
  check_tools
  check_commit
fi
run make release-check
run make images "VERSION=$version"
run make sbom "VERSION=$version"
package_charts
push_images
push_charts
