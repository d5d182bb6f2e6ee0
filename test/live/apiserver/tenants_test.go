package apiserver

import (
	"crypto/tls"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lateen-mesh/lateen/internal/testkit/certs"
	"github.com/lateen-mesh/lateen/internal/testkit/lateenserve"
)

// gateways: two namespaces each have a gateway of their own, whose Secrets are renewed, spoilt and
// mended. Each is served by another replica, and one replica writes what is wrong with either.
func (m *mesh) gateways(second *lateenserve.Process) {
	t, replicas := m.t, []*lateenserve.Process{m.lateen, second}
	red, blue := m.tenant(m.lateen, "red", "127.61.0.1"), m.tenant(second, "blue", "127.61.0.2")
	t.Run("each serves its own", func(t *testing.T) { own(t, red, blue); own(t, blue, red) })
	t.Run("a certificate is renewed", func(t *testing.T) { red.renewed(t) })
	t.Run("authorities are renewed", func(t *testing.T) { red.authoritiesRenewed(t) })
	t.Run("what is renewed is garbage", func(t *testing.T) { red.spoilt(t, replicas) })
	t.Run("a Secret is missing", func(t *testing.T) { blue.missing(t) })
}

// own: a gateway serves the hosts of its namespace and no others, and has no cluster for theirs.
func own(t *testing.T, own, other *tenant) {
	host := own.namespace + ".test"
	eventually(t, "the gateway of "+own.namespace, func() bool {
		body, _, err := own.ask(8443, host)
		return err == nil && body == own.namespace
	})
	eventually(t, "its plain server", func() bool { // each listener opens by itself
		body, _, err := ask("http://"+host, own.at(8080), nil)
		return err == nil && body == own.namespace
	})
	_, _, err := ask("http://"+other.namespace+".test", own.at(8080), nil)
	require.EqualError(t, err, "status 404")
	_, _, err = ask("https://"+other.namespace+".test", own.at(8443),
		&tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12}) //nolint:gosec // nobody may answer
	require.Error(t, err, "nobody answers to another's name")
	_, _, err = own.ask(8443, "never."+host)
	require.Error(t, err, "its certificate was never good")
	require.Equal(t, []string{"outbound|80||backend." + own.namespace + ".test"}, own.clusters(t))
	own.says(t, "spec.servers[2].tls")
}

// renewed: new connections get the new certificate, and none fails meanwhile.
func (o *tenant) renewed(t *testing.T) {
	stop := load(t, func() error { _, _, err := o.ask(8443, o.namespace+".test"); return err })
	for range 3 {
		next := o.issue(t)
		o.put(t, "own", pairOf(next))
		o.shows(t, next)
	}
	stop()
}

// authoritiesRenewed: clients of the old and of the new authority get in while both are trusted,
// and then those of the new alone.
func (o *tenant) authoritiesRenewed(t *testing.T) {
	next, host := certs.NewAuthority(t, "next"), o.namespace+".test"
	before, after := o.authority.Issue(t, "client").TLS(t), next.Issue(t, "client").TLS(t)
	enter := func(client ...tls.Certificate) error { _, _, err := o.ask(8444, host, client...); return err }
	require.NoError(t, enter(before))
	require.Error(t, enter(after))
	require.Error(t, enter())
	stopBefore := load(t, func() error { return enter(before) })
	o.put(t, "mutual-cacert", authorities(o.authority, next))
	eventually(t, "the next authority is trusted", func() bool { return enter(after) == nil })
	stopBefore()
	stopAfter := load(t, func() error { return enter(after) })
	o.put(t, "mutual-cacert", authorities(next))
	eventually(t, "the authority of before is not", func() bool { return enter(before) != nil })
	stopAfter()

	// Spoilt authorities let in neither more nor fewer.
	o.put(t, "mutual-cacert", authorities(&certs.Authority{PEM: "garbage"}))
	o.says(t, "spec.servers[2].tls", "spec.servers[3].tls")
	o.m.marker()
	require.NoError(t, enter(after))
	require.Error(t, enter(before))
	require.Error(t, enter())
	o.put(t, "mutual-cacert", authorities(o.authority))
	eventually(t, "the first authority again", func() bool { return enter(before) == nil })
	o.says(t, "spec.servers[2].tls")
}

// spoilt: a Secret of garbage leaves the gateway with the certificate that it has, is said, and is
// mended by the next good one.
func (o *tenant) spoilt(t *testing.T, replicas []*lateenserve.Process) {
	good, host := o.issue(t), o.namespace+".test"
	o.put(t, "own", pairOf(good))
	o.shows(t, good)
	stop := load(t, func() error { _, _, err := o.ask(8443, host); return err })
	wrong := func(n float64) {
		t.Helper()
		for _, r := range replicas {
			eventually(t, "problems are counted", func() bool {
				return r.Metrics(t).Sum("lateen_problems", "severity", "error") == n
			})
		}
	}
	wrong(4) // the Secrets that never were good, and the Gateways that name them
	for _, bad := range []map[string]string{
		garbage(), pairOf(certs.Pair{Certificate: good.Certificate, Key: o.issue(t).Key}),
	} {
		o.put(t, "own", bad)
		o.says(t, "spec.servers[1].tls", "spec.servers[2].tls")
		wrong(6)
		for _, r := range replicas {
			require.True(t, contains(problemsOf(t, r), "Secret own"))
		}
		o.m.marker()
		_, serial, err := o.ask(8443, host)
		require.NoError(t, err)
		require.Equal(t, good.Serial, serial)
	}
	next := o.issue(t)
	o.put(t, "own", pairOf(next))
	o.shows(t, next)
	stop()
	o.says(t, "spec.servers[2].tls")
	wrong(4)
}

// missing: a Secret that is taken away closes the servers that name it, until it is there again; so
// does one that never was good.
func (o *tenant) missing(t *testing.T) {
	host := o.namespace + ".test"
	require.NoError(t, o.m.core.CoreV1().Secrets(o.namespace).Delete(t.Context(), "own", metav1.DeleteOptions{}))
	o.says(t, "there is no Secret of this name", "spec.servers[2].tls")
	eventually(t, "the server is closed", func() bool { _, _, err := o.ask(8443, host); return err != nil })
	body, _, err := ask("http://"+host, o.at(8080), nil)
	require.NoError(t, err)
	require.Equal(t, o.namespace, body, "the other servers are open")
	o.put(t, "own", pairOf(o.issue(t)))
	o.put(t, "never", pairOf(o.authority.Issue(t, "never."+host)))
	for _, h := range []string{host, "never." + host} {
		eventually(t, h+" is open", func() bool { _, _, err := o.ask(8443, h); return err == nil })
	}
	o.says(t)
}
