package convert

import (
	"cmp"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	mesh "istio.io/api/mesh/v1alpha1"

	"github.com/lateen-mesh/lateen/internal/api/model"
)

// pathNormalization reads what happens to paths. What cannot be read decodes and merges slashes, so
// that no policy about paths is passed by.
func (r *reader) pathNormalization(p path, in *mesh.MeshConfig_ProxyPathNormalization) model.PathNormalization {
	switch level := in.GetNormalization(); level {
	case mesh.MeshConfig_ProxyPathNormalization_DEFAULT, mesh.MeshConfig_ProxyPathNormalization_BASE:
		return model.NormalizeBase
	case mesh.MeshConfig_ProxyPathNormalization_NONE:
		return model.NormalizeNone
	case mesh.MeshConfig_ProxyPathNormalization_MERGE_SLASHES:
		return model.NormalizeMergeSlashes
	case mesh.MeshConfig_ProxyPathNormalization_DECODE_AND_MERGE_SLASHES:
		return model.NormalizeDecode
	default:
		r.fail(
			p, level, "is no normalization; DECODE_AND_MERGE_SLASHES is in force",
			"NONE, BASE, MERGE_SLASHES or DECODE_AND_MERGE_SLASHES",
		)
		return model.NormalizeDecode
	}
}

// extAuthz reads the external authorizers of the mesh, sorted by name. One with a mistake is left
// out, so that policies which name it refuse.
func (r *reader) extAuthz(p path, in []*mesh.MeshConfig_ExtensionProvider) []*model.ExtAuthz {
	var out []*model.ExtAuthz
	for i, provider := range in {
		at, start := p.at(i), r.mark()
		read := r.authorizer(at, provider)
		if read == nil {
			continue
		}
		read.Name = provider.GetName()
		switch {
		case read.Name == "":
			r.fail(at.dot("name"), "", "is empty", "a name that policies can give")
		case slices.ContainsFunc(out, func(o *model.ExtAuthz) bool { return o.Name == read.Name }):
			r.fail(at.dot("name"), read.Name, "is the name of another one, which comes first", "a name of its own")
		}
		if r.failure(start, at) == "" {
			out = append(out, r.pools.extAuthz.Canonical(read))
		}
	}
	slices.SortFunc(out, func(a, b *model.ExtAuthz) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// defaultCheckTimeout is Istio's.
const defaultCheckTimeout = 600 * time.Second

// authorizer reads an external authorizer, and returns nil for a provider of anything else.
func (r *reader) authorizer(p path, in *mesh.MeshConfig_ExtensionProvider) *model.ExtAuthz {
	if grpc := in.GetEnvoyExtAuthzGrpc(); grpc != nil {
		return r.grpcAuthorizer(p.dot("envoyExtAuthzGrpc"), grpc)
	}
	byHTTP := in.GetEnvoyExtAuthzHttp()
	if byHTTP == nil {
		return nil
	}
	p = p.dot("envoyExtAuthzHttp")
	out := r.checkService(p, byHTTP)
	out.PathPrefix = byHTTP.GetPathPrefix()
	if out.PathPrefix != "" && (!strings.HasPrefix(out.PathPrefix, "/") || hasControl(out.PathPrefix)) {
		r.fail(p.dot("pathPrefix"), out.PathPrefix, "is no beginning of a path", `a path as "/check"`)
	}
	old, names := p.dot("includeHeadersInCheck"), p.dot("includeRequestHeadersInCheck")
	out.RequestHeaders = sorted(slices.Concat(
		r.headerPatterns(old, byHTTP.GetIncludeHeadersInCheck()), //nolint:staticcheck // it is still in use
		r.headerPatterns(names, byHTTP.GetIncludeRequestHeadersInCheck()),
	))
	added, host := r.headerValues(
		p.dot("includeAdditionalHeadersInCheck"), byHTTP.GetIncludeAdditionalHeadersInCheck(),
	)
	if host != "" {
		added = append(added, model.Header{Name: "host", Value: host})
	}
	for _, h := range added {
		out.AddHeaders = append(out.AddHeaders, model.SecretHeader{Name: h.Name, Value: model.NewSensitive(h.Value)})
	}
	out.UpstreamOnAllow = r.headerPatterns(p.dot("headersToUpstreamOnAllow"), byHTTP.GetHeadersToUpstreamOnAllow())
	out.DownstreamOnDeny = r.headerPatterns(p.dot("headersToDownstreamOnDeny"), byHTTP.GetHeadersToDownstreamOnDeny())
	out.DownstreamOnAllow = r.headerPatterns(
		p.dot("headersToDownstreamOnAllow"), byHTTP.GetHeadersToDownstreamOnAllow(),
	)
	return out
}

func (r *reader) grpcAuthorizer(
	p path, in *mesh.MeshConfig_ExtensionProvider_EnvoyExternalAuthorizationGrpcProvider,
) *model.ExtAuthz {
	out := r.checkService(p, in)
	out.GRPC = true
	return out
}

// checkService is what authorizers by HTTP and by gRPC have in common.
type checkService interface {
	GetService() string
	GetPort() uint32
	GetTimeout() *durationpb.Duration
	GetFailOpen() bool
	GetStatusOnError() string
	GetClearRouteCache() bool
	GetIncludeRequestBodyInCheck() *mesh.MeshConfig_ExtensionProvider_EnvoyExternalAuthorizationRequestBody
}

func (r *reader) checkService(p path, in checkService) *model.ExtAuthz {
	out := &model.ExtAuthz{FailOpen: in.GetFailOpen(), ClearRouteCache: in.GetClearRouteCache()}
	out.Host, out.Port = r.providerAddress(p, in.GetService(), in.GetPort())
	out.Timeout = cmp.Or(r.duration(p.dot("timeout"), in.GetTimeout()), defaultCheckTimeout)
	if text := in.GetStatusOnError(); text != "" {
		code, err := strconv.ParseUint(text, 10, 16)
		if err != nil || !isStatus(int(code)) {
			r.fail(p.dot("statusOnError"), text, "is no status of HTTP", `a number as "503"`)
		}
		out.StatusOnError = uint32(code)
	}
	if body := in.GetIncludeRequestBodyInCheck(); body != nil {
		out.Body = &model.ExtAuthzBody{
			MaxBytes: body.GetMaxRequestBytes(), Partial: body.GetAllowPartialMessage(), Raw: body.GetPackAsBytes(),
		}
		if out.Body.MaxBytes == 0 {
			r.fail(p.dot("includeRequestBodyInCheck.maxRequestBytes"), 0, "is no size", "a number of bytes from 1")
		}
	}
	return out
}

// providerAddress reads where a provider is: a host, or a host with its namespace in front.
func (r *reader) providerAddress(p path, name string, port uint32) (model.Host, uint16) {
	if _, host, qualified := strings.Cut(name, "/"); qualified {
		name = host
	}
	host, _ := r.literal(p.dot("service"), name, false)
	number, _ := r.port(p.dot("port"), int64(port))
	return host, number
}

// isStatus reports whether Envoy knows a status of HTTP, as an answer (envoy.type.v3.StatusCode).
func isStatus(code int) bool {
	unknown := []int{http.StatusTeapot, http.StatusTooEarly, http.StatusUnavailableForLegalReasons}
	return code >= http.StatusOK && http.StatusText(code) != "" && !slices.Contains(unknown, code)
}

// headerPatterns reads names of headers, "x-*" and "*-x" as well, sorted.
func (r *reader) headerPatterns(p path, in []string) []string {
	var out []string
	for i, name := range in {
		plain := strings.TrimPrefix(strings.TrimSuffix(name, "*"), "*")
		if !isToken(plain) || strings.Contains(plain, "*") {
			r.fail(p.at(i), name, "is no name of a header", `a name, "x-*" or "*-x"`)
			continue
		}
		out = append(out, strings.ToLower(name))
	}
	return sorted(out)
}
