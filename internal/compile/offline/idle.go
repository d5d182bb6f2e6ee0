package offline

import (
	"fmt"
	"strings"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/source"
)

// Idle returns a warning for each patch of an EnvoyFilter that matches nothing of the proxies that
// it is for, by object and index. It says what these have in place of what the match names. Patches
// that are for no proxy are left out.
func (c *Compiled) Idle() []source.Problem {
	var found []source.Problem
	for _, m := range c.Patches {
		if m.Resources > 0 || m.Owner.Kind != kinds.EnvoyFilter {
			continue
		}
		p := source.Problem{
			Severity: source.Warning, Object: m.Owner, Origin: c.origins[m.Owner],
			Path:    fmt.Sprintf("spec.configPatches[%d].match", m.Index),
			Message: fmt.Sprintf("matches nothing that the proxies of the workloads it is for (%d) get", m.Selected),
			Want:    "what they have: lateen proxy-config shows it",
		}
		if named := c.Named(m); named.Field != "" {
			p.Path += "." + named.Field
			p.Value = named.Value
			if len(named.Nearest) > 0 {
				p.Want = "what they have, as " + strings.Join(named.Nearest, ", ")
			}
		}
		found = append(found, p)
	}
	return found
}
