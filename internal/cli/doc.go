// Package cli puts the program lateen together of its families of commands: up (a mesh on this
// machine), serve (the control plane), inspect (looking at both), perf (measuring), and those of
// programs of their own (install, perf lab). Commands read flags and the environment, and nothing
// below them does.
//
// It may import cli's own packages.
package cli
