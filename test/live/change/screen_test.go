package change

import (
	"bufio"
	"context"
	"io"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// patience is how long a condition is waited for that takes a second on an idle machine; on a busy
// one seconds are long.
const patience = 2 * time.Minute

// screen is what a program has printed so far, by lines.
type screen struct {
	mu      sync.Mutex
	lines   []string
	ended   bool
	changed chan struct{} // closed and replaced with each line
}

func newScreen() *screen { return &screen{changed: make(chan struct{})} }

// read takes lines until the program closes its end.
func (s *screen) read(r io.Reader) {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		s.update(func() { s.lines = append(s.lines, lines.Text()) })
	}
	s.update(func() { s.ended = true })
}

func (s *screen) update(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
	close(s.changed)
	s.changed = make(chan struct{})
}

// mark is the place after the last line, from which await looks.
func (s *screen) mark() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.lines)
}

func (s *screen) since(mark int) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.lines[mark:]...)
}

// until waits for a condition on the lines since a mark.
func (s *screen) until(t *testing.T, mark int, what string, holds func(lines []string) bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for {
		s.mu.Lock()
		changed, ended := s.changed, s.ended
		s.mu.Unlock()
		if holds(s.since(mark)) {
			return
		}
		if ended {
			require.FailNow(t, "the program ended", "waiting for %s; the screen:\n%s", what, s)
		}
		select {
		case <-ctx.Done():
			require.FailNow(t, "not seen in time", "waiting for %s; the screen:\n%s", what, s)
		case <-changed:
		}
	}
}

// matches are the lines since a mark that fit a pattern.
func (s *screen) matches(mark int, pattern string) (found []string) {
	re := regexp.MustCompile(pattern)
	for _, line := range s.since(mark) {
		if re.MatchString(line) {
			found = append(found, line)
		}
	}
	return found
}

// await waits for a line since a mark that fits a pattern, and returns the pattern's groups.
func (s *screen) await(t *testing.T, mark int, pattern string) []string {
	t.Helper()
	re := regexp.MustCompile(pattern)
	var found []string
	s.until(t, mark, pattern, func(lines []string) bool {
		for _, line := range lines {
			if found = re.FindStringSubmatch(line); found != nil {
				return true
			}
		}
		return false
	})
	return found
}

// String is the whole screen.
func (s *screen) String() string { return strings.Join(s.since(0), "\n") }
