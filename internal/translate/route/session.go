package route

import (
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	sessionv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/stateful_session/v3"
	cookiev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/http/stateful_session/cookie/v3"
	headerv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/http/stateful_session/header/v3"
	httpv3 "github.com/envoyproxy/go-control-plane/envoy/type/http/v3"

	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/translate/pb"
)

// session is that of a route: its own, else that of the first of its destinations which has one. A
// route has one alone. It is nil for none, and where requests are answered here.
func (t translator) session(in *model.HTTPRoute) *model.Session {
	if in.Redirect != nil || in.Direct != nil {
		return nil
	}
	if in.Session != nil {
		return in.Session
	}
	for _, d := range weighted(in.Destinations) {
		if s := t.fact(d).Session; s != nil {
			return s
		}
	}
	return nil
}

// sessionOf says by what a client tells its endpoint. Its first answer gives it that.
func sessionOf(in *model.Session) *sessionv3.StatefulSessionPerRoute {
	state := &corev3.TypedExtensionConfig{
		Name:        "envoy.http.stateful_session.header",
		TypedConfig: pb.Any(&headerv3.HeaderBasedSessionState{Name: in.Header}),
	}
	if in.Cookie != "" {
		cookie := &httpv3.Cookie{Name: in.Cookie, Path: in.Path}
		if in.TTL > 0 {
			cookie.Ttl = pb.Duration(in.TTL.Truncate(time.Second))
		}
		state = &corev3.TypedExtensionConfig{
			Name:        "envoy.http.stateful_session.cookie",
			TypedConfig: pb.Any(&cookiev3.CookieBasedSessionState{Cookie: cookie}),
		}
	}
	return &sessionv3.StatefulSessionPerRoute{Override: &sessionv3.StatefulSessionPerRoute_StatefulSession{
		StatefulSession: &sessionv3.StatefulSession{SessionState: state},
	}}
}
