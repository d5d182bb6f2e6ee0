package app

import (
	"time"

	"github.com/lateen-mesh/lateen/internal/admin/history"
	"github.com/lateen-mesh/lateen/internal/compile"
	"github.com/lateen-mesh/lateen/internal/xds/resource"
)

// leavers are classes that ended with their last proxy, for when it comes back and they are made
// anew: streams end every half an hour, and the class of a single proxy ends with its stream.
// Whoever has them locks them.
type leavers struct {
	ended map[compile.Seat]compile.Left
	// newest is the newest class that is known of.
	newest resource.ClassID
	swept  time.Time
}

const (
	// leaverLife is how long they are known: between none and one of it.
	leaverLife = 10 * time.Minute
	// mostEnded is how many are.
	mostEnded = 1000
)

func newLeavers() leavers { return leavers{ended: map[compile.Seat]compile.Left{}} }

// left notes the end of a class, if that of a proxy which left has ended.
func (l *leavers) left(was compile.Left) {
	if was.State.IsNone() {
		return
	}
	if now := time.Now(); len(l.ended) >= mostEnded || now.Sub(l.swept) > leaverLife {
		clear(l.ended)
		l.swept = now
	}
	l.ended[was.Seat] = was
}

// joined notes a proxy that joins. It returns what it had if it is the first of a class that is
// made in place of one that ended.
func (l *leavers) joined(m *compile.Member, p compile.Placement) (back history.Return, is bool) {
	isNew := p.Class > l.newest
	l.newest = max(l.newest, p.Class)
	was, ended := l.ended[m.Seat()]
	if !isNew || !ended {
		return back, false
	}
	delete(l.ended, was.Seat)
	return history.Return{At: time.Now(), From: was.Class, To: p.Class, Was: was.State, State: p.State}, true
}
