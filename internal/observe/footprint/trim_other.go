//go:build !linux

package footprint

func dropProgram() error { return nil }
