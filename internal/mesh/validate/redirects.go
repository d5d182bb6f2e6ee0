package validate

import (
	"fmt"
	"slices"

	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/mesh/state"
	"github.com/lateen-mesh/lateen/internal/source"
)

// httpsPort is where a redirect to https without a port leads.
const httpsPort = 443

// checkRedirects reports redirects to https at the port of the request, where that is the port of a
// Gateway's server without TLS.
func checkRedirects(snap *state.Snapshot, v *model.VirtualService) []source.Problem {
	var problems []source.Problem
	written := writtenAt(snap, v)
	for i, r := range v.HTTP {
		if r.Redirect == nil || r.Redirect.Scheme != "https" || !r.Redirect.PortFromRequest {
			continue
		}
		var plain []string
		for _, name := range v.Gateways {
			g := snap.Gateway(name)
			if g == nil {
				continue
			}
			for j := range g.Servers {
				if s := &g.Servers[j]; redirectsInPlaintext(s, v, r, name) {
					plain = append(plain, fmt.Sprintf("%d of Gateway %s", s.Port, name))
				}
			}
		}
		if len(plain) > 0 {
			place := written(i)
			problems = append(problems, source.Problem{
				Severity: source.Warning, Object: place.object, Path: place.path + ".redirect.derivePort",
				Value: "FROM_REQUEST_PORT", Message: "leads to https at a port that speaks no TLS: " + atMost(3, plain),
				Want: "FROM_PROTOCOL_DEFAULT, or the port of a server of HTTPS",
			})
		}
	}
	return problems
}

// redirectsInPlaintext reports whether a redirect takes requests of a server without TLS.
func redirectsInPlaintext(s *model.GatewayServer, v *model.VirtualService, r *model.HTTPRoute, gateway string) bool {
	reached := func(m *model.HTTPMatch) bool {
		return (len(m.Gateways) == 0 || slices.Contains(m.Gateways, gateway)) && (m.Port == 0 || m.Port == s.Port)
	}
	return s.TLS == nil && !s.Redirect && s.Broken == "" && s.Port != httpsPort && takesAny(s, v) &&
		(len(r.Matches) == 0 || slices.ContainsFunc(r.Matches, reached))
}
