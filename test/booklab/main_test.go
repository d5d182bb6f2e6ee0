package booklab

import (
	"flag"
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
	os.Exit(lateenserve.Main(func(dir string) (err error) {
		binary, err = lateenserve.Build(dir)
		return err
	}, m.Run))
}
