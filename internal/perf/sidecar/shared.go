package sidecar

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"

	"golang.org/x/net/http2/hpack"
)

// This file has what a loop's sidecars share: places, buffers, the ways in from outside, counts.

// occupy gives a sidecar a slot.
func (l *loop) occupy(s *Sidecar) int {
	var at int
	if n := len(l.free); n > 0 {
		at, l.free = l.free[n-1], l.free[:n-1]
	} else {
		at, l.slots = len(l.slots), append(l.slots, slot{})
	}
	l.slots[at].turn++
	l.slots[at].sidecar = s
	return at
}

func (l *loop) vacate(s *Sidecar) {
	l.slots[s.slot].sidecar = nil
	l.free = append(l.free, s.slot)
}

func (l *loop) token(s *Sidecar) token { return token{int32(s.slot), l.slots[s.slot].turn} }

// source is the address that a sidecar connects from; the zero one leaves it to the system.
func (l *loop) source(number uint64) netip.Addr {
	sources := l.options.Sources
	if len(sources) == 0 {
		return netip.Addr{}
	}
	return sources[number/uint64(len(l.targets))%uint64(len(sources))]
}

// incoming is a buffer for a response.
func (l *loop) incoming() *incoming {
	n := len(l.spares)
	if n == 0 {
		return &incoming{typ: NumTypes}
	}
	in := l.spares[n-1]
	l.spares = l.spares[:n-1]
	return in
}

// recycle keeps a buffer for the next response, unless enough are kept.
func (l *loop) recycle(in *incoming) {
	if len(l.spares) == spare {
		return
	}
	in.message = message{field: in.message.field[:0]}
	in.reset()
	l.spares = append(l.spares, in)
}

func (l *loop) newDecoder() {
	l.decoder = hpack.NewDecoder(0, func(f hpack.HeaderField) { l.fields = append(l.fields, f) })
	l.decoder.SetMaxStringLength(headerLimit)
}

// header decodes a header block. What it returns is valid until the next call. Since dynamic compression is off, one decoder serves
// all connections.
func (l *loop) header(block []byte) ([]hpack.HeaderField, error) {
	l.fields = l.fields[:0]
	_, err := l.decoder.Write(block)
	if err == nil {
		err = l.decoder.Close()
	}
	if err != nil {
		l.newDecoder()
		return nil, fmt.Errorf("a header block cannot be read: %w", err)
	}
	return l.fields, nil
}

// opening is what a sidecar sends first.
func (l *loop) opening(s *Sidecar) ([]byte, error) {
	t := l.targets[s.target]
	if l.options.Token == nil {
		return t.opening, nil
	}
	token, err := l.options.Token(*s.identity)
	if err != nil {
		return nil, fmt.Errorf("no token for %s.%s: %w", s.identity.Pod, s.identity.Namespace, err)
	}
	return l.fleet.openingOf(t.name, token), nil
}

// node is a sidecar's, encoded. What cannot be encoded is its own metadata, which New has checked.
func (l *loop) node(id *Identity) []byte {
	b, err := encodeNode(&l.options.Mesh, id)
	if err != nil {
		l.report(slog.LevelError, err)
	}
	return b
}

// do lets the loop run a function in its next round. After Close nothing is run.
func (l *loop) do(f func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closing {
		return
	}
	l.commands = append(l.commands, f)
	if len(l.commands) == 1 {
		l.poll.wake()
	}
}

// ask is do that waits until the function has run.
func (l *loop) ask(f func()) {
	done := make(chan struct{})
	l.do(func() { f(); close(done) })
	select {
	case <-done:
	case <-l.ended:
	}
}

// close ends the loop; run has returned when it does.
func (l *loop) close() {
	l.mu.Lock()
	if !l.closing {
		l.closing = true
		l.poll.wake()
	}
	l.mu.Unlock()
	<-l.ended
}

// obey runs what others want, and tells whether the fleet is closed.
func (l *loop) obey() (closing bool) {
	l.mu.Lock()
	commands := l.commands
	l.commands = nil
	closing = l.closing
	l.mu.Unlock()
	for _, f := range commands {
		f()
	}
	return closing
}

// show makes the counts visible, and wakes those who wait for them to change.
func (l *loop) show() {
	l.mu.Lock()
	before := l.shown
	l.shown = l.stats
	l.mu.Unlock()
	if before.Connected != l.stats.Connected || before.Synced != l.stats.Synced {
		l.fleet.changed()
	}
}

// report logs, but not what was logged last: what befalls one sidecar often befalls all.
func (l *loop) report(level slog.Level, err error) {
	if said := err.Error(); said != l.said {
		l.said = said
		l.options.Log.Log(context.Background(), level, "a simulated sidecar has no stream", "error", said)
	}
}

// inUse visits what the sidecars need.
func (l *loop) inUse(useTable func(*table), useEntry func(*entry)) {
	for s := range l.sidecars {
		for _, t := range s.tables {
			useTable(t)
		}
		if s.in != nil {
			for _, e := range s.in.edits {
				if e.entry != nil {
					useEntry(e.entry)
				}
			}
		}
		if s.out != nil {
			for _, r := range s.out.queue {
				for _, t := range []*table{r.of, r.held} {
					if t != nil {
						useTable(t)
					}
				}
			}
		}
	}
}
