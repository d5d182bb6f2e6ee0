//go:build race

package app

// raced tells that the race detector is on: it slows the rig down and allocates memory of its own.
const raced = true
