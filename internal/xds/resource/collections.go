package resource

import (
	"encoding/base64"
	"slices"
	"strconv"
	"strings"
	"sync"

	"google.golang.org/protobuf/encoding/protowire"
)

// Assignments have two forms, of the same endpoints:
//
//	a list       one ClusterLoadAssignment with all of them in it. This is what a State has.
//	collections  the assignment's head, in which each locality says that its endpoints come by LEDS as a collection, and each
//	             endpoint as a resource of its own, "<collection>/<endpoint>".
//
// The bytes of an endpoint are the same in both. Which of them a client gets is its session's to
// decide.
//
// A head has one of two versions. An open one tells nothing of the members. A sealed one is the
// list's own version but for the last bit: who reports it has the members that the list has.

// LocalityLbEndpoints.leds_cluster_locality_config, and
// LedsClusterLocalityConfig.leds_collection_name.
const (
	localityCollection protowire.Number = 8
	collectionName     protowire.Number = 2
)

// overLEDS is LedsClusterLocalityConfig.leds_config: {ads: {}, initial_fetch_timeout: 0s,
// resource_api_version: V3}. Without a timeout, a cluster does not go to work before its endpoints
// are there.
const overLEDS = "\x0a\x06\x1a\x00\x22\x00\x30\x02"

// collectionPrefix is what the names of all collections begin with, by which Envoy tells them from
// other names (xRFC TP1). What follows is a hash: short, because it stands before every endpoint,
// and without a character that Envoy would spell otherwise.
const collectionPrefix = "xdstp:///envoy.config.endpoint.v3.LbEndpoint/"

// anyMember is the last part of what a client asks for to get a collection.
const anyMember = "*"

// assignment is what an assignment is made of.
type assignment struct {
	head   []byte // all fields but endpoints
	groups []Group

	once        sync.Once
	collections *Collections
}

// Collections are an assignment in the form of collections.
type Collections struct {
	// Open and Sealed are its head, in its two versions.
	Open, Sealed *Resource

	names []string // with the slash behind them, by group
	size  int      // endpoints in all

	once sync.Once
	all  *Change // from nothing
}

// Endpoints is how many endpoints an assignment has, without making its collections; 0 for other
// resources.
func (r *Resource) Endpoints() (n int) {
	if r.assignment == nil {
		return 0
	}
	for _, g := range r.assignment.groups {
		n += g.Members.Len()
	}
	return n
}

// Collections are nil for what cannot go in this form: other resources, and an assignment without
// endpoints.
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
		config := protowire.AppendTag([]byte(overLEDS), collectionName, protowire.BytesType)
		config = protowire.AppendString(config, c.names[i]+anyMember)
		locality := protowire.AppendTag(slices.Clone(g.Head), localityCollection, protowire.BytesType)
		locality = protowire.AppendBytes(locality, config)
		body = protowire.AppendTag(body, assignmentEndpoints, protowire.BytesType)
		body = protowire.AppendBytes(body, locality)
	}
	c.Open, c.Sealed = New(r.name, body), New(r.name, body)
	c.Open.version[len(c.Open.version)-1] &^= collected
	c.Sealed.version = r.version
	c.Sealed.version[len(c.Sealed.version)-1] |= collected
	return c
}

// collectionOf names the collection of one of a cluster's groups.
func collectionOf(cluster string, group int) string {
	v := versionOf([]byte(cluster), []byte(strconv.Itoa(group)))
	return collectionPrefix + v.String() + "/"
}

// Len is how many endpoints there are.
func (c *Collections) Len() int { return c.size }

// Names are what a client asks for to get them.
func (c *Collections) Names() []string {
	names := make([]string, len(c.names))
	for i, collection := range c.names {
		names[i] = collection + anyMember
	}
	return names
}

// Has tells whether a client asks for one of the collections under this name.
func (c *Collections) Has(name string) bool {
	collection, ok := strings.CutSuffix(name, anyMember)
	return ok && slices.Contains(c.names, collection)
}

// SameHead tells whether a client with one of them gets to the other by members alone.
func (c *Collections) SameHead(o *Collections) bool { return c.Open.version == o.Open.version }

// Members is the step from one assignment's members to those of another with the same head, or from
// none to those of the second: then from is nil.
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

// memberOf is an endpoint as a resource of a collection.
func memberOf(collection string, r *Resource) *Resource {
	return &Resource{name: memberName(collection, r), version: r.version, body: r.Body(), size: r.size}
}

// memberName is a hash as well: 96 bits of the one that a set has the endpoint by.
func memberName(collection string, member *Resource) string {
	return collection + base64.RawURLEncoding.EncodeToString(member.key[len(member.key)-12:])
}
