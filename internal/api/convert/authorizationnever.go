package convert

import (
	"net/url"
	"strings"

	"github.com/lateen-mesh/lateen/internal/api/model"
)

// neverMatches says why no call can have a value that can be read, and what would be right. It
// returns "" for a value that calls may have. A DENY with such a value leaves open what it is there
// to close, and an ALLOW lets nobody in.
func neverMatches(of model.AuthorizationAttribute, text string) (message, want string) {
	switch of {
	case model.SourceIP, model.RemoteIP, model.DestinationIP, model.SourceServiceAccount, model.SourceTrustDomain:
		return "", ""
	case model.DestinationPort:
		if strings.Trim(text, "0") == "" {
			return "is no port that a workload has", "a port from 1 to 65535"
		}
		return "", ""
	case model.SourceNamespace:
		return neverANamespace(text)
	case model.SourcePrincipal:
		if message, want = neverAPrincipal(text); message != "" {
			return message, want
		}
		if at := strings.IndexByte(text, '/'); at > 0 && !strings.HasPrefix(text, "*") {
			text = text[at:] // a trust domain may be a pattern of its own
		}
	case model.RequestPrincipal: // "issuer/subject", each of which may be a pattern
		if at := strings.LastIndexByte(text, '/'); at >= 0 {
			if message, want = innerWildcard(text[:at]); message != "" {
				return message, want
			}
			text = text[at+1:]
		}
	case model.RequestHost:
		if message, want = neverAHost(text); message != "" {
			return message, want
		}
	case model.RequestMethod:
		if !isToken(text) {
			return "is no method",
				`one method for each value, as "GET"; a method of gRPC is a path, as "/pkg.Service/Method"`
		}
	case model.RequestPath:
		return neverAPath(text)
	}
	return innerWildcard(text)
}

// innerWildcard is about patterns with a "*" that is a letter as any other.
func innerWildcard(text string) (message, want string) {
	inner := strings.TrimSuffix(text, "*")
	if strings.HasPrefix(text, "*") {
		inner = text[1:]
	}
	if !strings.Contains(inner, "*") {
		return "", ""
	}
	return `has a "*" that stands for itself: one at the beginning or one at the end is a wildcard`,
		`"x*" for a prefix, "*x" for a suffix, "*" for any`
}

func neverANamespace(text string) (message, want string) {
	if strings.Contains(text, ".") || strings.ToLower(text) != text || strings.Contains(text, "_") {
		return "is no name of a namespace", "the name of a namespace, without a cluster's domain, in lower case"
	}
	return "", ""
}

func neverAPrincipal(text string) (message, want string) {
	const form = "cluster.local/ns/shop/sa/web"
	switch parts := strings.Split(text, ":"); {
	case strings.HasPrefix(text, model.IdentityScheme):
		return "begins with a scheme, which principals have not", strings.TrimPrefix(text, model.IdentityScheme)
	case len(parts) == 4 && parts[0] == "system" && parts[1] == "serviceaccount":
		return "is a user of Kubernetes and no identity in certificates",
			"cluster.local/ns/" + parts[2] + "/sa/" + parts[3]
	case strings.HasPrefix(text, "ns/") || strings.HasPrefix(text, "/"):
		return "has no trust domain", "an identity as " + form
	}
	return "", ""
}

func neverAHost(text string) (message, want string) {
	if _, _, is := strings.Cut(text, "://"); is {
		if u, err := url.Parse(text); err == nil && u.Host != "" {
			return "is a URL", u.Host
		}
		return "is a URL", "a host as web.test"
	}
	if host, _, is := strings.Cut(text, "/"); is {
		return "has a path", host
	}
	return "", ""
}

func neverAPath(text string) (message, want string) {
	at := strings.IndexAny(text, "?#")
	switch {
	case strings.HasPrefix(text, "*"):
		if strings.ContainsAny(text, "?#") {
			return "has a query, which paths are compared without", text[:at]
		}
	case !strings.HasPrefix(text, "/"):
		return "does not begin with a slash, as each path of a request does", `a path as "/` + afterHost(text) + `"`
	case at >= 0:
		return "has a query, which paths are compared without", text[:at]
	}
	if strings.Contains(text, "{*}") || strings.Contains(text, "{**}") {
		return "", ""
	}
	if message, want = innerWildcard(text); message != "" {
		want += `, "{*}" for a segment as in "/a/{*}/b"`
	}
	return message, want
}

// afterHost is the path of a URL, or a path, without its first slash.
func afterHost(text string) string {
	if _, rest, is := strings.Cut(text, "://"); is {
		_, text, _ = strings.Cut(rest, "/")
	}
	return text
}
