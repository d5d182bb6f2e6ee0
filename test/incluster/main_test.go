package incluster

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"

	"github.com/lateen-mesh/lateen/internal/testkit/lateenserve"
)

// programs are lateen and its installer, which are built once for all tests of the package.
type programs struct {
	once sync.Once
	dir  string
	path string // of lateen
	err  error
}

var built programs

func TestMain(m *testing.M) {
	code := m.Run()
	if err := os.RemoveAll(built.dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	os.Exit(code)
}

// lateen returns the path of lateen. The other programs stand beside it.
func (p *programs) lateen() (string, error) {
	p.once.Do(func() {
		if p.dir, p.err = os.MkdirTemp("", "incluster"); p.err != nil {
			return
		}
		p.path, p.err = lateenserve.BuildCommands(p.dir)
		_, err := lateenserve.Build(p.dir)
		p.err = errors.Join(p.err, err, lateenserve.BuildInstaller(p.dir))
	})
	return p.path, p.err
}
