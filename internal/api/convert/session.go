package convert

import (
	"fmt"
	"hash/fnv"
	"strings"
	"time"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/lateen-mesh/lateen/internal/api/model"
)

// Labels of a Service, by which its clients stay with an endpoint. The first one counts.
const (
	sessionCookieLabel = "istio.io/persistent-session"
	sessionHeaderLabel = "istio.io/persistent-session-header"
)

// noSessions is why a session has no effect.
const (
	noSessions   = "has no effect, since persistent sessions are off"
	wantSessions = "PILOT_ENABLE_PERSISTENT_SESSION_FILTER: true for the control plane"
)

// serviceSession reads the session that labels of a Service give its clients; nil for none.
func (r *reader) serviceSession(labels map[string]string) *model.Session {
	cookie, header := labels[sessionCookieLabel], labels[sessionHeaderLabel]
	p := path("metadata.labels")
	switch {
	case cookie == "" && header == "":
		return nil
	case !r.mesh.Sessions && cookie != "":
		r.warn(p.key(sessionCookieLabel), cookie, noSessions, wantSessions)
		return nil
	case !r.mesh.Sessions:
		r.warn(p.key(sessionHeaderLabel), header, noSessions, wantSessions)
		return nil
	case cookie != "" && header != "":
		r.fail(p.key(sessionHeaderLabel), header, "is set beside "+sessionCookieLabel+", which counts", "one of them")
	}
	out := &model.Session{}
	if cookie == "" {
		if out.Header = r.headerName(p.key(sessionHeaderLabel), header); !isToken(header) {
			return nil
		}
		return r.pools.sessions.Canonical(out)
	}
	name, at, has := strings.Cut(cookie, ":")
	if out.Cookie, out.Path = name, "/"; has {
		out.Path = at
	}
	if !isToken(out.Cookie) || !strings.HasPrefix(out.Path, "/") || hasControl(out.Path) {
		r.fail(p.key(sessionCookieLabel), cookie, "is no cookie", `its name, as "session", or "name:/path"`)
		return nil
	}
	return r.pools.sessions.Canonical(out)
}

// ruleSession reads the session of a rule of a route; nil for none. Its path is that of all
// requests, since those of a session may match several rules.
func (r *reader) ruleSession(p path, in *gatewayv1.SessionPersistence) *model.Session {
	if in == nil {
		return nil
	}
	if !r.mesh.Sessions {
		r.warn(p, nil, noSessions, wantSessions)
		return nil
	}
	start := r.mark()
	name := sessionName(r.meta, p)
	if in.SessionName != nil {
		name = *in.SessionName
	}
	out := &model.Session{}
	switch kind := in.Type; {
	case kind == nil || *kind == gatewayv1.CookieBasedSessionPersistence:
		out.Cookie, out.Path = name, "/"
		if !isToken(name) {
			r.fail(p.dot("sessionName"), name, "is no name of a cookie", `a name as "session"`)
		}
		out.TTL = r.cookieLifetime(p, in)
	case *kind == gatewayv1.HeaderBasedSessionPersistence:
		out.Header = r.headerName(p.dot("sessionName"), name)
		if in.AbsoluteTimeout != nil {
			r.warn(p.dot("absoluteTimeout"), *in.AbsoluteTimeout, "has no effect on a session by a header", "")
		}
	default:
		r.fail(p.dot("type"), *kind, "is no kind of session", "Cookie or Header")
	}
	if r.failure(start, p) != "" {
		return nil
	}
	return r.pools.sessions.Canonical(out)
}

// cookieLifetime returns how long a cookie is valid; 0 for as long as its client runs.
func (r *reader) cookieLifetime(p path, in *gatewayv1.SessionPersistence) time.Duration {
	kind := gatewayv1.SessionCookieLifetimeType
	if in.CookieConfig != nil && in.CookieConfig.LifetimeType != nil {
		kind = *in.CookieConfig.LifetimeType
	}
	at := p.dot("absoluteTimeout")
	switch {
	case kind == gatewayv1.SessionCookieLifetimeType && in.AbsoluteTimeout != nil:
		r.warn(at, *in.AbsoluteTimeout, "has no effect on a cookie that ends with its client",
			"cookieConfig.lifetimeType Permanent")
	case kind == gatewayv1.SessionCookieLifetimeType:
	case kind != gatewayv1.PermanentCookieLifetimeType:
		r.fail(p.dot("cookieConfig.lifetimeType"), kind, "is no lifetime", "Session or Permanent")
	case in.AbsoluteTimeout == nil:
		r.fail(at, nil, "is missing", "a duration, as 1h")
	default:
		ttl, err := time.ParseDuration(string(*in.AbsoluteTimeout))
		if err != nil || ttl < time.Second || ttl > maxDuration {
			r.fail(at, *in.AbsoluteTimeout, "is no duration of a cookie", "a duration of 1s to 87600h")
			return 0
		}
		return ttl
	}
	return 0
}

// sessionName is the name of a session that says none: the same for each reading of its rule.
func sessionName(meta model.Meta, p path) string {
	h := fnv.New32a()
	_, _ = fmt.Fprintf(h, "%s/%s/%s/%s", meta.Kind, meta.Namespace, meta.Name, p)
	return fmt.Sprintf("session-%08x", h.Sum32())
}
