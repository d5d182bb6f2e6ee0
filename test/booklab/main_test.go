package booklab

import (
	"flag"
	"fmt"
	"os"
	"testing"

	"github.com/lateen-mesh/lateen/internal/testkit/lateenserve"
)

// full runs the lab as the book does, with its pauses, and writes docs/book-lab.md.
var full = flag.Bool("full", false, "run the whole lab, and write docs/book-lab.md")

// binary is the lateen that the tests run.
var binary string

func TestMain(m *testing.M) {
	flag.Parse()
	dir, err := os.MkdirTemp("", "lateen-booklab-")
	if err == nil {
		binary, err = lateenserve.Build(dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}
