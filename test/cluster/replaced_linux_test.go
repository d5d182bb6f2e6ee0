package cluster

import (
	"bytes"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lateen-mesh/lateen/internal/trust/ca"
)

// authorityReplaced replaces a plugged-in authority by one below another root, under load, in the
// three steps of docs/ca.md: the next root is trusted, the next authority signs, and the root of
// the one before goes. Certificates are renewed between the steps.
func authorityReplaced(t *testing.T, c *cluster) {
	w := c.from(t, "app=client")
	pods := []corev1.Pod{c.pods(t, "app=client")[0], c.pods(t, "app=server")[0]}
	w.until(t, "http://server/", "an answer", again(20, w, "http://server/", ok))
	plugged, err := c.client.CoreV1().Secrets(rootNamespace).Get(t.Context(), ca.Plugged, metav1.GetOptions{})
	require.NoError(t, err)
	before, next := plugged.Data, newRoot(t)
	own := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: next.certificate.Raw})
	both := slices.Concat(before["root-cert.pem"], own)
	l := w.steady(t, "http://server/", patience)

	c.plug(t, withRoots(before, both))
	c.await(t, "both roots are distributed", func() bool { return len(c.distributedRoots(t)) == 2 })
	c.renewed(t, pods)
	authority := next.intermediate(t, 30*24*time.Hour)
	c.plug(t, withRoots(authority, both))
	signs := parse(t, authority["ca-cert.pem"])[0]
	for _, p := range pods {
		c.await(t, p.Name+" has a certificate of the next authority", func() bool {
			return bytes.Equal(c.leaf(t, p).AuthorityKeyId, signs.SubjectKeyId)
		})
	}
	c.plug(t, withRoots(authority, own))
	c.await(t, "the root before is gone", func() bool {
		roots := c.distributedRoots(t)
		return len(roots) == 1 && roots[0].Equal(next.certificate)
	})
	c.renewed(t, pods)
	l.advance(t, 200)
	l.requireNone(t)
}

// withRoots is an authority as it is plugged in, with other roots.
func withRoots(authority map[string][]byte, roots []byte) map[string][]byte {
	all := maps.Clone(authority)
	all["root-cert.pem"] = roots
	return all
}

// renewed waits until each Pod shows another certificate than now.
func (c *cluster) renewed(t *testing.T, pods []corev1.Pod) {
	t.Helper()
	for _, p := range pods {
		now := c.leaf(t, p)
		c.await(t, p.Name+" has renewed its certificate", func() bool { return !c.leaf(t, p).Equal(now) })
	}
}

// newRoot returns a root that nobody knows.
func newRoot(t *testing.T) signer {
	t.Helper()
	key, name := newKey(t), pkix.Name{CommonName: "the next root"}
	root := signer{&x509.Certificate{Subject: name}, key}
	root.certificate = parse(t, root.certify(t, name, key.Public(), 10*365*24*time.Hour))[0]
	return root
}
