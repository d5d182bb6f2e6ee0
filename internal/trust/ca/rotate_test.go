package ca

import (
	"bytes"
	"crypto/x509"
	"maps"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const day = 24 * time.Hour

// phase is an authority at a time.
type phase struct {
	name string
	at   time.Time
	data map[string][]byte
	a    *Authority
}

// phases are the phases of a rotation in order, with the beginning and the end of each.
func phases(t *testing.T, r rotation) (all []phase) {
	data, err := r.next(nil, start)
	require.NoError(t, err)
	end := start.Add(rootLives)
	due := end.Add(-rootLives / remainingShare)
	for _, p := range []struct {
		name string
		at   time.Time
	}{
		{"alone", start},
		{"alone, at its end", due.Add(-time.Hour)},
		{"overlap", due.Add(time.Hour)},
		{"overlap, at its end", due.Add(r.overlap)},
		{"switched", due.Add(r.overlap + 2*time.Hour)},
		{"switched, at its end", end.Add(-time.Minute)},
		{"next alone", end.Add(time.Minute)},
	} {
		if data, err = r.next(data, p.at); err != nil {
			t.Fatal(p.name, err)
		}
		again, err := r.next(data, p.at)
		require.NoError(t, err)
		require.True(t, maps.EqualFunc(data, again, bytes.Equal), "%s: nothing more is due", p.name)
		a, err := New(keysOf(data), p.at)
		require.NoError(t, err, p.name)
		all = append(all, phase{p.name, p.at, data, a})
	}
	return all
}

func TestRotationPhases(t *testing.T) {
	r := rotation{overlap: DefaultTTL.Max}
	all := phases(t, r)
	signer := func(i int) string { return string(all[i].a.keys.certificate.Raw) }
	for i, roots := range []int{1, 1, 2, 2, 2, 2, 1} {
		require.Len(t, all[i].a.keys.roots, roots, all[i].name)
		require.Len(t, all[i].a.keys.intermediates, roots-1, all[i].name)
	}
	for i := range 4 {
		require.Equal(t, signer(0), signer(i), all[i].name)
		require.NotEqual(t, signer(6), signer(i), all[i].name)
	}
	for i := 4; i < 7; i++ {
		require.Equal(t, signer(6), signer(i), all[i].name)
		require.NotContains(t, all[i].data, nextPrivateKey)
	}
	for i := 1; i < len(all); i++ {
		require.True(t, all[i].a.verifiedBy(all[i-1].a), all[i].name)
	}
}

// A leaf lives for the longest time at most, so in each phase peers have leaves and roots of this
// phase or of an earlier one that was in force within that time. All of these verify each other,
// also where a client has only the root at the end of the chain that it got.
func TestNoPhaseBreaksAConnection(t *testing.T) {
	r := rotation{overlap: DefaultTTL.Max}
	all := phases(t, r)
	for i, now := range all {
		var held []phase
		for _, earlier := range all[:i+1] {
			if now.at.Sub(earlier.at) < DefaultTTL.Max || earlier.at.Equal(now.at) {
				held = append(held, earlier)
			}
		}
		if i > 0 { // the one before was in force until now
			held = append(held, all[i-1])
		}
		for _, server := range held {
			issued := now.at.Add(-time.Minute)
			if server.a.Expires().Before(now.at) {
				continue // no leaf outlives its signer
			}
			chain, err := server.a.Sign(request(t), Request{Identity: bookshop, TTL: DefaultTTL.Max, Now: issued})
			require.NoError(t, err)
			sent := parseChain(t, chain)
			for _, client := range held {
				roots := client.a.keys.roots
				last := roots[len(roots)-1:]
				for _, trusted := range [][]*x509.Certificate{roots, last} {
					if trusted[0].NotAfter.Before(now.at) && len(trusted) == 1 {
						continue // a client that got its own leaf before has none that is valid either
					}
					require.NoError(t, verify(sent, trusted, now.at), "at %s: leaf of %s, roots of %s (%d)",
						now.name, server.name, client.name, len(trusted))
				}
			}
		}
	}
}

func TestRotationOfARootThatIsNearItsEnd(t *testing.T) {
	r := rotation{overlap: 90 * day}
	data, err := r.next(nil, start)
	require.NoError(t, err)
	end := start.Add(rootLives)
	begun, err := r.next(data, end.Add(-10*day))
	require.NoError(t, err)
	from, err := switchTime(begun)
	require.NoError(t, err)
	require.WithinDuration(t, end.Add(-5*day), from, clockSkew, "half of what is left, where that is shorter")

	fresh, err := r.next(data, end.Add(day))
	require.NoError(t, err)
	require.NotEqual(t, data[certificateKey], fresh[certificateKey], "nobody trusts an expired root")
	_, err = New(keysOf(fresh), end.Add(day))
	require.NoError(t, err)

	late, err := r.next(begun, end.Add(day))
	require.NoError(t, err)
	require.Equal(t, begun[nextCertificateKey], late[certificateKey], "what was distributed is used")
}

func TestRootsThatCannotBeReadAreKept(t *testing.T) {
	r := rotation{overlap: day}
	data, err := r.next(nil, start)
	require.NoError(t, err)
	for key, value := range map[string]string{
		certificateKey: "x", privateKey: "x", rootsKey: "x", nextFromKey: "tomorrow",
	} {
		broken := maps.Clone(data)
		broken[key] = []byte(value)
		_, err := r.next(broken, start)
		require.ErrorContains(t, err, key)
	}
}
