//go:build !linux

package intercept

import "errors"

// Apply needs nftables.
func Apply(Options, int) error { return errors.New("connections are intercepted on Linux alone") }
