package convert

import (
	"fmt"
	"math"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"
	mesh "istio.io/api/mesh/v1alpha1"

	"github.com/lateen-mesh/lateen/internal/api/model"
)

// leastWindow is the smallest window of HTTP/2, in bytes, that Envoy takes.
const leastWindow = 65_535

// connectionSettings reads limits of connections that come to proxies. A wrong one leaves its
// default; nil is for nothing said. The limit of all connections together stands in the proxy's
// bootstrap, which its agent writes.
func (r *reader) connectionSettings(p path, in *mesh.ProxyConfig_ConnectionSettings) *model.ConnectionSettings {
	if in == nil {
		return nil
	}
	out := model.ConnectionSettings{
		BufferLimit: r.atLeast(
			p.dot("listenerPerConnectionBufferLimitBytes"), in.GetListenerPerConnectionBufferLimitBytes(), 1,
		),
		IdleTimeout:           r.durationOrNever(p.dot("httpIdleTimeout"), in.GetHttpIdleTimeout()),
		MaxConnectionDuration: r.durationOrNever(p.dot("httpMaxConnectionDuration"), in.GetHttpMaxConnectionDuration()),
		DrainTimeout:          r.durationOrNever(p.dot("httpDrainTimeout"), in.GetHttpDrainTimeout()),
		RequestTimeout:        r.durationOrNever(p.dot("httpRequestTimeout"), in.GetHttpRequestTimeout()),
		RequestHeadersTimeout: r.durationOrNever(p.dot("httpRequestHeadersTimeout"), in.GetHttpRequestHeadersTimeout()),
		StreamIdleTimeout:     r.durationOrNever(p.dot("httpStreamIdleTimeout"), in.GetHttpStreamIdleTimeout()),
		MaxStreamDuration:     r.durationOrNever(p.dot("httpMaxStreamDuration"), in.GetHttpMaxStreamDuration()),
		MaxStreams:            r.atLeast(p.dot("httpMaxConcurrentStreams"), in.GetHttpMaxConcurrentStreams(), 1),
		StreamWindow: r.atLeast(
			p.dot("http2InitialStreamWindowSize"), in.GetHttp2InitialStreamWindowSize(), leastWindow,
		),
		ConnectionWindow: r.atLeast(
			p.dot("http2InitialConnectionWindowSize"), in.GetHttp2InitialConnectionWindowSize(), leastWindow,
		),
		MergeSlashes: choice(in.GetHttpMergeSlashes()),
	}
	r.connectionChoices(p, in, &out)
	if out == (model.ConnectionSettings{}) {
		return nil
	}
	return r.pools.settings.Canonical(&out)
}

// connectionChoices reads what is one of several. Of what happens to headers and paths a value that
// nobody knows refuses the request.
func (r *reader) connectionChoices(
	p path, in *mesh.ProxyConfig_ConnectionSettings, out *model.ConnectionSettings,
) {
	switch v := in.GetProfile(); v {
	case mesh.ProxyConfig_ConnectionSettings_SIDECAR:
	case mesh.ProxyConfig_ConnectionSettings_EDGE:
		out.Edge = true
	default:
		r.fail(p.dot("profile"), v, "is no profile; EDGE is in force", "SIDECAR or EDGE")
		out.Edge = true
	}
	switch v := in.GetHttpHeadersWithUnderscoresAction(); v {
	case mesh.ProxyConfig_ConnectionSettings_HEADERS_WITH_UNDERSCORES_UNSPECIFIED:
	case mesh.ProxyConfig_ConnectionSettings_HEADERS_WITH_UNDERSCORES_ALLOW:
		out.Underscores = model.UnderscoresPass
	case mesh.ProxyConfig_ConnectionSettings_HEADERS_WITH_UNDERSCORES_DROP_HEADER:
		out.Underscores = model.UnderscoresDrop
	case mesh.ProxyConfig_ConnectionSettings_HEADERS_WITH_UNDERSCORES_REJECT_REQUEST:
		out.Underscores = model.UnderscoresRefuse
	default:
		r.fail(p.dot("httpHeadersWithUnderscoresAction"), v, "is no action; such requests are refused",
			"HEADERS_WITH_UNDERSCORES_ALLOW, …_REJECT_REQUEST or …_DROP_HEADER")
		out.Underscores = model.UnderscoresRefuse
	}
	switch v := in.GetHttpPathWithEscapedSlashesAction(); v {
	case mesh.ProxyConfig_ConnectionSettings_PATH_WITH_ESCAPED_SLASHES_UNSPECIFIED:
	case mesh.ProxyConfig_ConnectionSettings_KEEP_UNCHANGED:
		out.EscapedSlashes = model.SlashesStay
	case mesh.ProxyConfig_ConnectionSettings_UNESCAPE_AND_REDIRECT:
		out.EscapedSlashes = model.SlashesRedirect
	case mesh.ProxyConfig_ConnectionSettings_UNESCAPE_AND_FORWARD:
		out.EscapedSlashes = model.SlashesDecode
	case mesh.ProxyConfig_ConnectionSettings_REJECT_REQUEST:
		out.EscapedSlashes = model.SlashesRefuse
	default:
		r.fail(p.dot("httpPathWithEscapedSlashesAction"), v, "is no action; such requests are refused",
			"KEEP_UNCHANGED, REJECT_REQUEST, UNESCAPE_AND_REDIRECT or UNESCAPE_AND_FORWARD")
		out.EscapedSlashes = model.SlashesRefuse
	}
}

// durationOrNever reads a duration where 0 switches a limit off; nil is 0.
func (r *reader) durationOrNever(p path, in *durationpb.Duration) time.Duration {
	d := r.durationOrZero(p, in)
	if in != nil && d == 0 && in.AsDuration() == 0 {
		return model.Never
	}
	return d
}

// atLeast reads a number of some size; nil is 0, and so is a smaller one, which is reported.
func (r *reader) atLeast(p path, in *wrapperspb.Int32Value, least int32) uint32 {
	if in == nil {
		return 0
	}
	if in.GetValue() < least {
		r.fail(p, in.GetValue(), "is too small", fmt.Sprintf("a number from %d to %d", least, math.MaxInt32))
		return 0
	}
	return uint32(in.GetValue())
}
