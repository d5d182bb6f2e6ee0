package ratelimit

import (
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// DeepCopy returns a copy that shares nothing with the object.
func (l *RateLimit) DeepCopy() *RateLimit {
	if l == nil {
		return nil
	}
	out := *l
	out.ObjectMeta = *l.ObjectMeta.DeepCopy()
	out.Spec = l.Spec.copied()
	out.Status.Conditions = nil
	for _, c := range l.Status.Conditions {
		out.Status.Conditions = append(out.Status.Conditions, *c.DeepCopy())
	}
	return &out
}

func (s Spec) copied() Spec {
	if s.Selector != nil {
		s.Selector = &Selector{MatchLabels: maps.Clone(s.Selector.MatchLabels)}
	}
	s.TargetRefs = slices.Clone(s.TargetRefs)
	if s.Local != nil {
		local := *s.Local
		local.Limits = slices.Clone(local.Limits)
		for i := range local.Limits {
			local.Limits[i].Descriptor = local.Limits[i].copied()
		}
		s.Local = &local
	}
	if s.Global != nil {
		global := *s.Global
		if global.Timeout != nil {
			global.Timeout = &metav1.Duration{Duration: global.Timeout.Duration}
		}
		global.Descriptors = slices.Clone(global.Descriptors)
		for i := range global.Descriptors {
			global.Descriptors[i] = global.Descriptors[i].copied()
		}
		s.Global = &global
	}
	return s
}

func (d Descriptor) copied() Descriptor {
	d.By = slices.Clone(d.By)
	if d.Match == nil {
		return d
	}
	m := *d.Match
	m.Paths, m.Methods, m.Headers = slices.Clone(m.Paths), slices.Clone(m.Methods), slices.Clone(m.Headers)
	m.Principals, m.Namespaces = slices.Clone(m.Principals), slices.Clone(m.Namespaces)
	m.Claims = slices.Clone(m.Claims)
	for i := range m.Claims {
		m.Claims[i].Values = slices.Clone(m.Claims[i].Values)
	}
	d.Match = &m
	return d
}
