package envoyfacts

import (
	"crypto/tls"
	"testing"
	"time"

	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/lateen-mesh/lateen/internal/testkit/adscript"
	"github.com/lateen-mesh/lateen/internal/testkit/certs"
)

// TestListenersAndClustersWaitForTheirSecret_1_15 is why a secret that does not exist is answered
// with its removal (P25), and why secrets need no obligation as endpoints do.
func TestListenersAndClustersWaitForTheirSecret_1_15(t *testing.T) {
	fact(t, "a listener waits for its secret, whatever else comes", func(t *testing.T, r *adscript.Run) {
		start(r)
		waitForSecret(r, "l", never)
		r.AwaitAck(r.Send(adscript.Removal(adscript.Secrets)))
		r.AwaitAck(r.Send(adscript.Removal(adscript.Secrets, "other")))
		r.Settle()
		require.Contains(t, r.Config().WarmingListeners, "l")
		require.Contains(t, r.Config().WarmingSecrets, "s")
		first, serial := issue(t, "s")
		r.AwaitAck(r.Send(adscript.Push("1", first)))
		r.Until("it shakes hands", func() bool { return shakeHands(r, "l") == serial })
	})
	fact(t, "a removal ends the wait, without a certificate", func(t *testing.T, r *adscript.Run) {
		start(r)
		waitForSecret(r, "l", never)
		r.AwaitAck(r.Send(adscript.Removal(adscript.Secrets, "s")))
		r.Until("it is open", func() bool { return r.Address("l").IsValid() })
		require.Equal(t, "", shakeHands(r, "l"))
		late, serial := issue(t, "s")
		r.AwaitAck(r.Send(adscript.Push("1", late)))
		r.Until("late, but there", func() bool { return shakeHands(r, "l") == serial })
	})
	fact(t, "so do its timeout and any refused response for secrets", func(t *testing.T, r *adscript.Run) {
		start(r)
		waitForSecret(r, "l", soon)
		r.Until("it is open", func() bool { return r.Address("l").IsValid() })
		require.Equal(t, "", shakeHands(r, "l"))
		r.Send(adscript.Push("1", secretListener("m", "other", never)))
		r.AwaitSubscribe(adscript.Secrets, "other")
		r.AwaitNack(r.Send(adscript.Push("1", adscript.Secret("s", "no certificate", "no key"))))
		r.Until("it is open", func() bool { return r.Address("m").IsValid() })
		require.Equal(t, "", shakeHands(r, "m"))
	})
	fact(t, "a secret in one burst behind its listener is taken", func(t *testing.T, r *adscript.Run) {
		start(r)
		s, serial := issue(t, "s")
		r.AwaitAck(r.Send(adscript.Push("1", secretListener("l", "s", never)), adscript.Push("1", s),
			adscript.Push("1", adscript.RouteTable("rc", adscript.AnsweringHost("a", "a", "*")))))
		r.Until("it shakes hands", func() bool { return shakeHands(r, "l") == serial })
	})
	fact(t, "a new version is for new connections, nothing warms; a bad one and a removal change nothing",
		func(t *testing.T, r *adscript.Run) {
			start(r)
			waitForSecret(r, "l", never)
			first, _ := issue(t, "s")
			r.AwaitAck(r.Send(adscript.Push("1", first)))
			second, serial := issue(t, "s")
			r.AwaitAck(r.Send(adscript.Push("2", second)))
			r.Until("it is the new one", func() bool { return shakeHands(r, "l") == serial })
			require.Empty(t, r.Config().WarmingListeners)
			r.AwaitNack(r.Send(adscript.Push("3", adscript.Secret("s", "no certificate", "no key"))))
			require.Equal(t, serial, shakeHands(r, "l"))
			r.Reconnect()
			require.Equal(t, map[string]string{"s": "2"}, r.AwaitOpen(adscript.Secrets).InitialVersions)
			r.AwaitAck(r.Send(adscript.Removal(adscript.Secrets, "s")))
			require.Equal(t, serial, shakeHands(r, "l"))
			r.Reconnect()
			require.Empty(t, r.AwaitSubscribe(adscript.Secrets, "s").InitialVersions)
		})
	fact(t, "a listener that changes and keeps its secret opens at once, and asks for nothing",
		func(t *testing.T, r *adscript.Run) {
			start(r)
			waitForSecret(r, "l", never)
			s, serial := issue(t, "s")
			r.AwaitAck(r.Send(adscript.Push("1", s)))
			r.Until("it shakes hands", func() bool { return shakeHands(r, "l") == serial })
			mark := r.Mark()
			l := secretListener("l", "s", never)
			l.PerConnectionBufferLimitBytes = wrapperspb.UInt32(1 << 15)
			r.AwaitAck(r.Send(adscript.Push("2", l)))
			requireQuiet(t, r, mark)
			require.Equal(t, "2", r.Config().Listeners["l"].Version)
			r.AwaitAck(r.Send(adscript.Removal(adscript.Listeners, "l")))
			r.AwaitUnsubscribe(adscript.Secrets, "s")
		})
	fact(t, "a cluster waits for its secret, and no second time when it changes", func(t *testing.T, r *adscript.Run) {
		start(r)
		c := adscript.TLSCluster(adscript.StaticCluster("c", hosts(1)...), "s", never)
		cds := r.Send(adscript.Push("1", c))
		r.AwaitSubscribe(adscript.Secrets, "s")
		r.Settle()
		require.False(t, r.Answered(cds))
		require.Contains(t, r.Config().WarmingClusters, "c")
		s, _ := issue(t, "s")
		r.AwaitAck(r.Send(adscript.Push("1", s)))
		r.AwaitAck(cds)
		mark := r.Mark()
		r.AwaitAck(r.Send(adscript.Push("2", changed(c))))
		requireQuiet(t, r, mark)
		require.True(t, inUse(r, changed(c)))
	})
}

// secretListener terminates TLS with a secret, and has its routes from table rc.
func secretListener(name, secret string, fetch time.Duration) *listenerv3.Listener {
	return adscript.TLSListener(adscript.HTTPListener(name, "rc", never), secret, fetch)
}

// waitForSecret adds a listener that waits for nothing but secret s.
func waitForSecret(r *adscript.Run, name string, fetch time.Duration) {
	r.Send(adscript.Push("1", secretListener(name, "s", fetch)))
	r.AwaitSubscribe(adscript.Routes, "rc")
	r.AwaitSubscribe(adscript.Secrets, "s")
	r.AwaitAck(r.Send(adscript.Push("1", adscript.RouteTable("rc", adscript.AnsweringHost("a", "a", "*")))))
}

// issue makes a secret, and says what tells it from others.
func issue(t *testing.T, name string) (secret *tlsv3.Secret, serial string) {
	t.Helper()
	pair := certs.NewAuthority(t, "authority").Issue(t, "a.test")
	return adscript.Secret(name, pair.Certificate, pair.Key), pair.Serial
}

// shakeHands is the serial number of the certificate that a listener shows, or "" if it shows none.
func shakeHands(r *adscript.Run, listener string) string {
	address := r.Address(listener)
	if !address.IsValid() {
		return ""
	}
	c, err := tls.Dial("tcp", address.String(),
		&tls.Config{InsecureSkipVerify: true}) //nolint:gosec // what it shows is what is tested
	if err != nil {
		return ""
	}
	defer func() { _ = c.Close() }()
	return c.ConnectionState().PeerCertificates[0].SerialNumber.String()
}
