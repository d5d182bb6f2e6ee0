package scope

import "github.com/lateen-mesh/lateen/internal/api/model"

// Telemetries returns the ones in force for the class: the mesh's, its namespace's, and all that
// select its workloads, in the total order. Of several without a selector in one namespace the
// first counts.
func (s *Scope) Telemetries() []*model.Telemetry {
	found := s.telemetries()
	s.asked(question{kind: whichTelemetries}, answer{is: chained(found)})
	return found
}

func (s *Scope) telemetries() []*model.Telemetry {
	if !s.snapshot.HasTelemetries() {
		return nil
	}
	var found []*model.Telemetry
	for _, namespace := range s.policyNamespaces() {
		if wide := firstWhere(s.snapshot.Telemetries(namespace), isWide); wide != nil {
			found = append(found, wide)
		}
	}
	for t := range s.snapshot.Telemetries(s.class.Namespace) {
		if !isWide(t) && t.IsFor(true, s.class.Selected) {
			found = append(found, t)
		}
	}
	return found
}

func isWide(t *model.Telemetry) bool { return t.IsForAll() }
