package convert

import (
	"strings"
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

// No proxy gets what the control plane keeps for itself, and others may use the names elsewhere.
func TestSecretsOfTheControlPlaneAreIgnored(t *testing.T) {
	authority := certs.NewAuthority(t, "authority")
	one := authority.Issue(t, "one.test")
	for at, ignored := range map[string]bool{
		"istio-system/istio-ca-secret": true, "istio-system/cacerts": true,
		"istio-system/lateen-serving-cert": true, "istio-system/lateen-serving-cert-canary": true,
		"istio-system/lateen-serving-certificate": false, "istio-system/one": false, "shop/cacerts": false,
	} {
		namespace, name, _ := strings.Cut(at, "/")
		in := &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace}, Type: corev1.SecretTypeTLS,
			Data: map[string][]byte{"tls.crt": []byte(one.Certificate), "tls.key": []byte(one.Key)},
		}
		key := source.Key{Kind: kinds.Secret, Namespace: namespace, Name: name}
		got := New(Options{}).Convert(source.Change{Key: key, Object: in, ObservedAt: time.Now()}, model.DefaultMesh())
		require.Equal(t, ignored, got.Ignored, at)
		require.Equal(t, ignored, len(got.Objects) == 0, at)
	}
}

// A Pod says whether its proxy is a gateway.
func TestPodsSayWhetherTheyAreGateways(t *testing.T) {
	always := corev1.ContainerRestartPolicyAlways
	proxy := func(args ...string) corev1.Container { return corev1.Container{Name: "istio-proxy", Args: args} }
	for name, c := range map[string]struct {
		templates string
		spec      corev1.PodSpec
		want      bool
	}{
		"nothing":   {},
		"a sidecar": {spec: corev1.PodSpec{Containers: []corev1.Container{proxy("proxy", "sidecar")}}},
		"a router": {spec: corev1.PodSpec{
			Containers: []corev1.Container{{}, proxy("proxy", "router", "x")},
		}, want: true},
		"arguments of others": {spec: corev1.PodSpec{
			Containers: []corev1.Container{{Name: "app", Args: []string{"proxy", "router"}}},
		}},
		"no role":               {spec: corev1.PodSpec{Containers: []corev1.Container{proxy("proxy")}}},
		"the template":          {templates: "gateway", want: true},
		"the template, further": {templates: "custom, gateway", want: true},
		"another template":      {templates: "gateways,sidecar"},
		"a native sidecar": {spec: corev1.PodSpec{InitContainers: []corev1.Container{
			{Name: "istio-proxy", Args: []string{"proxy", "router"}, RestartPolicy: &always},
		}}, want: true},
	} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "default"}, Spec: c.spec}
		if c.templates != "" {
			pod.Annotations = map[string]string{"inject.istio.io/templates": c.templates}
		}
		key := source.Key{Kind: kinds.Pod, Namespace: "default", Name: "p"}
		got := New(Options{}).Convert(source.Change{Key: key, Object: pod}, model.DefaultMesh())
		w, is := got.Objects[0].(*model.Workload)
		require.True(t, is)
		require.Equal(t, c.want, w.Gateway, name)
	}
}
