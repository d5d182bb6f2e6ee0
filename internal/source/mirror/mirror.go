package mirror

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/source"
)

// The marks of Endpoints that Kubernetes does not mirror (EndpointSliceMirroring).
const (
	leaderAnnotation = "control-plane.alpha.kubernetes.io/leader"
	managedBy        = "endpointslicemirroring-controller.k8s.io"
)

// Source delivers the objects of another source, and the EndpointSlices that its Endpoints mean.
type Source struct{ upstream source.Source }

// New returns a source that delivers what upstream does, and the mirrored EndpointSlices.
func New(upstream source.Source) *Source { return &Source{upstream: upstream} }

// Run implements source.Source.
func (s *Source) Run(ctx context.Context, sink source.Sink) error {
	m := newMirror()
	return s.upstream.Run(ctx, func(e source.Event) { sink(m.add(e)) })
}

// name is the namespace and the name that a Service and its Endpoints share.
type name struct{ namespace, name string }

// mirror is what has been delivered, and what was made of it.
type mirror struct {
	services  map[name]*corev1.Service
	endpoints map[name]source.Change
	slices    map[name][]source.Change
	told      map[name]source.Problem
	synced    bool
}

func newMirror() *mirror {
	return &mirror{
		services: map[name]*corev1.Service{}, endpoints: map[name]source.Change{},
		slices: map[name][]source.Change{}, told: map[name]source.Problem{},
	}
}

// add returns an event with what follows from it.
func (m *mirror) add(e source.Event) source.Event {
	touched := m.take(e)
	if e.Synced && !m.synced {
		m.synced = true
		for n := range m.endpoints { // now it is known which have no Service
			touched[n] = true
		}
	}
	e.Changes, e.Reports = slices.Clip(e.Changes), slices.Clip(e.Reports)
	for _, n := range slices.SortedFunc(maps.Keys(touched), compare) {
		e.Changes = append(e.Changes, m.step(n)...)
		if report, changed := m.report(n); changed {
			e.Reports = append(e.Reports, report)
		}
	}
	return e
}

func compare(a, b name) int {
	return strings.Compare(a.namespace+"/"+a.name, b.namespace+"/"+b.name)
}

// take notes what an event brings, and returns the names whose slices may change by it.
func (m *mirror) take(e source.Event) map[name]bool {
	touched := map[name]bool{}
	for _, c := range e.Changes {
		n := name{c.Key.Namespace, c.Key.Name}
		switch c.Key.Kind {
		case kinds.Service:
			delete(m.services, n)
			if svc, is := c.Object.(*corev1.Service); is {
				m.services[n] = svc
			}
		case kinds.Endpoints:
			delete(m.endpoints, n)
			if c.Object != nil {
				m.endpoints[n] = c
			}
		default:
			continue
		}
		touched[n] = true
	}
	for _, p := range e.Moved {
		n := name{p.Key.Namespace, p.Key.Name}
		if c, known := m.endpoints[n]; known && p.Key.Kind == kinds.Endpoints {
			c.Origin = p.Origin
			m.endpoints[n] = c
			touched[n] = true
		}
	}
	return touched
}

// step returns the changes of a name's slices.
func (m *mirror) step(n name) (changes []source.Change) {
	was, is := m.slices[n], m.wanted(n)
	for i, c := range is {
		if i >= len(was) || !reflect.DeepEqual(was[i].Object, c.Object) {
			changes = append(changes, c)
		}
	}
	for _, c := range was[min(len(was), len(is)):] {
		c.Object, c.ObservedAt = nil, m.endpoints[n].ObservedAt
		changes = append(changes, c)
	}
	if m.slices[n] = is; len(is) == 0 {
		delete(m.slices, n)
	}
	return changes
}

// wanted returns the slices that a name should have: one for each subset and family of addresses.
func (m *mirror) wanted(n name) (all []source.Change) {
	c, exists := m.endpoints[n]
	if !exists || !isMirrored(c) || m.services[n] == nil || m.services[n].Spec.Selector != nil {
		return nil
	}
	for _, subset := range endpointsOf(c).Subsets {
		for _, family := range []discoveryv1.AddressType{discoveryv1.AddressTypeIPv4, discoveryv1.AddressTypeIPv6} {
			slice := sliceOf(endpointsOf(c), &subset, family)
			if len(slice.Endpoints) == 0 {
				continue
			}
			if slice.Name = n.name + "-mirrored"; len(all) > 0 {
				slice.Name = fmt.Sprintf("%s-%d", slice.Name, len(all)+1)
			}
			all = append(all, source.Change{
				Key:    source.Key{Kind: kinds.EndpointSlice, Namespace: n.namespace, Name: slice.Name},
				Object: slice, Origin: c.Origin, ObservedAt: c.ObservedAt,
			})
		}
	}
	return all
}

// report tells of Endpoints that have no effect, if that is news.
func (m *mirror) report(n name) (source.Report, bool) {
	problem, useless := m.problem(n)
	if before, told := m.told[n]; told == useless && before == problem {
		return source.Report{}, false
	}
	report := source.Report{Origin: "Endpoints " + n.namespace + "/" + n.name}
	if useless {
		m.told[n] = problem
		report.Problems = []source.Problem{problem}
	} else {
		delete(m.told, n)
	}
	return report, true
}

func (m *mirror) problem(n name) (source.Problem, bool) {
	c, exists := m.endpoints[n]
	if !exists || !isMirrored(c) {
		return source.Problem{}, false
	}
	p := source.Problem{Severity: source.Warning, Object: c.Key, Origin: c.Origin, Path: "metadata.name", Value: n.name}
	switch svc := m.services[n]; {
	case svc == nil && m.synced:
		p.Message, p.Want = "no Service has this name, so that these endpoints have no effect", "the name of a Service"
		return p, true
	case svc != nil && svc.Spec.Selector != nil:
		p.Message = "a cluster replaces the endpoints of a Service that has a selector, so that these have no effect"
		p.Want = "a Service without spec.selector"
		return p, true
	}
	return source.Problem{}, false
}
