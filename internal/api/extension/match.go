package extension

import (
	"fmt"
	"math"
	"slices"

	typev1beta1 "istio.io/api/type/v1beta1"

	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/source"
)

// places are the ports for which an extension is, by the side of calls.
type places map[model.PatchContext]ports

// ports are some ports, or all.
type ports struct {
	all   bool
	these []uint16
}

// where reads which traffic the object is for. What more than one entry matches passes the filter
// once.
func (r *reader) where() places {
	to := places{}
	if n := r.matched(); n > maxMatches {
		r.failed = true
		r.add(source.Error, "spec.match", source.Problem{
			Value: fmt.Sprintf("%d entries and ports", n), Message: "are too many" + r.closed(),
			Want: fmt.Sprintf("at most %d; without ports an entry is for all of them", maxMatches),
		})
	}
	if len(r.Match) == 0 || r.failed {
		to.add(contexts(), ports{all: true})
	}
	for i, m := range r.Match {
		if to.isEverything() {
			break
		}
		at := fmt.Sprintf("spec.match[%d]", i)
		of := ports{all: len(m.GetPorts()) == 0}
		for j, p := range m.GetPorts() {
			if p.GetNumber() == 0 || p.GetNumber() > math.MaxUint16 {
				r.warn(fmt.Sprintf("%s.ports[%d].number", at, j), fmt.Sprint(p.GetNumber()),
					"is no port and matches nothing", "1 to 65535")
				continue
			}
			of.these = append(of.these, uint16(p.GetNumber()))
		}
		switch m.GetMode() {
		case typev1beta1.WorkloadMode_CLIENT:
			to.add([]model.PatchContext{model.SidecarOutbound, model.GatewayContext}, of)
		case typev1beta1.WorkloadMode_SERVER:
			to.add([]model.PatchContext{model.SidecarInbound}, of)
		default:
			to.add(contexts(), of)
		}
	}
	return to
}

// maxMatches is how many entries and ports of match one object may have. Each port is a patch.
const maxMatches = 128

// matched counts the entries of match, and their ports.
func (r *reader) matched() int {
	n := len(r.Match)
	for _, m := range r.Match {
		n += len(m.GetPorts())
	}
	return n
}

// isEverything reports whether all traffic is matched.
func (w places) isEverything() bool {
	return w[model.SidecarInbound].all && w[model.SidecarOutbound].all && w[model.GatewayContext].all
}

func contexts() []model.PatchContext {
	return []model.PatchContext{model.SidecarInbound, model.SidecarOutbound, model.GatewayContext}
}

func (w places) add(to []model.PatchContext, of ports) {
	for _, c := range to {
		w[c] = ports{all: w[c].all || of.all, these: slices.Concat(w[c].these, of.these)}
	}
}

// patches returns a patch for each place. No two match the same listener or chain.
func (w places) patches(p model.ConfigPatch) []*model.ConfigPatch {
	if w.isEverything() {
		return []*model.ConfigPatch{&p}
	}
	var all []*model.ConfigPatch
	for _, c := range contexts() {
		p.Context = c
		of := w[c].these
		if w[c].all {
			of = []uint16{0}
		}
		slices.Sort(of)
		for _, port := range slices.Compact(of) {
			p.Listener.Port = port
			one := p
			all = append(all, &one)
		}
	}
	return all
}
