package draws

import (
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
