//go:build !race

package wire

const raced = false
