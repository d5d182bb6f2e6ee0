package compliance

import (
	"crypto/tls"
	"net"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/testkit/certs"
)

// TestHandshakesKeepThePolicy lets clients and servers agree, of which one has a policy: what they
// agree on is what the policy lets pass, or they do not agree.
func TestHandshakesKeepThePolicy(t *testing.T) {
	only := func(version uint16, curves ...tls.CurveID) *tls.Config {
		return &tls.Config{MinVersion: version, MaxVersion: version, CurvePreferences: curves}
	}
	chacha := only(tls.VersionTLS12)
	chacha.CipherSuites = []uint16{tls.TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256}
	const tls12, tls13 = tls.VersionTLS12, tls.VersionTLS13
	anything := &tls.Config{MinVersion: tls12}
	for name, c := range map[string]struct {
		policy  string
		other   *tls.Config
		version uint16 // 0: no connection
		curve   tls.CurveID
	}{
		"none":                        {"", anything, tls13, tls.X25519MLKEM768},
		"FIPS 140-2 is TLS 1.2":       {"fips-140-2", anything, tls12, tls.CurveP256},
		"FIPS 140-2 without TLS 1.3":  {"fips-140-2", only(tls13), 0, 0},
		"FIPS 140-2 without X25519":   {"fips-140-2", only(tls12, tls.X25519), 0, 0},
		"FIPS 140-2 without ChaCha20": {"fips-140-2", chacha, 0, 0},
		"FIPS 140-3 is TLS 1.3":       {"fips-140-3", anything, tls13, tls.CurveP256},
		"FIPS 140-3 with TLS 1.2":     {"fips-140-3", only(tls12, tls.CurveP384), tls12, tls.CurveP384},
		"FIPS 140-3 without X25519":   {"fips-140-3", only(tls13, tls.X25519), 0, 0},
		"post-quantum":                {"pqc", anything, tls13, tls.X25519MLKEM768},
		"post-quantum and TLS 1.2":    {"pqc", only(tls12), 0, 0},
		"post-quantum and P-256":      {"pqc", only(tls13, tls.CurveP256), 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			policy, err := Parse(c.policy)
			require.NoError(t, err)
			require.Equal(t, c.policy, policy.String())
			limited := &tls.Config{MinVersion: tls.VersionTLS12}
			policy.Limit(limited)
			for _, side := range []struct{ server, client *tls.Config }{{limited, c.other}, {c.other, limited}} {
				state, err := handshake(t, side.server.Clone(), side.client.Clone())
				if c.version == 0 {
					require.Error(t, err)
					continue
				}
				require.NoError(t, err)
				require.Equal(t, tls.VersionName(c.version), tls.VersionName(state.Version))
				require.Equal(t, c.curve, state.CurveID)
			}
		})
	}
}

// handshake returns what a client and a server agree on.
func handshake(t *testing.T, server, client *tls.Config) (tls.ConnectionState, error) {
	t.Helper()
	authority := certs.NewAuthority(t, "authority")
	server.Certificates = []tls.Certificate{authority.Issue(t, "server.example").TLS(t)}
	client.RootCAs, client.ServerName = authority.Pool(), "server.example"
	l, err := net.Listen("tcp", "127.0.0.1:0") // a pipe holds no byte: who answers before all is read would wait
	require.NoError(t, err)
	defer func() { _ = l.Close() }()
	done := make(chan struct{})
	go func() {
		defer close(done)
		if raw, err := l.Accept(); err == nil {
			_ = tls.Server(raw, server).Handshake() // the client tells what went wrong
			_ = raw.Close()
		}
	}()
	raw, err := net.Dial("tcp", l.Addr().String())
	require.NoError(t, err)
	conn := tls.Client(raw, client)
	defer func() { _ = conn.Close() }()
	err = conn.Handshake()
	<-done
	return conn.ConnectionState(), err
}

func TestPolicyThatDoesNotExist(t *testing.T) {
	_, err := Parse("fips-140-4")
	require.EqualError(t, err, `there is no policy "fips-140-4"; want fips-140-2, fips-140-3 or pqc`)
}
