package observe

import (
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"
)

// Untrusted returns what a client said in the form in which labels and log lines may have it: at
// most limit bytes of valid UTF-8 on one line. Control characters, which a terminal may obey,
// become spaces. What is cut off ends in "…", within the limit.
func Untrusted(s string, limit int) string {
	const cut = "…"
	if len(s) > limit {
		end := max(0, limit-len(cut))
		for end > 0 && !utf8.RuneStart(s[end]) {
			end--
		}
		s = s[:end] + cut
	}
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || unicode.In(r, unicode.Zl, unicode.Zp, unicode.Cf) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, ""))
}

// LogLimit limits log lines that clients cause to a few of a kind in logInterval. The zero value is
// ready. Kinds must be the program's own words, since each is kept.
type LogLimit struct {
	mu    sync.Mutex
	kinds map[string]*limitedKind
}

type limitedKind struct {
	until   time.Time // end of the interval
	written int       // lines in it
	skipped int       // lines that were not written, since the last that was
}

const (
	logInterval = 10 * time.Second
	logBurst    = 10
)

// Allow reports whether a line of a kind may be written now, and how many were not since the last.
func (l *LogLimit) Allow(kind string, now time.Time) (skipped int, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	k := l.kinds[kind]
	if k == nil {
		if l.kinds == nil {
			l.kinds = map[string]*limitedKind{}
		}
		k = &limitedKind{}
		l.kinds[kind] = k
	}
	if !now.Before(k.until) {
		k.until, k.written = now.Add(logInterval), 0
	}
	if k.written == logBurst {
		k.skipped++
		return 0, false
	}
	k.written++
	skipped, k.skipped = k.skipped, 0
	return skipped, true
}
