// Package installer owns the commands that render charts: it reads flags and files, and prints. It
// is linked into a program of its own, lateen-installer, which lateen runs.
//
// It may import api/kinds, cli/build, cli/command, cli/terminal, and what installs (install/spec,
// install/apply, cluster/inject, install/precheck, install/render, install/tags, install).
package installer
