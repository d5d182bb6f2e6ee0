package inspect

import (
	"fmt"
	"slices"
	"strings"

	networking "istio.io/api/networking/v1alpha3"
	networkingv1 "istio.io/client-go/pkg/apis/networking/v1"
	securityv1 "istio.io/client-go/pkg/apis/security/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/source"
)

// claimRules are matches by claims of tokens, and what reads tokens.
type claimRules struct {
	matches []claimMatch
	tokens  []*securityv1.RequestAuthentication
}

// claimMatch is a match by a claim, of a VirtualService for Gateways ("namespace/name").
type claimMatch struct {
	source.Change
	path     string
	gateways []string
}

// look notes the matches of a VirtualService.
func (cs *claimRules) look(c source.Change, o *networkingv1.VirtualService) {
	var gateways []string
	for _, name := range o.Spec.GetGateways() {
		if !strings.Contains(name, "/") {
			name = o.Namespace + "/" + name
		}
		gateways = append(gateways, name)
	}
	for i, route := range o.Spec.GetHttp() {
		for j, match := range route.GetMatch() {
			for field, headers := range map[string]map[string]*networking.StringMatch{
				"headers": match.GetHeaders(), "withoutHeaders": match.GetWithoutHeaders(),
			} {
				for name := range headers {
					if _, is := model.CutClaimHeader(name); is {
						path := fmt.Sprintf("spec.http[%d].match[%d].%s[%q]", i, j, field, name)
						cs.matches = append(cs.matches, claimMatch{c, path, gateways})
					}
				}
			}
		}
	}
}

// unprovenClaims returns the matches at a gateway whose workloads are known and read no tokens.
func (w *whole) unprovenClaims() (problems []source.Problem) {
	for _, m := range w.claims.matches {
		for _, g := range w.gateways {
			if !slices.Contains(m.gateways, g.Key.Namespace+"/"+g.Key.Name) || w.readsTokens(g) {
				continue
			}
			problems = append(problems, source.Problem{
				Severity: source.Warning, Object: m.Key, Origin: m.Origin, Path: m.path,
				Message: "no RequestAuthentication is for the workloads of " + g.Key.String() +
					", so that no request there has claims",
				Want: "a RequestAuthentication that selects the gateway's Pods",
			})
		}
	}
	return problems
}

// readsTokens reports whether a RequestAuthentication is for each workload of a Gateway that is
// known.
func (w *whole) readsTokens(g gateway) bool {
	return !slices.ContainsFunc(w.pods, func(pod labelled) bool {
		return g.selector.Matches(pod.labels) && !slices.ContainsFunc(w.claims.tokens, func(
			r *securityv1.RequestAuthentication,
		) bool {
			return (r.Namespace == w.root || r.Namespace == pod.namespace) &&
				labels.Set(r.Spec.GetSelector().GetMatchLabels()).AsSelector().Matches(pod.labels)
		})
	})
}
