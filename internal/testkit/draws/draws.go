// Package draws says how many draws a property test takes, where the default of rapid is too few or
// too many. It is for tests and imports nothing of Lateen's.
package draws

import (
	"flag"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// checks is rapid's flag.
const checks = "rapid.checks"

// Checks sets how many draws each property of a test has until the test ends.
func Checks(t testing.TB, n string) { set(t, checks, n) }

// AtLeast is Checks where fewer are asked for, for a test that wants each outcome to occur. Rapid
// takes a fifth of what it is asked for in short tests.
func AtLeast(t testing.TB, n int) {
	t.Helper()
	if testing.Short() {
		n *= 5
	}
	asked, err := strconv.Atoi(flag.Lookup(checks).Value.String())
	if err != nil {
		t.Fatal(err)
	}
	if asked < n {
		set(t, checks, strconv.Itoa(n))
	}
}

// Seed sets the seed, so that draws are the same each time, until the test ends.
func Seed(t testing.TB, seed string) { set(t, "rapid.seed", seed) }

// NoShrinking gives the first failure that is found, for tests whose failures take their time.
func NoShrinking(t testing.TB) { set(t, "rapid.shrinktime", "0s") }

// Given reports whether the number of draws stands on the command line.
func Given() bool {
	// flag.Visit would tell of what Checks has set, too
	return slices.ContainsFunc(os.Args, func(arg string) bool {
		name, _, _ := strings.Cut(strings.TrimLeft(arg, "-"), "=")
		return name == checks
	})
}

func set(t testing.TB, name, value string) {
	t.Helper()
	before := flag.Lookup(name).Value.String()
	if err := flag.Set(name, value); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = flag.Set(name, before) })
}
