package resource

import (
	"encoding/base64"
	"slices"
	"strconv"
	"strings"
	"sync"

	"google.golang.org/protobuf/encoding/protowire"
)

// An assignment has two forms with the same endpoints:
//
//	list         one ClusterLoadAssignment with all endpoints. This is what a State has.
//	collections  the assignment's head, in which each locality names a collection that comes by
//	             LEDS, and each endpoint as a resource of its own, "<collection>/<endpoint>".
//
// The bytes of an endpoint are the same in both. The session decides which form a client gets.
//
// A head has one of two versions. The open version tells nothing of the members. The sealed version
// is that of the list but for the last bit: a client that reports it has the members of the list.

// LocalityLbEndpoints.leds_cluster_locality_config, and
// LedsClusterLocalityConfig.leds_collection_name.
const (
	localityCollection protowire.Number = 8
	collectionName     protowire.Number = 2
)

// ledsConfig is LedsClusterLocalityConfig.leds_config: {ads: {}, initial_fetch_timeout: 0s,
// resource_api_version: V3}. Timeout 0 means none: a cluster does not serve before it has its
// endpoints.
const ledsConfig = "\x0a\x06\x1a\x00\x22\x00\x30\x02"

// collectionPrefix is what all names of collections begin with. Envoy tells them from other names
// by it (xRFC TP1). A hash follows: it is short, because it stands before every endpoint, and has
// no character that Envoy would escape.
const collectionPrefix = "xdstp:///envoy.config.endpoint.v3.LbEndpoint/"

// allMembersGlob is the last part of the name under which a client asks for a collection.
const allMembersGlob = "*"

// assignment is the content of a ClusterLoadAssignment.
type assignment struct {
	head   []byte // all fields but endpoints
	groups []Group
	size   int // endpoints in all

	once        sync.Once
	collections *Collections
}

// Collections is an assignment in the form of LEDS collections.
type Collections struct {
	// Open and Sealed are its head, in its two versions.
	Open, Sealed *Resource

	names []string // with the slash behind them, by group
	size  int      // endpoints in all

	once sync.Once
	all  *Change // from nothing
}

// Endpoints returns how many endpoints an assignment has, without making its collections. It
// returns 0 for other resources.
func (r *Resource) Endpoints() int {
	if r.assignment == nil {
		return 0
	}
	return r.assignment.size
}

// Collections returns the assignment in the form of collections. It returns nil for other
// resources, and for an assignment that has a locality without endpoints or none at all.
func (r *Resource) Collections() *Collections {
	if r.assignment == nil {
		return nil
	}
	r.assignment.once.Do(func() { r.assignment.collections = collect(r) })
	return r.assignment.collections
}

func collect(r *Resource) *Collections {
	groups := r.assignment.groups
	if len(groups) == 0 {
		return nil
	}
	c := &Collections{size: r.Endpoints()}
	body := slices.Clone(r.assignment.head)
	for i, g := range groups {
		if g.Members.Len() == 0 {
			return nil // a collection without members would be waited for
		}
		c.names = append(c.names, collectionOf(r.name, i))
		config := protowire.AppendTag([]byte(ledsConfig), collectionName, protowire.BytesType)
		config = protowire.AppendString(config, c.names[i]+allMembersGlob)
		locality := protowire.AppendTag(slices.Clone(g.Head), localityCollection, protowire.BytesType)
		locality = protowire.AppendBytes(locality, config)
		body = protowire.AppendTag(body, assignmentEndpoints, protowire.BytesType)
		body = protowire.AppendBytes(body, locality)
	}
	c.Open, c.Sealed = New(r.name, body), New(r.name, body)
	c.Open.version[len(c.Open.version)-1] &^= collectionBit
	c.Sealed.version = r.version
	c.Sealed.version[len(c.Sealed.version)-1] |= collectionBit
	return c
}

// collectionOf returns the name of the collection of one of a cluster's groups.
func collectionOf(cluster string, group int) string {
	v := versionOf([]byte(cluster), []byte(strconv.Itoa(group)))
	return collectionPrefix + v.String() + "/"
}

// Len returns the number of endpoints.
func (c *Collections) Len() int { return c.size }

// Names returns the names under which a client asks for the collections.
func (c *Collections) Names() []string {
	names := make([]string, len(c.names))
	for i, collection := range c.names {
		names[i] = collection + allMembersGlob
	}
	return names
}

// Has reports whether a client asks for one of the collections under this name.
func (c *Collections) Has(name string) bool {
	collection, ok := strings.CutSuffix(name, allMembersGlob)
	return ok && slices.Contains(c.names, collection)
}

// SameHead reports whether a client that has one assignment gets to the other by members alone.
func (c *Collections) SameHead(o *Collections) bool { return c.Open.version == o.Open.version }

// Members returns the change from one assignment's members to another's. Both have the same head.
// If from is nil, it is the change that adds all members.
func (d *Differ) Members(from, to *Resource) *Change {
	if from == nil {
		all := to.Collections()
		all.once.Do(func() { all.all = allMembers(to) })
		return all.all
	}
	c := d.change(step{typ: LbEndpoint, from: from.version, to: to.version}, nil, nil)
	c.diff.Do(func() { c.computeMembers(from, to) })
	return c
}

func (c *Change) computeMembers(from, to *Resource) {
	names := to.Collections().names
	c.members = to.Collections().size
	for i, g := range to.assignment.groups {
		Diff(from.assignment.groups[i].Members, g.Members, func(old, is *Resource) {
			if is == nil {
				c.Removed = append(c.Removed, memberName(names[i], old))
				return
			}
			c.Upserts = append(c.Upserts, memberOf(names[i], is))
		})
	}
	slices.SortFunc(c.Upserts, func(a, b *Resource) int { return strings.Compare(a.name, b.name) })
	slices.Sort(c.Removed)
}

// memberOf returns an endpoint as a resource of a collection.
func memberOf(collection string, r *Resource) *Resource {
	return &Resource{name: memberName(collection, r), version: r.version, body: r.Body(), size: r.size}
}

// memberName returns the name of a member. Its last part is a hash too: 96 bits of the key that the
// set has the endpoint by.
func memberName(collection string, member *Resource) string {
	return collection + base64.RawURLEncoding.EncodeToString(member.key[len(member.key)-12:])
}
