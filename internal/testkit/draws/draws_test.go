package draws

import (
	"flag"
	"testing"

	_ "pgregory.net/rapid" // has the flags
)

// A test that sets the number of draws does not make it stand on the command line for the next.
func TestGivenIsOfTheCommandLine(t *testing.T) {
	before := Given()
	t.Run("sets", func(t *testing.T) { Checks(t, "3") })
	if Given() != before {
		t.Error("Checks counts as given")
	}
}

// A test that wants many draws has them, and leaves it at more.
func TestAtLeastOnlyRaises(t *testing.T) {
	wants := map[string]string{"3": "7", "9": "9"}
	if testing.Short() { // of which rapid takes a fifth
		wants = map[string]string{"3": "35", "40": "40"}
	}
	for asked, want := range wants {
		t.Run(asked, func(t *testing.T) {
			Checks(t, asked)
			AtLeast(t, 7)
			if got := flag.Lookup(checks).Value.String(); got != want {
				t.Errorf("%s draws, want %s", got, want)
			}
		})
	}
}
