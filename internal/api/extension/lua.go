package extension

import (
	"fmt"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	luav3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/lua/v3"

	"github.com/lateen-mesh/lateen/internal/api/model"
)

// maxScript is the longest script, in bytes, as in Istio's API.
const maxScript = 65536

// lua reads a script.
func (r *reader) lua(p *model.ConfigPatch) {
	switch script := r.Lua.GetInlineCode(); {
	case script == "":
		r.fail(".inlineCode", "", "is empty", "a script with envoy_on_request or envoy_on_response")
	case len(script) > maxScript:
		r.fail(".inlineCode", "", fmt.Sprintf("has %d bytes", len(script)), fmt.Sprintf("at most %d", maxScript))
	case r.failed:
	default:
		r.configure(p, &luav3.Lua{DefaultSourceCode: &corev3.DataSource{
			Specifier: &corev3.DataSource_InlineString{InlineString: script},
		}})
		return
	}
	r.refuse(p)
}
