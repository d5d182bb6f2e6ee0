//go:build !race

package compile

const raced = false
