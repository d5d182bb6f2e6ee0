//go:build race

package sidecar_test

// raced tells that the race detector watches, which makes all slower and larger.
const raced = true
