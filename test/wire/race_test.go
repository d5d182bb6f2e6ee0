//go:build race

package wire

// raced tells that the race detector is on.
const raced = true
