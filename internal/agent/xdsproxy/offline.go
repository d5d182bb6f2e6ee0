package xdsproxy

import (
	"strconv"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/lateen-mesh/lateen/internal/agent/wire"
	"github.com/lateen-mesh/lateen/internal/xds/typeurl"
)

// offline answers an Envoy from the cache, while the control plane cannot be reached. It answers
// what is asked for the first time, as nothing changes.
type offline struct {
	v     *wire.Variant
	cache *cache
	asked map[string]map[string]bool // names that were asked for, by type
	nonce int
}

func newOffline(v *wire.Variant, c *cache) *offline {
	return &offline{v: v, cache: c, asked: map[string]map[string]bool{}}
}

// answer returns the responses to a request.
func (o *offline) answer(m *wire.Message) ([]*wire.Message, error) {
	q, err := o.v.ReadRequest(m)
	if err != nil {
		return nil, err
	}
	before, isKnown := o.asked[q.TypeURL]
	if !isKnown {
		before = map[string]bool{}
		o.asked[q.TypeURL] = before
	}
	names := map[string]bool{}
	o.v.Visit(m, wire.Visitor{
		Asked: func(name []byte) {
			if !before[string(name)] {
				names[string(name)] = true
				before[string(name)] = true
			}
		},
		Unsubscribed: func(name []byte) { delete(before, string(name)) },
		Reported:     func([]byte) {},
	})
	all := len(before) == 0 && !isKnown || names["*"]
	if len(names) == 0 && !all || q.TypeURL == typeurl.VirtualHost { // those come behind their tables
		return nil, nil
	}
	return o.respond(q.TypeURL, func(name string) bool { return all || isAmong(names, q.TypeURL, name) })
}

func isAmong(names map[string]bool, typeURL, name string) bool {
	if typeURL == typeurl.LbEndpoint {
		return names[name[:strings.LastIndexByte(name, '/')+1]+"*"]
	}
	return names[name]
}

// respond returns a response with some resources, and behind tables the virtual hosts of those that
// have theirs as resources: for these Envoy asks once for all tables.
func (o *offline) respond(typeURL string, wanted func(name string) bool) ([]*wire.Message, error) {
	var tables []string
	head, err := o.build(typeURL, wanted, func(r record) {
		if typeURL == typeurl.Route && asksForHosts(r.body) {
			tables = append(tables, r.name)
		}
	})
	if err != nil || !o.v.Delta {
		return []*wire.Message{wire.Bytes(head)}, err
	}
	all := []*wire.Message{wire.Bytes(head)}
	for _, table := range tables {
		hosts, err := o.build(typeurl.VirtualHost, func(name string) bool {
			rest, ok := strings.CutPrefix(name, table+"/")
			return ok && !strings.Contains(rest, "/")
		}, func(record) {})
		if err != nil {
			return nil, err
		}
		// A table that has none waits until a name of its own is removed.
		all = append(all, wire.Bytes(wire.AppendString(hosts, o.v.Removed, table+"/*")))
	}
	return all, nil
}

func (o *offline) build(typeURL string, wanted func(string) bool, see func(record)) ([]byte, error) {
	o.nonce++
	b := wire.AppendString(nil, o.v.ResponseType, typeURL)
	b = wire.AppendString(b, o.v.Nonce, "last-configuration-"+strconv.Itoa(o.nonce))
	b = wire.AppendString(b, wire.Version, "last-configuration")
	err := o.cache.each(typeURL, wanted, func(r record) {
		see(r)
		body := r.body
		if !o.v.Delta {
			body = bodyOf(body)
		}
		b = protowire.AppendTag(b, o.v.Resources, protowire.BytesType)
		b = protowire.AppendVarint(b, uint64(body.Left())) //nolint:gosec // it is not negative
		body.Each(body.Left(), func(part []byte) { b = append(b, part...) })
	})
	return b, err
}

// bodyOf returns the google.protobuf.Any in a discovery.v3.Resource.
func bodyOf(r wire.Reader) (body wire.Reader) {
	for f := (wire.Field{}); r.Next(&f); {
		if f.Number == resourceBody && f.Size >= 0 {
			body = r.Message(f.Size)
		} else {
			r.Pass(f)
		}
	}
	return body
}

// fieldVHDS is the number of RouteConfiguration.vhds.
const fieldVHDS = 9

// asksForHosts reports whether a table has its virtual hosts as resources of their own.
func asksForHosts(r wire.Reader) bool {
	table, _ := valueOf(bodyOf(r))
	for f := (wire.Field{}); table.Next(&f); {
		if f.Number == fieldVHDS {
			return true
		}
		table.Pass(f)
	}
	return false
}
