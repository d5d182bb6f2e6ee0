package convert

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/source"
	"github.com/lateen-mesh/lateen/internal/testkit/certs"
)

func readSecret(kind corev1.SecretType, data map[string]string) Result {
	in := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "s", Namespace: "default"}, Type: kind, Data: map[string][]byte{},
	}
	for k, v := range data {
		in.Data[k] = []byte(v)
	}
	key := source.Key{Kind: kinds.Secret, Namespace: "default", Name: "s"}
	return New(Options{}).Convert(source.Change{Key: key, Object: in, ObservedAt: time.Now()}, model.DefaultMesh())
}

func TestSecretsAreCheckedAndNeverShown(t *testing.T) {
	authority := certs.NewAuthority(t, "authority")
	one, two := authority.Issue(t, "one.test"), authority.Issue(t, "two.test", certs.RSA)
	past := authority.Issue(t, "past.test", certs.Valid(time.Now().Add(-2*time.Hour), time.Now().Add(-time.Hour)))
	future := authority.Issue(t, "future.test", certs.Valid(time.Now().Add(time.Hour), time.Now().Add(2*time.Hour)))
	const opaque = corev1.SecretTypeOpaque
	cases := []struct {
		name                       string
		kind                       corev1.SecretType
		data                       map[string]string
		pair, authorities, ignored bool
		badPair, badAuthorities    bool
		says                       string
	}{
		{name: "of Kubernetes", kind: corev1.SecretTypeTLS, data: map[string]string{
			"tls.crt": one.Certificate, "tls.key": one.Key,
		}, pair: true},
		{name: "of Istio", kind: opaque, data: map[string]string{
			"cert": two.Certificate, "key": two.Key, "cacert": authority.PEM,
		}, pair: true, authorities: true},
		{name: "authorities alone", kind: opaque, data: map[string]string{"ca.crt": authority.PEM}, authorities: true},
		{name: "revoked", kind: opaque, data: map[string]string{
			"ca.crt": authority.PEM, "ca.crl": authority.Revoke(t, one),
		}, authorities: true},
		{
			name: "something else", kind: opaque, data: map[string]string{"key": "hush", "password": "hush"},
			ignored: true,
		},
		{name: "expired", kind: corev1.SecretTypeTLS, data: map[string]string{
			"tls.crt": past.Certificate, "tls.key": past.Key,
		}, pair: true, says: "expired on"},
		{name: "not yet", kind: corev1.SecretTypeTLS, data: map[string]string{
			"tls.crt": future.Certificate, "tls.key": future.Key,
		}, pair: true, says: "is not valid before"},
		{name: "garbage", kind: corev1.SecretTypeTLS, data: map[string]string{
			"tls.crt": "hush", "tls.key": "hush",
		}, badPair: true, says: "holds no certificate"},
		{name: "another's key", kind: opaque, data: map[string]string{
			"cert": one.Certificate, "key": future.Key,
		}, badPair: true, says: "is not the key of the certificate"},
		{name: "another kind of key", kind: opaque, data: map[string]string{
			"cert": one.Certificate, "key": two.Key,
		}, badPair: true, says: "is not the key of the certificate"},
		{name: "no key", kind: corev1.SecretTypeTLS, data: map[string]string{
			"tls.crt": one.Certificate,
		}, badPair: true, says: "is missing or empty"},
		{name: "a key that is none", kind: opaque, data: map[string]string{
			"cert": one.Certificate, "key": "hush",
		}, badPair: true, says: "is no private key"},
		{name: "wrong authorities", kind: opaque, data: map[string]string{
			"cert": one.Certificate, "key": one.Key, "cacert": "hush",
		}, pair: true, badAuthorities: true, says: "holds no certificate"},
		{name: "a list that is none", kind: opaque, data: map[string]string{
			"ca.crt": authority.PEM, "ca.crl": "hush",
		}, badAuthorities: true, says: "holds no list"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			got := readSecret(c.kind, c.data)
			require.Equal(t, c.ignored, got.Ignored)
			if c.ignored {
				require.Empty(t, got.Objects)
				return
			}
			credential := got.Objects[0].(*model.Credential)
			require.Equal(t, c.pair, credential.Pair != nil)
			require.Equal(t, c.authorities, credential.Authorities != nil)
			require.Equal(t, c.badPair, credential.BadPair)
			require.Equal(t, c.badAuthorities, credential.BadAuthorities)
			if c.says == "" {
				require.Empty(t, got.Problems)
				return
			}
			require.Len(t, got.Problems, 1)
			require.Contains(t, got.Problems[0].String(), c.says)
			require.NotContains(t, got.Problems[0].String(), "hush")
		})
	}
}

// FuzzSecret reads arbitrary content of a Secret; problems never repeat it.
func FuzzSecret(f *testing.F) {
	authority := certs.NewAuthority(f, "authority")
	pair := authority.Issue(f, "one.test")
	f.Add(pair.Certificate, pair.Key, authority.PEM, authority.Revoke(f, pair))
	f.Add(
		"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
		"-----BEGIN EC PRIVATE KEY-----\n-----END EC PRIVATE KEY-----\n", "x", "",
	)
	f.Fuzz(func(t *testing.T, chain, key, authorities, revoked string) {
		got := readSecret(
			corev1.SecretTypeTLS,
			map[string]string{"tls.crt": chain, "tls.key": key, "ca.crt": authorities, "ca.crl": revoked},
		)
		require.Len(t, got.Objects, 1)
		for _, p := range got.Problems {
			require.Empty(t, p.Value)
		}
	})
}
