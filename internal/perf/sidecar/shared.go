package sidecar

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"

	"golang.org/x/net/http2/hpack"
)

// This file has what the sidecars of a loop share: slots, buffers, calls from other goroutines,
// counts.

// takeSlot assigns a slot to a sidecar.
func (l *loop) takeSlot(s *Sidecar) int {
	var at int
	if n := len(l.free); n > 0 {
		at, l.free = l.free[n-1], l.free[:n-1]
	} else {
		at, l.slots = len(l.slots), append(l.slots, slot{})
	}
	l.slots[at].generation++
	l.slots[at].sidecar = s
	return at
}

func (l *loop) vacate(s *Sidecar) {
	l.slots[s.slot].sidecar = nil
	l.free = append(l.free, s.slot)
}

func (l *loop) token(s *Sidecar) token { return token{int32(s.slot), l.slots[s.slot].generation} }

// source returns the local address of a sidecar, or the zero Addr to leave it to the system.
func (l *loop) source(number uint64) netip.Addr {
	sources := l.options.Sources
	if len(sources) == 0 {
		return netip.Addr{}
	}
	return sources[number/uint64(len(l.targets))%uint64(len(sources))]
}

// incoming returns a buffer for a response.
func (l *loop) incoming() *incoming {
	n := len(l.freeIncoming)
	if n == 0 {
		return &incoming{typ: NumTypes}
	}
	in := l.freeIncoming[n-1]
	l.freeIncoming = l.freeIncoming[:n-1]
	return in
}

// recycle keeps a buffer for reuse, unless maxFreeIncoming are kept.
func (l *loop) recycle(in *incoming) {
	if len(l.freeIncoming) == maxFreeIncoming {
		return
	}
	in.message = message{field: in.message.field[:0]}
	in.reset()
	l.freeIncoming = append(l.freeIncoming, in)
}

func (l *loop) newDecoder() {
	l.decoder = hpack.NewDecoder(0, func(f hpack.HeaderField) { l.fields = append(l.fields, f) })
	l.decoder.SetMaxStringLength(headerLimit)
}

// header decodes a header block. The result is valid until the next call. One decoder serves all
// connections, because dynamic compression is off.
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

// preamble returns the first bytes of a sidecar's connection.
func (l *loop) preamble(s *Sidecar) ([]byte, error) {
	t := l.targets[s.target]
	if l.options.Token == nil {
		return t.preamble, nil
	}
	token, err := l.options.Token(*s.identity)
	if err != nil {
		return nil, fmt.Errorf("no token for %s.%s: %w", s.identity.Pod, s.identity.Namespace, err)
	}
	return l.fleet.preambleFor(t.name, token), nil
}

// node returns a sidecar's encoded node. Encoding can fail only on metadata, which New has checked.
func (l *loop) node(id *Identity) []byte {
	b, err := encodeNode(&l.options.Mesh, id)
	if err != nil {
		l.report(slog.LevelError, err)
	}
	return b
}

// post runs a function on the loop in its next round, or never after Close.
func (l *loop) post(f func()) {
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

// call is post that waits until the function has run.
func (l *loop) call(f func()) {
	done := make(chan struct{})
	l.post(func() { f(); close(done) })
	select {
	case <-done:
	case <-l.ended:
	}
}

// close ends the loop and waits for run to return.
func (l *loop) close() {
	l.mu.Lock()
	if !l.closing {
		l.closing = true
		l.poll.wake()
	}
	l.mu.Unlock()
	<-l.ended
}

// runCommands runs the posted functions, and reports whether the fleet is closed.
func (l *loop) runCommands() (closing bool) {
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

// publishStats makes the counts visible, and wakes Await if they have changed.
func (l *loop) publishStats() {
	l.mu.Lock()
	before := l.published
	l.published = l.stats
	l.mu.Unlock()
	if before.Connected != l.stats.Connected || before.Synced != l.stats.Synced {
		l.fleet.changed()
	}
}

// report logs an error, unless it equals the last one: many sidecars often have the same.
func (l *loop) report(level slog.Level, err error) {
	if said := err.Error(); said != l.lastReport {
		l.lastReport = said
		l.options.Log.Log(context.Background(), level, "a simulated sidecar has no stream", "error", said)
	}
}

// inUse visits the tables and entries that sidecars use.
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
				for _, t := range []*table{r.namesOf, r.versions} {
					if t != nil {
						useTable(t)
					}
				}
			}
		}
	}
}
