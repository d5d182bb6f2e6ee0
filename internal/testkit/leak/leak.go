// Package leak looks for goroutines that the tests of a package leave behind:
//
//	func TestMain(m *testing.M) { leak.Main(m) }
//
// What has been told to end ends by and by, on a busy machine later than on an idle one, so it is
// waited for.
//
// It imports nothing of Lateen, and only tests import it.
package leak

import (
	"fmt"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// patience is how long what is ending may take; only what never ends takes that long.
const patience = 2 * time.Minute

// Main runs a package's tests, and fails if goroutines of theirs are left. It does not return.
func Main(m *testing.M) { os.Exit(Run(m.Run)) }

// Run is Main around something that runs the tests and returns the exit code.
func Run(tests func() int) (code int) {
	if code = tests(); code != 0 {
		return code
	}
	if err := find(patience); err != nil {
		fmt.Fprintln(os.Stderr, "the tests have passed, but:", err)
		return 1
	}
	return 0
}

// find looks again and again until nothing is left.
func find(patience time.Duration) error {
	for began := time.Now(); ; {
		// It takes half a second to say that something is left.
		if err := goleak.Find(); err == nil || time.Since(began) > patience {
			return err
		}
	}
}
