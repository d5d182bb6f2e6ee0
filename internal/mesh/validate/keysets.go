package validate

import (
	"slices"

	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/mesh/state"
	"github.com/lateen-mesh/lateen/internal/source"
)

// fetchedKeys is the aspect of keys that a RequestAuthentication has fetched.
const fetchedKeys = "fetched keys"

// checkKeySets reports which keys of RequestAuthentications could not be fetched. Nothing is said
// while they have not been tried. The cost follows the delta and those with changed keys.
func (c *Checker) checkKeySets(snap *state.Snapshot, d *state.Delta) {
	dirty := map[*model.RequestAuthentication]bool{}
	for _, p := range d.RequestAuthentications {
		if p.New == nil {
			c.store.setRelation(relation{p.Old.Key(), fetchedKeys}, nil)
			continue
		}
		dirty[p.New] = true
	}
	for _, p := range d.KeySets {
		for a := range snap.RequestAuthenticationsWith(p.Either().URI) {
			dirty[a] = true
		}
	}
	for a := range dirty {
		c.store.setRelation(relation{a.Key(), fetchedKeys}, missingKeys(snap, a))
	}
}

func missingKeys(snap *state.Snapshot, a *model.RequestAuthentication) []source.Problem {
	var problems []source.Problem
	var told []string
	for _, r := range a.Rules {
		set := snap.KeySet(r.KeysFrom)
		if r.KeysFrom == "" || set == nil || set.Error == "" || slices.Contains(told, r.KeysFrom) {
			continue
		}
		told = append(told, r.KeysFrom)
		severity, effect := source.Error, "tokens of the issuer are refused until its keys have been fetched"
		if set.Keys != "" {
			severity, effect = source.Warning, "the keys that were fetched before stay in use"
		}
		problems = append(problems, source.Problem{
			Severity: severity,
			Path:     "spec.jwtRules",
			Value:    r.KeysFrom,
			Message:  set.Error + "; " + effect,
			Want:     "an address where the control plane finds the public keys of the issuer",
		})
	}
	return problems
}
