package listener

import (
	"net/netip"
	"slices"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/lateen-mesh/lateen/internal/api/model"
)

// claims records which connections earlier chains of a listener take. Envoy refuses a listener with
// two chains for the same ones, and one object's mistake must not close the port for all others. So
// the first chain has them.
type claims struct {
	taken map[claim]bool
	bySNI bool // some chain looks at the server name
}

// claim is one pair that chains match on. A zero field stands for any.
type claim struct {
	prefix netip.Prefix
	name   string
}

// matches returns the conditions for what the chain still gets: one, or one for each prefix if
// earlier chains have taken a part, or none. Names and prefixes that cannot be read select nothing:
// a chain must not get everything else in their place.
func (cs *claims) matches(c Chain) []*listenerv3.FilterChainMatch {
	names, prefixes := serverNames(c.SNI), destinations(c.Prefixes)
	fresh := make([][]string, len(prefixes))
	whole := true
	for i, prefix := range prefixes {
		fresh[i] = slices.DeleteFunc(
			slices.Clone(names), func(name string) bool { return cs.taken[claim{prefix, name}] },
		)
		whole = whole && len(fresh[i]) == len(names)
	}
	cs.add(prefixes, names)
	if len(names) == 0 || len(prefixes) == 0 {
		return nil
	}
	if whole {
		return []*listenerv3.FilterChainMatch{filterChainMatch(prefixes, names)}
	}
	var out []*listenerv3.FilterChainMatch
	for i, prefix := range prefixes {
		if len(fresh[i]) > 0 {
			out = append(out, filterChainMatch([]netip.Prefix{prefix}, fresh[i]))
		}
	}
	return out
}

func (cs *claims) add(prefixes []netip.Prefix, names []string) {
	if cs.taken == nil {
		cs.taken = map[claim]bool{}
	}
	for _, name := range names {
		cs.bySNI = cs.bySNI || name != ""
		for _, prefix := range prefixes {
			cs.taken[claim{prefix, name}] = true
		}
	}
}

func filterChainMatch(prefixes []netip.Prefix, names []string) *listenerv3.FilterChainMatch {
	m := &listenerv3.FilterChainMatch{}
	for _, p := range prefixes {
		if p.IsValid() {
			m.PrefixRanges = append(m.PrefixRanges, &corev3.CidrRange{
				AddressPrefix: p.Addr().String(),
				PrefixLen:     wrapperspb.UInt32(uint32(p.Bits())),
			})
		}
	}
	for _, name := range names {
		if name != "" {
			m.ServerNames = append(m.ServerNames, name)
		}
	}
	return m
}

// serverNames returns the names that a chain takes, sorted, without duplicates. The one name ""
// stands for any, or none. Envoy knows a wildcard only as a whole first label.
func serverNames(sni *model.List[string]) []string {
	if sni.Len() == 0 {
		return []string{""}
	}
	var names []string
	for name := range sni.All() {
		if name == "*" {
			return []string{""}
		}
		if name != "" && !strings.Contains(strings.TrimPrefix(name, "*."), "*") {
			names = append(names, strings.ToLower(name))
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// destinations returns the prefixes that a chain takes, sorted, without duplicates. The one zero
// prefix stands for any.
func destinations(list *model.List[string]) []netip.Prefix {
	if list.Len() == 0 {
		return []netip.Prefix{{}}
	}
	var prefixes []netip.Prefix
	for text := range list.All() {
		if p, ok := parsePrefix(text); ok {
			prefixes = append(prefixes, p)
		}
	}
	slices.SortFunc(prefixes, netip.Prefix.Compare)
	return slices.Compact(prefixes)
}

func parsePrefix(text string) (netip.Prefix, bool) {
	if addr, err := netip.ParseAddr(text); err == nil && addr.Zone() == "" {
		return netip.PrefixFrom(addr, addr.BitLen()), true
	}
	p, err := netip.ParsePrefix(text)
	return p.Masked(), err == nil
}
