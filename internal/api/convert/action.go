package convert

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/lateen-mesh/lateen/internal/api/model"
)

// percent is the sum of weights that are percentages. Weights with a sum near it were meant as
// such.
const percent = 100

// weightedDestination is what destinations of HTTP, TLS and TCP routes have in common.
type weightedDestination interface {
	GetDestination() *networking.Destination
	GetWeight() int32
}

// destinations reads where traffic goes, and in which shares.
func destinations[W weightedDestination](r *reader, p path, list []W) []model.Destination {
	var out []model.Destination
	sum := uint64(0)
	for i, in := range list {
		d := r.destination(p.at(i).dot("destination"), in.GetDestination())
		d.Weight = r.nonNegative(p.at(i).dot("weight"), in.GetWeight())
		sum += uint64(d.Weight)
		out = append(out, d)
	}
	switch {
	case len(out) > 1 && sum == 0:
		r.fail(p, nil, "has several destinations and no weight above 0", "weights that say how much each one gets")
	case sum > math.MaxUint32:
		r.fail(p, sum, "is the sum of the weights, which is too large", "at most 4294967295")
	case len(out) > 1 && sum != percent && sum > percent/2 && sum < percent*3/2: // otherwise a ratio, as 1 to 1
		r.warn(p, sum, "is the sum of the weights, so they are shares of that and no percentages", "weights that "+
			"add up to 100")
	}
	return out
}

func (r *reader) destination(p path, in *networking.Destination) model.Destination {
	d := model.Destination{Subset: in.GetSubset()}
	d.Host = r.destinationHost(p.dot("host"), in.GetHost())
	if d.Subset != "" && !isSubsetName(d.Subset) {
		r.fail(
			p.dot("subset"), d.Subset, "is no name of a subset",
			"the name of a subset of a DestinationRule for this host",
		)
	}
	if in.GetPort() != nil {
		d.Port, _ = r.port(p.dot("port.number"), int64(in.GetPort().GetNumber()))
	}
	return d
}

// destinationHost reads the host of a destination. A wildcard is that of a ServiceEntry, whose
// cluster goes to the address that the caller has looked up. "*" is the host of none.
func (r *reader) destinationHost(p path, name string) model.Host {
	if name == "*" {
		r.fail(p, name, "is the host of no Service or ServiceEntry", wantWildcard)
		return ""
	}
	host, _ := r.resolve(p, name, true)
	return host
}

func (r *reader) httpDestinations(
	p path, list []*networking.HTTPRouteDestination, out *model.HTTPRoute,
) []model.Destination {
	all := destinations(r, p, list)
	for i, in := range list {
		at := p.at(i).dot("headers")
		ops, authority := r.headerOps(at, in.GetHeaders())
		all[i].Headers = ops
		switch {
		case authority == "":
		case len(list) > 1:
			r.fail(
				at.dot("request"), authority, "the host cannot be set for one of several destinations yet",
				"rewrite.authority of the route",
			)
		default:
			r.setAuthority(at.dot("request"), authority, out)
		}
	}
	return all
}

// redirect reads a redirect of the requests that the matches take.
func (r *reader) redirect(
	p path, in *networking.HTTPRedirect, matches []*networking.HTTPMatchRequest,
) *model.Redirect {
	out := &model.Redirect{
		URI:       in.GetUri(),
		Authority: in.GetAuthority(),
		Scheme:    strings.ToLower(in.GetScheme()),
		Code:      in.GetRedirectCode(),
	}
	switch out.Code {
	case 0:
		out.Code = 301
	case 301, 302, 303, 307, 308:
	default:
		r.fail(p.dot("redirectCode"), out.Code, "is no status of a redirect", "one of 301, 302, 303, 307, 308")
	}
	if out.Scheme != "" && out.Scheme != "http" && out.Scheme != "https" {
		r.fail(p.dot("scheme"), in.GetScheme(), "is no scheme", "http or https")
	}
	if prefix := in.GetPrefixRewrite(); prefix != "" {
		r.prefixRewrite(p, in, matches)
		out.Path = &model.Rewrite{URI: prefix}
	}
	r.plainText(p.dot("uri"), out.URI)
	r.plainText(p.dot("authority"), out.Authority)
	switch port := in.GetRedirectPort().(type) {
	case *networking.HTTPRedirect_Port:
		out.Port, _ = r.port(p.dot("port"), int64(port.Port))
	case *networking.HTTPRedirect_DerivePort:
		out.PortFromRequest = port.DerivePort == networking.HTTPRedirect_FROM_REQUEST_PORT
		out.PortOfScheme = port.DerivePort == networking.HTTPRedirect_FROM_PROTOCOL_DEFAULT
		if _, known := networking.HTTPRedirect_RedirectPortSelection_name[int32(port.DerivePort)]; !known {
			r.fail(
				p.dot("derivePort"), port.DerivePort, "is no way to find a port",
				"FROM_PROTOCOL_DEFAULT or FROM_REQUEST_PORT",
			)
		}
	}
	if out.URI == "" && out.Authority == "" && out.Scheme == "" && in.GetRedirectPort() == nil &&
		in.GetPrefixRewrite() == "" {
		r.fail(p, nil, "leads back to where the request came from", "one of uri, authority, scheme, port")
	}
	return out
}

// prefixRewrite checks that there is a prefix to replace, and nothing else to do with the path.
func (r *reader) prefixRewrite(p path, in *networking.HTTPRedirect, matches []*networking.HTTPMatchRequest) {
	prefix := in.GetPrefixRewrite()
	r.plainText(p.dot("prefixRewrite"), prefix)
	if in.GetUri() != "" {
		r.fail(p.dot("prefixRewrite"), prefix, "is set beside uri, which replaces the whole path", "one of them")
	}
	for _, m := range matches {
		if uri := m.GetUri(); uri != nil && uri.GetPrefix() == "" {
			r.fail(p.dot("prefixRewrite"), prefix, "has no prefix to replace: a match is about the whole path",
				"uri.prefix in each match that has uri")
			return
		}
	}
}

// plainText refuses text that would end a header early.
func (r *reader) plainText(p path, text string) {
	if hasControl(text) {
		r.fail(p, text, "has control characters", "plain text")
	}
}

// maxBodySize is Istio's bound of a direct response, in bytes. Every proxy holds each one in
// memory.
const maxBodySize = 1 << 20

func (r *reader) directResponse(p path, in *networking.HTTPDirectResponse) *model.DirectResponse {
	out := &model.DirectResponse{Status: in.GetStatus()}
	if out.Status < 200 || out.Status > 599 {
		r.fail(p.dot("status"), out.Status, "is no status of a response", "a number from 200 to 599")
	}
	switch body := in.GetBody().GetSpecifier().(type) {
	case *networking.HTTPBody_String_:
		out.Body = []byte(body.String_)
	case *networking.HTTPBody_Bytes:
		out.Body = slices.Clone(body.Bytes)
	}
	if len(out.Body) > maxBodySize {
		r.fail(p.dot("body"), fmt.Sprintf("%d bytes", len(out.Body)), "is too large", "at most 1 MiB")
	}
	return out
}

func (r *reader) rewrite(p path, in *networking.HTTPRewrite) *model.Rewrite {
	if in == nil {
		return nil
	}
	out := &model.Rewrite{URI: in.GetUri(), Authority: in.GetAuthority()}
	r.plainText(p.dot("uri"), out.URI)
	r.plainText(p.dot("authority"), out.Authority)
	if regex := in.GetUriRegexRewrite(); regex != nil {
		at := p.dot("uriRegexRewrite")
		out.Regex, out.Substitution = regex.GetMatch(), regex.GetRewrite()
		if r.regex(at.dot("match"), out.Regex) {
			r.substitution(at.dot("rewrite"), out.Regex, out.Substitution)
		}
		if out.URI != "" {
			r.fail(at, nil, "is set beside uri", "uri or uriRegexRewrite")
		}
	}
	if *out == (model.Rewrite{}) && in.GetUriRegexRewrite() == nil {
		r.fail(p, nil, "is empty", "one of uri, authority, uriRegexRewrite")
	}
	return out
}

// substitution checks the references \0 to \9 to groups of a valid regular expression.
func (r *reader) substitution(p path, regex, text string) {
	groups := regexp.MustCompile(regex).NumSubexp()
	r.plainText(p, text)
	for rest := text; ; {
		_, after, found := strings.Cut(rest, `\`)
		if !found {
			return
		}
		if after == "" || (after[0] != '\\' && (after[0] < '0' || after[0] > '9')) {
			r.fail(
				p, text, `has a backslash that is followed by neither a digit nor a backslash`,
				`"\1" for the first group, "\\" for a backslash`,
			)
			return
		}
		if after[0] != '\\' && int(after[0]-'0') > groups {
			r.fail(
				p, text, "names group "+after[:1]+" of a regular expression that has "+strconv.Itoa(groups),
				"a group that there is",
			)
			return
		}
		rest = after[1:]
	}
}

func (r *reader) mirrors(p path, in *networking.HTTPRoute) []model.Mirror {
	var out []model.Mirror
	if in.GetMirror() != nil {
		if len(in.GetMirrors()) > 0 {
			r.fail(p.dot("mirror"), nil, "is set beside mirrors", "mirrors alone")
		}
		out = append(out, model.Mirror{
			Destination: r.destination(p.dot("mirror"), in.GetMirror()),
			Percent:     r.mirrorPercent(p, in),
		})
	} else if hasMirrorPercent(in) && !r.delegated && in.GetDelegate() == nil {
		r.warn(p.dot("mirrorPercentage"), nil, "has no effect without mirror", "a mirror beside it")
	}
	for i, m := range in.GetMirrors() {
		at := p.dot("mirrors").at(i)
		percent := uint32(hundredPercent)
		if m.GetPercentage() != nil {
			percent = r.percent(at.dot("percentage"), m.GetPercentage())
		}
		out = append(out, model.Mirror{
			Destination: r.destination(at.dot("destination"), m.GetDestination()),
			Percent:     percent,
		})
	}
	return out
}

func hasMirrorPercent(in *networking.HTTPRoute) bool {
	// deprecated, and in use
	return in.GetMirrorPercentage() != nil || in.GetMirrorPercent() != nil //nolint:staticcheck
}

func (r *reader) mirrorPercent(p path, in *networking.HTTPRoute) uint32 {
	if in.GetMirrorPercentage() != nil {
		return r.percent(p.dot("mirrorPercentage"), in.GetMirrorPercentage())
	}
	old := in.GetMirrorPercent() //nolint:staticcheck // deprecated, and in use
	switch {
	case old == nil:
		return hundredPercent
	case old.GetValue() > 100:
		r.fail(p.dot("mirrorPercent"), old.GetValue(), "is no percentage", "a number from 0 to 100")
		return 0
	}
	return old.GetValue() * (hundredPercent / 100)
}
