package xdsproxy

import (
	"cmp"
	"errors"
	"fmt"
	"hash/maphash"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/lateen-mesh/lateen/internal/agent/wire"
	"github.com/lateen-mesh/lateen/internal/xds/typeurl"
)

// cache is what Envoy has accepted, in a file. In memory it has 40 bytes for each resource.
//
// The file is a log (record.go). A response is written when it passes and counts from when it is
// acknowledged, so no response is held for that. What was replaced or removed is left out when the
// file is written anew, into another one that takes its place in one step (compact).
//
// An error of the disk, or a configuration that is larger than max, turns the cache off until the
// agent starts again, and removes the file: an old configuration is worse than none.
type cache struct {
	path string
	node string
	max  int64
	now  func() time.Time
	seed maphash.Seed

	mu    sync.Mutex
	log   *recordLog // nil if the cache is off
	types []string   // by typeID
	index map[uint64]entry
	live  int64 // bytes of what index has
	// staged are the responses that are not answered yet, in the order in which they passed.
	staged []*batch
	last   uint64 // number of the last batch
	// collections of endpoints that the client has subscribed to, by the hash of what their
	// members' names begin with.
	collections map[uint64]struct{}
	// firsts are the types of which this stream has accepted no response yet.
	firsts map[typeID]bool
	// began is when the stream did.
	began time.Time
}

type typeID uint8

// entry is where a resource is.
type entry struct {
	at      int64
	size    uint32
	of      typeID
	current bool // this stream has had it, or its client has it
}

// batch is a response that is not answered yet.
type batch struct {
	number  uint64
	of      typeID
	nonce   string
	put     map[uint64]entry
	removed []uint64
	whole   bool // what is not in it is gone
}

// maxTypes of resources are kept; Envoy has fewer than ten.
const maxTypes = 32

// openCache reads what an earlier process has left for this node. Without a path there is no cache.
func openCache(o CacheOptions, now func() time.Time) (*cache, error) {
	c := &cache{path: o.File, node: o.Node, max: o.MaxBytes, now: now, seed: maphash.MakeSeed()}
	c.index = map[uint64]entry{}
	c.begin()
	if o.File == "" {
		return c, nil
	}
	log, err := openLog(o.File)
	if err != nil {
		return c, err
	}
	c.log = log
	if err := c.replay(); err != nil {
		return c, errors.Join(err, c.turnOff())
	}
	return c, nil
}

// keeps reports whether resources of a type are kept. Secrets never are.
func keeps(typeURL string) bool { return typeURL != "" && typeURL != typeurl.Secret }

// begin is called when a stream begins: nothing of what its client has is known.
func (c *cache) begin() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.staged = nil
	c.began = c.now()
	c.collections = map[uint64]struct{}{}
	c.firsts = map[typeID]bool{}
	for key, e := range c.index {
		e.current = false
		c.index[key] = e
	}
}

// isEmpty reports whether there is nothing to serve.
func (c *cache) isEmpty() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.log == nil || len(c.index) == 0
}

// typeOf returns the number of a type.
func (c *cache) typeOf(typeURL string) (id typeID, ok bool) {
	if i := slices.Index(c.types, typeURL); i >= 0 {
		return typeID(i), true //nolint:gosec // there are at most maxTypes
	}
	if !keeps(typeURL) || len(c.types) == maxTypes {
		return 0, false
	}
	c.types = append(c.types, typeURL)
	return typeID(len(c.types) - 1), true //nolint:gosec // as above
}

func (c *cache) key(of typeID, name []byte) uint64 {
	var h maphash.Hash
	h.SetSeed(c.seed)
	_ = h.WriteByte(byte(of))
	_, _ = h.Write(name)
	return h.Sum64()
}

// asked takes in a request of the client: what it has, wants, no longer wants, has accepted and has
// refused.
func (c *cache) asked(v *wire.Variant, q wire.Request, m *wire.Message) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.log == nil {
		return nil
	}
	of, ok := c.typeOf(q.TypeURL)
	if !ok {
		return nil
	}
	var forgotten [][]byte
	v.Visit(m, wire.Visitor{
		Reported:     func(name []byte) { c.mark(c.key(of, name)) },
		Asked:        func(name []byte) { c.wanted(of, name) },
		Unsubscribed: func(name []byte) { forgotten = append(forgotten, slices.Clone(name)) },
	})
	for _, name := range forgotten {
		if err := c.forget(of, name); err != nil {
			return c.failed(err)
		}
	}
	if q.Ack == "" {
		return nil
	}
	return c.failed(c.answered(of, q))
}

func (c *cache) mark(key uint64) {
	if e, ok := c.index[key]; ok {
		e.current = true
		c.index[key] = e
	}
}

func (c *cache) wanted(of typeID, name []byte) {
	if prefix, ok := collectionOf(c.types[of], string(name)); ok {
		c.collections[c.key(of, []byte(prefix))] = struct{}{}
		return
	}
	c.mark(c.key(of, name))
}

func (c *cache) forget(of typeID, name []byte) error {
	if prefix, ok := collectionOf(c.types[of], string(name)); ok {
		delete(c.collections, c.key(of, []byte(prefix)))
		return nil
	}
	key := c.key(of, name)
	e, ok := c.index[key]
	if !ok {
		return nil
	}
	c.drop(key, e)
	return c.log.write(record{kind: recordForget, typeURL: c.types[of], name: string(name)})
}

func (c *cache) drop(key uint64, e entry) {
	delete(c.index, key)
	c.live -= int64(e.size)
}

// passed takes in a response before it goes to the client.
func (c *cache) passed(v *wire.Variant, p response, m *wire.Message) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.log == nil || p.nonce == "" {
		return nil
	}
	of, ok := c.typeOf(p.typeURL)
	if !ok {
		return nil
	}
	if c.live+int64(m.Data.Len()) > c.max {
		return c.failed(fmt.Errorf("the configuration has more than %d bytes", c.max))
	}
	c.last++
	b := &batch{number: c.last, of: of, nonce: p.nonce, put: map[uint64]entry{}}
	b.whole = !v.Delta && (isWildcard(p.typeURL) || !isEnvoys(p.typeURL))
	var failure error
	err := resourcesOf(v, m, p, func(i item) {
		if failure == nil {
			failure = c.stage(b, i)
		}
	}, func(name string) {
		b.removed = append(b.removed, c.key(of, []byte(name)))
		failure = cmp.Or(failure, c.log.write(record{
			kind: recordRemoved, batch: b.number, typeURL: c.types[of], name: name,
		}))
	})
	if err != nil { // Envoy refuses it too
		return nil
	}
	if failure != nil {
		return c.failed(failure)
	}
	c.staged = append(c.staged, b)
	return c.failed(c.log.flush())
}

// stage writes a resource of a response.
func (c *cache) stage(b *batch, i item) error {
	r := record{kind: recordPut, batch: b.number, typeURL: c.types[b.of], name: i.name, body: i.whole}
	if i.whole.Left() == 0 {
		r.name = strconv.Itoa(len(b.put))
		if isEnvoys(r.typeURL) {
			r.name = nameIn(i.body)
		}
		r.body = resourceMessage(r.name, i.version, r.typeURL, i.body)
	}
	e := entry{at: c.log.size, of: b.of, current: true}
	if err := c.log.write(r); err != nil {
		return err
	}
	e.size = uint32(c.log.size - e.at) //nolint:gosec // messages are smaller
	b.put[c.key(b.of, []byte(r.name))] = e
	return nil
}

// answered takes in an answer to a response. Answers come in the order of the responses of a type,
// and a response without an answer was dropped by the client.
func (c *cache) answered(of typeID, q wire.Request) error {
	at := slices.IndexFunc(c.staged, func(b *batch) bool { return b.of == of && b.nonce == q.Ack })
	if at < 0 {
		return nil
	}
	b := c.staged[at]
	for i := 0; i <= at && i < len(c.staged); {
		if c.staged[i].of == of {
			c.staged = slices.Delete(c.staged, i, i+1)
			at--
			continue
		}
		i++
	}
	if q.IsRefusal {
		return nil
	}
	if err := c.log.write(record{kind: recordCommit, batch: b.number}); err != nil {
		return err
	}
	c.apply(b)
	if err := c.sweep(b); err != nil {
		return err
	}
	return errors.Join(c.log.flush(), c.compactIfDue())
}

// apply makes a batch count.
func (c *cache) apply(b *batch) {
	for _, key := range b.removed {
		if old, ok := c.index[key]; ok {
			c.drop(key, old)
		}
	}
	for key, e := range b.put {
		if old, ok := c.index[key]; ok {
			c.drop(key, old)
		}
		c.index[key] = e
		c.live += int64(e.size)
	}
}

// sweep drops what a response of everything has not, and what an earlier client had of clusters and
// listeners when this one has accepted its first response: that has all that the client is not
// known to have.
func (c *cache) sweep(b *batch) error {
	isFirst := isWildcard(c.types[b.of]) && !c.firsts[b.of]
	if !isFirst && !b.whole {
		return nil
	}
	c.firsts[b.of] = true
	if err := c.log.flush(); err != nil {
		return err
	}
	for key, e := range c.index {
		if _, has := b.put[key]; has || e.of != b.of || e.current && !b.whole {
			continue
		}
		stale, _, err := c.log.read(e.at)
		if err != nil {
			return err
		}
		c.drop(key, e)
		if err := c.log.write(record{kind: recordForget, typeURL: stale.typeURL, name: stale.name}); err != nil {
			return err
		}
	}
	return nil
}

// isWildcard reports whether clients ask for all resources of a type.
func isWildcard(typeURL string) bool {
	return typeURL == typeurl.Cluster || typeURL == typeurl.Listener
}

// collectionOf returns what the names of a collection's members begin with.
func collectionOf(typeURL, name string) (prefix string, ok bool) {
	if typeURL != typeurl.LbEndpoint || !strings.HasSuffix(name, "/*") {
		return "", false
	}
	return name[:len(name)-1], true
}

// failed turns the cache off for good if err is not nil.
func (c *cache) failed(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("the last configuration is not kept any more: %w", errors.Join(err, c.turnOff()))
}

func (c *cache) turnOff() error {
	if c.log == nil {
		return nil
	}
	err := c.log.close()
	c.log, c.index, c.staged, c.live = nil, nil, nil, 0
	if gone := os.Remove(c.path); !errors.Is(gone, fs.ErrNotExist) {
		err = errors.Join(err, gone)
	}
	return err
}

// close keeps the file.
func (c *cache) close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.log == nil {
		return nil
	}
	err := c.log.close()
	c.log = nil
	return err
}
