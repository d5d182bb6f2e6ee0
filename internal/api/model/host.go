package model

import (
	"iter"
	"strings"
)

// Host is a host name as Istio's API has it: a DNS name in lower case, "*", or a wildcard
// "*.example.com".
type Host string

// IsWildcard reports whether the host is "*" or "*.suffix".
func (h Host) IsWildcard() bool { return strings.HasPrefix(string(h), "*") }

// Covers reports whether h stands for every name that o stands for.
func (h Host) Covers(o Host) bool {
	if h == o || h == "*" {
		return true
	}
	if !h.IsWildcard() {
		return false
	}
	return strings.HasSuffix(string(o), string(h[1:])) && len(o) > len(h)-1
}

// Overlaps reports whether both stand for some common name.
func (h Host) Overlaps(o Host) bool { return h.Covers(o) || o.Covers(h) }

// Patterns yields the names that may select h, most specific first: h itself, then its wildcards
// ("a.b.c" → "a.b.c", "*.b.c", "*.c", "*").
func (h Host) Patterns() iter.Seq[Host] {
	return func(yield func(Host) bool) {
		if !yield(h) || h == "*" {
			return
		}
		rest := string(h)
		for {
			i := strings.IndexByte(rest, '.')
			if i < 0 {
				break
			}
			rest = rest[i+1:]
			wild := Host("*." + rest)
			if wild != h && !yield(wild) {
				return
			}
		}
		yield("*")
	}
}

// Resolve completes a short name, as Istio's API does: a name without a dot is a service of the
// namespace. Other names stay.
func Resolve(name, namespace, domain string) Host {
	name = strings.ToLower(name)
	if name == "" || name == "*" || strings.Contains(name, ".") {
		return Host(name)
	}
	return Host(name + "." + namespace + ".svc." + domain)
}
