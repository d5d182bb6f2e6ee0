package ca

import (
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// An authority that has expired is reported, and clients learn why they get no certificate: the
// server shows its last certificate, which has expired too.
func TestExpiredAuthorityIsReported(t *testing.T) {
	data, _ := plug(t, start, nil)
	authority, err := New(keysOf(data), start)
	require.NoError(t, err)
	now, log := start, &logged{}
	holder := NewHolder()
	store := NewStore(holder, StoreOptions{
		Namespace: "istio-system", Log: slog.New(slog.NewTextHandler(log, nil)),
		Now: func() time.Time { return now },
	})
	serving := NewServing(holder, []string{"istiod.istio-system.svc"}, func() time.Time { return now })
	require.Equal(t, checkEvery, store.checkExpiry(), "there is none yet")
	store.source = Plugged
	holder.Set(authority)
	pair, err := serving.Certificate()
	require.NoError(t, err)

	now = authority.Expires().Add(-time.Minute)
	require.Equal(t, time.Minute+time.Second, store.checkExpiry(), "it is looked at when it expires")
	require.False(t, log.has("expired"))
	now = authority.Expires()
	require.Equal(t, checkEvery, store.checkExpiry())
	require.True(t, log.has("the certificate authority has expired"))
	require.True(t, log.has("secret=istio-system/cacerts"))
	last, err := serving.Certificate()
	require.NoError(t, err)
	require.True(t, now.After(last.Leaf.NotAfter) || now.Equal(last.Leaf.NotAfter))
	require.Equal(t, pair.Leaf.DNSNames, last.Leaf.DNSNames)
}

// A clock that is off by an hour breaks nothing: neither that of a peer nor that of the authority.
func TestClocksMayBeOffByAnHour(t *testing.T) {
	data, err := rotation{}.first(start)
	require.NoError(t, err)
	a, err := New(keysOf(data), start)
	require.NoError(t, err)
	for name, off := range map[string]time.Duration{"ahead": time.Hour, "behind": -time.Hour} {
		t.Run(name, func(t *testing.T) {
			chain, err := a.Sign(request(t), Request{Identity: bookshop, TTL: DefaultTTL.Default, Now: start.Add(off)})
			require.NoError(t, err)
			all := parseChain(t, chain)
			require.NoError(t, verify(all[:1], all[1:], start), "the authority's clock is off")
			chain, err = a.Sign(request(t), Request{Identity: bookshop, TTL: DefaultTTL.Default, Now: start})
			require.NoError(t, err)
			all = parseChain(t, chain)
			require.NoError(t, verify(all[:1], all[1:], start.Add(off)), "the peer's clock is off")
			_, err = New(keysOf(data), start.Add(off))
			require.NoError(t, err, "the clock of a replica that reads the Secret is off")
		})
	}
}

// The leader looks again when the next root is to sign.
func TestSwitchIsNotLate(t *testing.T) {
	from := func(after time.Duration) map[string][]byte {
		return map[string][]byte{nextFromKey: []byte(start.Add(after).Format(time.RFC3339))}
	}
	require.Equal(t, checkEvery, untilSwitch(nil, start))
	require.Equal(t, checkEvery, untilSwitch(from(2*checkEvery), start))
	require.Equal(t, time.Minute, untilSwitch(from(time.Minute), start))
	require.Equal(t, time.Second, untilSwitch(from(-time.Minute), start))
}
