package app

import (
	"context"
	"errors"
	"strings"

	"google.golang.org/grpc/metadata"

	"github.com/lateen-mesh/lateen/internal/xds/serve"
)

// localTrustDomain is the trust domain of a mesh that issues no certificates.
const localTrustDomain = "cluster.local"

// TokenAuthenticator proves who opens a stream by a bearer token: that of a pod of a local mesh.
type TokenAuthenticator struct {
	// Lookup tells which workload identity a token stands for.
	Lookup func(token string) (namespace, serviceAccount string, known bool)
}

// Authenticate implements serve.Authenticator.
func (a TokenAuthenticator) Authenticate(_ context.Context, md metadata.MD) (serve.Identity, error) {
	for _, v := range md.Get("authorization") {
		token, ok := strings.CutPrefix(v, "Bearer ")
		if !ok {
			continue
		}
		if namespace, serviceAccount, known := a.Lookup(token); known {
			return serve.Identity{TrustDomain: localTrustDomain, Namespace: namespace, ServiceAccount: serviceAccount}, nil
		}
	}
	return serve.Identity{}, errors.New("want the token of a pod of this mesh in the metadata authorization: Bearer …")
}
