package xdsproxy

import (
	"cmp"
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/lateen-mesh/lateen/internal/xds/typeurl"
)

// replay reads the log from its beginning. What follows an incomplete record is cut off; a log of
// another node is emptied.
func (c *cache) replay() error {
	header, at, err := c.log.read(0)
	if err != nil || header.kind != recordHeader || header.name != c.node {
		return c.log.begin(c.node)
	}
	open := map[uint64]*batch{}
	for {
		r, size, err := c.log.read(at)
		switch {
		case errors.Is(err, io.EOF):
			return c.log.cut(at)
		case errors.Is(err, errTorn):
			return c.log.cut(at)
		case err != nil:
			return err
		}
		c.redo(r, entry{at: at, size: uint32(size)}, open) //nolint:gosec // messages are smaller
		at += size
	}
}

// redo does what a record says.
func (c *cache) redo(r record, e entry, open map[uint64]*batch) {
	c.last = max(c.last, r.batch)
	if r.kind == recordCommit {
		if b := open[r.batch]; b != nil {
			c.apply(b)
			delete(open, r.batch)
		}
		return
	}
	of, ok := c.typeOf(r.typeURL)
	if !ok {
		return
	}
	key := c.key(of, []byte(r.name))
	if r.kind == recordForget {
		if old, ok := c.index[key]; ok {
			c.drop(key, old)
		}
		return
	}
	b := open[r.batch]
	if b == nil {
		b = &batch{put: map[uint64]entry{}}
		open[r.batch] = b
	}
	switch r.kind {
	case recordRemoved:
		b.removed = append(b.removed, key)
	case recordPut:
		e.of = of
		b.put[key] = e
	default: // of a later version
	}
}

const (
	// compactSlack is how much larger than twice its content the log may be.
	compactSlack = 1 << 20
	// settled is how long after the begin of a stream its client has asked for all that it wants.
	settled = time.Minute
)

// compactIfDue writes the log anew if more than half of it is of no use any more.
func (c *cache) compactIfDue() error {
	if len(c.staged) > 0 || c.log.size <= 2*c.live+compactSlack {
		return nil
	}
	return c.compact()
}

func (c *cache) compact() error {
	temporary := c.path + ".new"
	if err := os.Remove(temporary); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	fresh, err := openLog(temporary)
	if err != nil {
		return err
	}
	// It is not synced: what a machine that loses power leaves of it is found by its checksums.
	index, live, err := c.copyTo(fresh)
	if err == nil {
		err = os.Rename(temporary, c.path)
	}
	if err != nil {
		return errors.Join(err, fresh.close(), os.Remove(temporary))
	}
	err = c.log.close()
	c.log, c.index, c.live = fresh, index, live
	return err
}

// copyTo copies what counts as one batch.
func (c *cache) copyTo(fresh *recordLog) (index map[uint64]entry, live int64, err error) {
	if err := fresh.begin(c.node); err != nil {
		return nil, 0, err
	}
	index = make(map[uint64]entry, len(c.index))
	c.last++
	for _, key := range c.inOrder(func(entry) bool { return true }) {
		e := c.index[key]
		r, _, err := c.log.read(e.at)
		if err != nil {
			return nil, 0, err
		}
		if !c.isWanted(e, r) {
			continue
		}
		r.batch = c.last
		e.at = fresh.size
		if err := fresh.write(r); err != nil {
			return nil, 0, err
		}
		index[key] = e
		live += int64(e.size)
	}
	return index, live, errors.Join(fresh.write(record{kind: recordCommit, batch: c.last}), fresh.flush())
}

// isWanted reports whether a resource is to be kept. What Envoy asks for by name goes when it does
// not ask any more.
func (c *cache) isWanted(e entry, r record) bool {
	if c.now().Sub(c.began) < settled {
		return true
	}
	slash := strings.LastIndexByte(r.name, '/')
	switch {
	case r.typeURL == typeurl.VirtualHost && slash >= 0:
		of, ok := c.typeOf(typeurl.Route)
		if !ok {
			return false
		}
		_, ok = c.index[c.key(of, []byte(r.name[:slash]))]
		return ok
	case r.typeURL == typeurl.LbEndpoint && slash >= 0:
		_, ok := c.collections[c.key(e.of, []byte(r.name[:slash+1]))]
		return ok
	}
	return e.current
}

// inOrder returns the keys of some entries in the order of the log.
func (c *cache) inOrder(which func(entry) bool) []uint64 {
	var keys []uint64
	for key, e := range c.index {
		if which(e) {
			keys = append(keys, key)
		}
	}
	slices.SortFunc(keys, func(a, b uint64) int { return cmp.Compare(c.index[a].at, c.index[b].at) })
	return keys
}

// each calls a function with the kept resources of a type whose names are wanted, in the order in
// which they were accepted.
func (c *cache) each(typeURL string, wanted func(name string) bool, use func(record)) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.log == nil {
		return nil
	}
	of := slices.Index(c.types, typeURL)
	for _, key := range c.inOrder(func(e entry) bool { return int(e.of) == of }) {
		r, _, err := c.log.read(c.index[key].at)
		if err != nil {
			return c.failed(err)
		}
		if wanted(r.name) {
			use(r)
		}
	}
	return nil
}
