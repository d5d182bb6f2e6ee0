package lateenserve

import (
	"fmt"
	"os"
)

// Main builds programs into a directory of its own, runs the tests of a package, removes the
// directory, and returns the exit code, for TestMain:
//
//	os.Exit(lateenserve.Main(build, m.Run))
func Main(build func(dir string) error, tests func() int) (code int) {
	dir, err := os.MkdirTemp("", "lateen-test-")
	if err == nil {
		defer func() { _ = os.RemoveAll(dir) }()
		err = build(dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return tests()
}
