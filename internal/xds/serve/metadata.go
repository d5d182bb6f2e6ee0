package serve

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/types/known/structpb"
)

// metadataReader reads typed values out of a node's metadata and keeps the first error. Istio's
// agent sends numbers and booleans as strings ("15007", "true"), others send them as such; both are
// read.
type metadataReader struct {
	fields map[string]*structpb.Value
	within string // of the metadata, where the fields are: "PROXY_CONFIG."
	err    error
}

func (r *metadataReader) fail(key, want string) {
	if r.err == nil {
		r.err = fmt.Errorf("metadata %s%s = %s: want %s", r.within, key, shorten(r.fields[key]), want)
	}
}

// shorten is a value as an error shows it, cut short if it is long.
func shorten(v *structpb.Value) string {
	const limit = 80
	b, err := v.MarshalJSON()
	if err != nil {
		return "?"
	}
	if len(b) > limit {
		return string(b[:limit]) + "…"
	}
	return string(b)
}

// scalar is a string, a number or a boolean as a string; anything else, or nothing, is empty.
func (r *metadataReader) scalar(key, want string) string {
	switch v := r.fields[key].GetKind().(type) {
	case nil, *structpb.Value_NullValue:
		return ""
	case *structpb.Value_StringValue:
		return v.StringValue
	case *structpb.Value_NumberValue:
		return strconv.FormatFloat(v.NumberValue, 'f', -1, 64)
	case *structpb.Value_BoolValue:
		return strconv.FormatBool(v.BoolValue)
	default:
		r.fail(key, want)
		return ""
	}
}

func (r *metadataReader) text(key string) string { return r.scalar(key, "a string") }

func (r *metadataReader) flag(key string) bool {
	const want = "true or false"
	switch r.scalar(key, want) {
	case "true", "1":
		return true
	case "", "false", "0":
		return false
	default:
		r.fail(key, want)
		return false
	}
}

func (r *metadataReader) port(key string) uint16 {
	const want = "a port from 1 to 65535"
	s := r.scalar(key, want)
	if s == "" {
		return 0
	}
	n, err := strconv.ParseUint(s, 10, 16)
	if err != nil || n == 0 {
		r.fail(key, want)
	}
	return uint16(n)
}

func (r *metadataReader) mode(key string) InterceptionMode {
	const want = "REDIRECT, TPROXY or NONE"
	switch m := InterceptionMode(r.scalar(key, want)); m {
	case "":
		return Redirect
	case Redirect, TProxy, None:
		return m
	default:
		r.fail(key, want)
		return Redirect
	}
}

// list is a comma-separated string, or a list of strings.
func (r *metadataReader) list(key string) []string {
	const want = "strings separated by commas"
	items := r.fields[key].GetListValue().GetValues()
	if items == nil {
		s := r.scalar(key, want)
		return slices.DeleteFunc(strings.Split(s, ","), func(item string) bool { return item == "" })
	}
	var out []string
	for _, item := range items {
		if _, ok := item.GetKind().(*structpb.Value_StringValue); !ok {
			r.fail(key, want)
			return nil
		}
		out = append(out, item.GetStringValue())
	}
	return out
}

func (r *metadataReader) addresses(key string) []netip.Addr {
	var out []netip.Addr
	for _, s := range r.list(key) {
		a, err := netip.ParseAddr(s)
		if err != nil {
			r.fail(key, "IP addresses separated by commas")
			return nil
		}
		out = append(out, a)
	}
	return out
}

func (r *metadataReader) object(key string) *structpb.Struct {
	switch v := r.fields[key].GetKind().(type) {
	case nil, *structpb.Value_NullValue:
		return nil
	case *structpb.Value_StructValue:
		return v.StructValue
	default:
		r.fail(key, "an object")
		return nil
	}
}

// topology reads the field gatewayTopology of a ProxyConfig; nil where it has none.
func (r *metadataReader) topology(config *structpb.Struct) *Topology {
	const number, wantNumber = "numTrustedProxies", "a number of proxies"
	own := metadataReader{fields: config.GetFields(), within: "PROXY_CONFIG."}
	fields := own.object("gatewayTopology")
	of := metadataReader{fields: fields.GetFields(), within: own.within + "gatewayTopology.", err: own.err}
	out := &Topology{ClientCert: of.text("forwardClientCertDetails"), ProxyProtocol: of.object("proxyProtocol") != nil}
	if text := of.scalar(number, wantNumber); text != "" {
		n, err := strconv.ParseUint(text, 10, 32)
		if err != nil {
			of.fail(number, wantNumber)
		}
		out.TrustedProxies = uint32(n)
	}
	if r.err == nil {
		r.err = of.err
	}
	if fields == nil {
		return nil
	}
	return out
}

func (r *metadataReader) texts(key string) map[string]string {
	fields := r.object(key).GetFields()
	out := make(map[string]string, len(fields))
	for k, v := range fields {
		s, ok := v.GetKind().(*structpb.Value_StringValue)
		if !ok {
			r.fail(key, "an object of strings")
			return nil
		}
		out[k] = s.StringValue
	}
	return out
}
