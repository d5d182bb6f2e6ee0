package secret_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/translate/pb"
	"github.com/lateen-mesh/lateen/internal/translate/secret"
	"github.com/lateen-mesh/lateen/internal/translate/translatetest"
)

func TestInputsAreMemoKeys(t *testing.T) {
	for _, in := range []any{secret.CertificateInput{}, secret.AuthoritiesInput{}} {
		translatetest.RequireInput(t, in)
	}
}

func TestEqualInputsHaveEqualBytes(t *testing.T) {
	of := func() []byte {
		body, err := pb.Marshal(secret.Certificate(secret.CertificateInput{
			Name: model.SecretName(
				"a",
			), Pair: model.KeyPair{Chain: model.NewSensitive("chain"), Key: model.NewSensitive("key")},
		}))
		require.NoError(t, err)
		return body
	}
	require.Equal(t, of(), of())
}

func TestSecretsHoldTheirCertificatesAndKeys(t *testing.T) {
	c := secret.Certificate(secret.CertificateInput{Name: "kubernetes://a", Pair: model.KeyPair{
		Chain: model.NewSensitive("chain"),
		Key:   model.NewSensitive("key"),
	}})
	require.Equal(t, "kubernetes://a", c.GetName())
	require.Equal(t, "chain", string(c.GetTlsCertificate().GetCertificateChain().GetInlineBytes()))
	require.Equal(t, "key", string(c.GetTlsCertificate().GetPrivateKey().GetInlineBytes()))

	a := secret.Authorities(secret.AuthoritiesInput{Name: "kubernetes://a-cacert", Authorities: model.Authorities{
		Certificates: model.NewSensitive("ca"),
	}})
	require.Equal(t, "ca", string(a.GetValidationContext().GetTrustedCa().GetInlineBytes()))
	require.Nil(t, a.GetValidationContext().GetCrl())
	a = secret.Authorities(secret.AuthoritiesInput{Authorities: model.Authorities{
		Certificates: model.NewSensitive("ca"),
		Revoked:      model.NewSensitive("crl"),
	}})
	require.Equal(t, "crl", string(a.GetValidationContext().GetCrl().GetInlineBytes()))
}
