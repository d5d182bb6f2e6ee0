package serve

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	securityv1 "istio.io/api/security/v1alpha1"
)

// echo is a service beside discovery.
type echo struct {
	securityv1.UnimplementedIstioCertificateServiceServer
}

func (echo) CreateCertificate(
	_ context.Context, r *securityv1.IstioCertificateRequest,
) (*securityv1.IstioCertificateResponse, error) {
	return &securityv1.IstioCertificateResponse{CertChain: []string{r.GetCsr()}}, nil
}

func TestOtherServicesAreServedBesideDiscovery(t *testing.T) {
	f := newFixture(t, func(o *Options) {
		o.Register = func(r grpc.ServiceRegistrar) { securityv1.RegisterIstioCertificateServiceServer(r, echo{}) }
	})
	answer, err := securityv1.NewIstioCertificateServiceClient(f.conn).CreateCertificate(t.Context(),
		&securityv1.IstioCertificateRequest{Csr: "a"})
	require.NoError(t, err)
	require.Equal(t, []string{"a"}, answer.GetCertChain())
}
