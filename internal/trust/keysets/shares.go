package keysets

// Bounds of what is kept. All entries stand in one ConfigMap, which may have 1 MiB.
const (
	maxSets       = 512
	maxKeyBytes   = 800 << 10
	maxErrorBytes = 100 << 10
)

// shareOf is the part of what others leave free that one namespace may have. So one namespace has a
// quarter of all at most, two have seven sixteenths, and there is room for further ones.
const shareOf = 4

// frame is the name of an entry and its syntax, in bytes.
const frame = 200

// ledger says who has how much of something.
type ledger struct {
	limit int
	used  int
	by    map[string]int
}

func newLedger(limit int) ledger { return ledger{limit: limit, by: map[string]int{}} }

func (l *ledger) add(namespace string, n int) {
	l.used += n
	if l.by[namespace] += n; l.by[namespace] == 0 {
		delete(l.by, namespace)
	}
}

// share returns the most that a namespace may have now. The root namespace may have all that others
// leave: who writes there may configure everything.
func (l *ledger) share(namespace, root string) int {
	free := l.limit - (l.used - l.by[namespace])
	if namespace == root {
		return free
	}
	return free / shareOf
}

// fits reports whether a namespace may have n more.
func (l *ledger) fits(namespace, root string, n int) bool {
	return l.by[namespace]+n <= l.share(namespace, root)
}
