package certs

import (
	"log/slog"
	"testing"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	securityv1 "istio.io/api/security/v1alpha1"

	"github.com/lateen-mesh/lateen/internal/agent/wire"
	"github.com/lateen-mesh/lateen/internal/trust/ca"
	"github.com/lateen-mesh/lateen/internal/xds/typeurl"
)

// FuzzAnswer takes anything as the answer of a CA.
func FuzzAnswer(f *testing.F) {
	r := Request{Identity: identity}
	key, err := r.newKey()
	require.NoError(f, err)
	csr, err := r.csr(key)
	require.NoError(f, err)
	who, err := ca.ParseIdentity(identity)
	require.NoError(f, err)
	chain, err := authority(f, newRoot(f, "mesh")).Sign(csr, ca.Request{Identity: who, TTL: time.Hour, Now: time.Now()})
	require.NoError(f, err)
	b, err := proto.Marshal(&securityv1.IstioCertificateResponse{CertChain: chain})
	require.NoError(f, err)
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		parts, err := parseAnswer(wire.Bytes(b))
		if err != nil {
			return
		}
		if got, err := r.accept(parts, key); err == nil {
			require.NotEmpty(t, got.roots)
			require.NotEmpty(t, got.chain)
		}
		for _, part := range parts {
			union(part, part)
		}
	})
}

// FuzzRequest takes anything as requests of Envoy.
func FuzzRequest(f *testing.F) {
	for _, q := range []proto.Message{
		&discoveryv3.DeltaDiscoveryRequest{
			TypeUrl: typeurl.Secret, ResourceNamesSubscribe: []string{"file-cert:a~b", "ROOTCA"},
		},
		&discoveryv3.DiscoveryRequest{TypeUrl: typeurl.Secret, ResourceNames: []string{"file-root:a", "default"}},
	} {
		b, err := proto.Marshal(q)
		require.NoError(f, err)
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := New(Options{Grace: 0.5, Clock: RealClock(), Log: slog.New(slog.DiscardHandler)})
		require.NoError(t, err)
		defer func() { _ = m.files.watcher.Close() }()
		for _, v := range []*wire.Variant{wire.Delta(), wire.StateOfTheWorld()} {
			s := &stream{manager: m, v: v, names: map[string]string{}}
			for range 2 {
				if s.take(wire.Bytes(b)) == nil {
					require.LessOrEqual(t, len(s.names), maxNames)
				}
			}
		}
	})
}
