package validate

import (
	"fmt"

	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/mesh/state"
	"github.com/lateen-mesh/lateen/internal/source"
)

// checkSessions reports destinations of a route whose clients would have another session than the
// first one's: a route has one.
func checkSessions(
	snap *state.Snapshot, v *model.VirtualService, r *model.HTTPRoute, path string,
) (problems []source.Problem) {
	if len(r.Destinations) < 2 || r.Session != nil {
		return nil
	}
	var first *model.Service
	for i, d := range r.Destinations {
		svc := calledFrom(v.Namespace, snap.Claims(d.Host))
		switch {
		case svc == nil || svc.Session == nil || d.Weight == 0:
		case first == nil:
			first = svc
		case *svc.Session != *first.Session:
			problems = append(problems, source.Problem{
				Severity: source.Error, Path: fmt.Sprintf("%s.route[%d].destination.host", path, i),
				Value: string(d.Host),
				Message: fmt.Sprintf("the session of %s has no effect on this route, which has that of %s",
					svc.Key(), first.Key()),
				Want: "the same label istio.io/persistent-session at both, or a route for each",
			})
		}
	}
	return problems
}
