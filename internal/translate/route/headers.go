package route

import (
	"slices"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"github.com/lateen-mesh/lateen/internal/api/model"
)

// headerOps are header operations as Envoy has them, on a route and on a weighted cluster alike.
type headerOps struct {
	requestAdd, responseAdd       []*corev3.HeaderValueOption
	requestRemove, responseRemove []string
	authority                     string // what Host or :authority is set to, which is a rewrite to Envoy
}

func translateHeaders(ops *model.HeaderOps) headerOps {
	if ops == nil {
		return headerOps{}
	}
	return headerOps{
		requestAdd:     headersToAdd(ops.Request),
		requestRemove:  headersToRemove(ops.Request),
		responseAdd:    headersToAdd(ops.Response),
		responseRemove: headersToRemove(ops.Response),
		authority:      authorityOf(ops.Request),
	}
}

// append puts other's operations behind those of o, so that they have the last word. A route's
// authority stays.
func (o headerOps) append(other headerOps) headerOps {
	o.requestAdd = append(o.requestAdd, other.requestAdd...)
	o.requestRemove = append(o.requestRemove, other.requestRemove...)
	o.responseAdd = append(o.responseAdd, other.responseAdd...)
	o.responseRemove = append(o.responseRemove, other.responseRemove...)
	if o.authority == "" {
		o.authority = other.authority
	}
	return o
}

func headersToAdd(op model.HeaderOp) []*corev3.HeaderValueOption {
	var out []*corev3.HeaderValueOption
	add := func(headers []model.Header, action corev3.HeaderValueOption_HeaderAppendAction) {
		for _, h := range headers {
			if !isReserved(h.Name) {
				out = append(out, &corev3.HeaderValueOption{
					Header:       &corev3.HeaderValue{Key: h.Name, Value: h.Value},
					AppendAction: action,
				})
			}
		}
	}
	add(op.Set, corev3.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD)
	add(op.Add, corev3.HeaderValueOption_APPEND_IF_EXISTS_OR_ADD)
	return out
}

func headersToRemove(op model.HeaderOp) []string {
	return slices.DeleteFunc(slices.Clone(op.Remove), isReserved)
}

// authorityOf is what an operation sets Host to; set comes before add.
func authorityOf(op model.HeaderOp) string {
	for _, headers := range [][]model.Header{op.Set, op.Add} {
		for _, h := range headers {
			if strings.EqualFold(h.Name, "host") || strings.EqualFold(h.Name, ":authority") {
				return h.Value
			}
		}
	}
	return ""
}

// isReserved tells headers that Envoy refuses to change by operations.
func isReserved(name string) bool {
	return strings.HasPrefix(name, ":") || strings.EqualFold(name, "host")
}
