//go:build !race

package sidecar_test

const raced = false
