// Package installer owns the commands that render charts: it reads flags and files, and prints. It
// is linked into a program of its own, lateen-installer, which lateen runs.
//
// It may import cli/command, cli/terminal, and what installs (cluster/spec, cluster/apply,
// cluster/inject, cluster/precheck, cluster/render, cluster/install).
package installer
