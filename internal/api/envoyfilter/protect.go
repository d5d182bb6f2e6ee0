package envoyfilter

import (
	"strings"

	"github.com/lateen-mesh/lateen/internal/api/model"
)

// protect closes where the filter that a patch adds is missing. For one with a mistake a filter
// stands that refuses all. Patches that add no filter are left as they are.
func (r *reader) protect(p *model.ConfigPatch) {
	adds := p.Operation == model.PatchAdd || p.Operation.Inserts() || p.Operation == 0
	if !adds || p.Target != model.PatchHTTPFilter && p.Target != model.PatchNetworkFilter {
		return
	}
	p.Fallback = model.FallbackDeny
	if !r.failed {
		return
	}
	value, err := FilterValue(p.Target, "lateen.refused."+r.path, RefuseAll(p.Target))
	if err != nil {
		return
	}
	if p.Operation == 0 {
		p.Operation = model.PatchInsertFirst
	}
	r.failed, p.Value = false, value
	for i := range r.problems {
		r.problems[i].Message = strings.Replace(r.problems[i].Message, leftOut, refused, 1)
	}
}
