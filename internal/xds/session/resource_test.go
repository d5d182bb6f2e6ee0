package session_test

import (
	"slices"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/xds/resource"
)

// resources makes resources of a notation, which is also their body:
//
//	a:1             a resource and its content
//	a:1!            one of the proxy's own
//	l:1>r+$k+a      one that refers to route tables (begin with r), secrets ($) or clusters
//	r:1[x:1>a;y:1]  a whole route table and its virtual hosts
//	r:1[vhds]       the head of a table
//	r/x:1>a         a virtual host of a table
//	x:1@d+e>a       a virtual host with domains other than its name
//	c{a:1;b:1}      an assignment and its endpoints; with "open" or "sealed" behind it, a head
//	c/a:1           an endpoint of a collection, on the wire
type resources struct {
	store  *resource.Store
	names  *model.Interner[string]
	byNote map[string]*resource.Resource
}

func newResources() *resources {
	return &resources{
		store: resource.NewStore(), names: model.NewInterner[string](), byNote: map[string]*resource.Resource{},
	}
}

func (r *resources) get(note string) *resource.Resource {
	if known := r.byNote[note]; known != nil {
		return known
	}
	res := r.make(note)
	r.byNote[note] = res
	return res
}

func (r *resources) make(note string) *resource.Resource {
	if name, rest, ok := strings.Cut(note, "{"); ok {
		return r.assignment(name, rest)
	}
	name, _, _ := strings.Cut(note, ":")
	if head, ok := strings.CutSuffix(note, "[vhds]"); ok {
		return resource.NewTableHead(name, []byte(head))
	}
	if table, vhost, ok := strings.Cut(note, "/"); ok {
		return r.virtualHost(table, vhost, note)
	}
	if head, vhosts, ok := strings.Cut(strings.TrimSuffix(note, "]"), "["); ok {
		var members []*resource.Resource
		for _, v := range strings.Split(vhosts, ";") {
			members = append(members, r.virtualHost(name, v, v))
		}
		return resource.NewRouteTable(name, []byte(head), r.store.Build(members...))
	}
	if strings.HasSuffix(note, "!") {
		return resource.NewWith(name, []byte(note), resource.Traits{Placeholders: true})
	}
	return resource.NewWith(name, []byte(note), resource.Traits{Refs: r.refs(note)})
}

func (r *resources) assignment(name, rest string) *resource.Resource {
	list, form, _ := strings.Cut(rest, "}")
	var members []*resource.Resource
	for _, m := range strings.Split(list, ";") {
		endpoint, _, _ := strings.Cut(m, ":")
		members = append(members, resource.New(endpoint, []byte(name+"/"+m)))
	}
	a := resource.NewAssignment(name, []byte(name+"{"), []resource.Group{{Members: r.store.Build(members...)}})
	switch form {
	case "open":
		return a.Collections().Open
	case "sealed":
		return a.Collections().Sealed
	}
	return a
}

func (r *resources) refs(note string) resource.Refs {
	var clusters, routes, secrets []string
	if _, list, ok := strings.Cut(note, ">"); ok && list != "" {
		for _, name := range strings.Split(list, "+") {
			switch name[0] {
			case 'r':
				routes = append(routes, name)
			case '$':
				secrets = append(secrets, name)
			default:
				clusters = append(clusters, name)
			}
		}
	}
	return resource.Refs{Clusters: r.names.List(clusters), Routes: r.names.List(routes), Secrets: r.names.List(secrets)}
}

// VirtualHost.domains, and a field of none, which holds the note.
const (
	domains protowire.Number = 2
	noted   protowire.Number = 99
)

func (r *resources) virtualHost(table, text, note string) *resource.Resource {
	name, _, _ := strings.Cut(text, ":")
	before, _, _ := strings.Cut(text, ">")
	_, list, ok := strings.Cut(before, "@")
	if !ok {
		list = name
	}
	var body []byte
	for _, d := range strings.Split(list, "+") {
		body = protowire.AppendString(protowire.AppendTag(body, domains, protowire.BytesType), d)
	}
	body = protowire.AppendString(protowire.AppendTag(body, noted, protowire.BytesType), note)
	return resource.NewVirtualHost(table, name, body, r.refs(note))
}

func (r *resources) set(notes []string) *resource.Set {
	list := make([]*resource.Resource, len(notes))
	for i, n := range notes {
		list[i] = r.get(n)
	}
	return r.store.Build(list...)
}

func (r *resources) versions(notes []string) map[string]string {
	out := map[string]string{}
	for _, n := range notes {
		name, content, _ := strings.Cut(n, ":")
		name, _, _ = strings.Cut(name, "{")
		out[name] = "2024-05-05T00:00:00Z/1"
		if content != "?" {
			out[name] = r.get(n).Version().String()
		}
	}
	return out
}

// noteOf is the notation of a resource, name:empty for a stand-in.
func noteOf(r *resource.Resource) string {
	switch {
	case r.VirtualHosts() != nil:
		return noteOfTable(r)
	case strings.HasPrefix(string(r.Body()), r.Name()+"{"):
		return noteOfAssignment(r)
	case strings.HasPrefix(r.Name(), collection):
		return string(r.Body())
	}
	if len(r.Domains()) > 0 {
		return noteOfHost(r)
	}
	if note := string(r.Body()); strings.HasPrefix(note, r.Name()+":") {
		if head, _, ok := strings.Cut(note, vhds); ok {
			return head + "[vhds]"
		}
		return note
	}
	if strings.Contains(string(r.Body()), vhds) {
		return r.Name() + ":empty[vhds]"
	}
	return r.Name() + ":empty"
}

// collection is how the names of collections and their members begin.
const collection = "xdstp:"

func noteOfAssignment(r *resource.Resource) string {
	if strings.Contains(string(r.Body()), collection) {
		if _, sealed := r.Version().ListVersion(); sealed {
			return r.Name() + "{}sealed"
		}
		return r.Name() + "{}open"
	}
	var notes []string
	for _, g := range r.Groups() {
		for m := range g.Members.All() {
			_, note, _ := strings.Cut(string(m.Body()), "/")
			notes = append(notes, note)
		}
	}
	slices.Sort(notes)
	return r.Name() + "{" + strings.Join(notes, ";") + "}"
}

func noteOfTable(r *resource.Resource) string {
	const virtualHosts = "\x12" // the tag behind the head
	head, _, _ := strings.Cut(string(r.Body()), virtualHosts)
	var notes []string
	for v := range r.VirtualHosts().All() {
		notes = append(notes, noteOfHost(v))
	}
	slices.Sort(notes)
	return head + "[" + strings.Join(notes, ";") + "]"
}

func noteOfHost(r *resource.Resource) string {
	tag := protowire.AppendTag(nil, noted, protowire.BytesType)
	_, field, _ := strings.Cut(string(r.Body()), string(tag))
	note, _ := protowire.ConsumeString([]byte(field))
	return note
}

// vhds is how RouteConfiguration.vhds begins, behind the head's own.
const vhds = "\x4a\x08"

// notesOf marks a list that is not in order of distinct names.
func notesOf(list []*resource.Resource) []string {
	var out []string
	for i, r := range list {
		if i > 0 && list[i-1].Name() >= r.Name() {
			out = append(out, "UNSORTED")
		}
		out = append(out, noteOf(r))
	}
	return out
}
