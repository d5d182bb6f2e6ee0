package certs

import (
	"crypto/tls"
	"crypto/x509"
	"os"
	"path/filepath"
	"testing"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"

	"github.com/lateen-mesh/lateen/internal/agent/wire"
	"github.com/lateen-mesh/lateen/internal/testkit/certs"
	"github.com/lateen-mesh/lateen/internal/trust/ca"
	"github.com/lateen-mesh/lateen/internal/xds/typeurl"
)

// TestCertificatesOfTheRealCA asks Lateen's CA, in each kind of key.
func TestCertificatesOfTheRealCA(t *testing.T) {
	keys := newRoot(t, "mesh")
	c := startCA(t, keys)
	for name, r := range map[string]Request{
		"EC PRIVATE KEY":  {TTL: time.Hour},
		"PRIVATE KEY":     {TTL: time.Hour, PKCS8: true},
		"RSA PRIVATE KEY": {TTL: time.Hour, RSABits: 2048},
	} {
		t.Run(name, func(t *testing.T) {
			a := start(t, Options{CA: c.connect(t), Request: r})
			chain, key := a.ask("default").pair()
			require.Equal(t, identity, chain[0].URIs[0].String())
			require.LessOrEqual(t, time.Until(chain[0].NotAfter), time.Hour)
			require.Contains(t, string(key), "BEGIN "+name+"-")
			require.Equal(t, string(keys.Roots), a.ask("ROOTCA").roots())
			require.Equal(t, chain[0], a.manager.Certificate().Leaf)
			require.Equal(t, chain[0].NotAfter, a.manager.Stats().Expires)
			require.NotContains(t, a.log.String(), "PRIVATE")
		})
	}
}

// TestRenewalAtAJitteredPartOfLife moves the clock through two renewals, one while the CA is away.
func TestRenewalAtAJitteredPartOfLife(t *testing.T) {
	c := startCA(t, newRoot(t, "mesh"))
	clock := newTestClock()
	a := start(t, Options{
		CA: c.connect(t), Grace: 0.5, Jitter: 0.1, Request: Request{TTL: time.Hour}, Clock: clock.clock(),
	})
	s := a.ask("default")
	first, firstKey := s.pair()
	a.sleeps(clock, longestWait)
	clock.move(20 * time.Minute)
	a.sleeps(clock, longestWait)
	require.Equal(t, int64(1), a.manager.Stats().Requests)

	working, _, err := c.holder.Get()
	require.NoError(t, err)
	c.holder.Set(nil)
	clock.move(20 * time.Minute) // 40 minutes; 38 would do with any jitter
	for range 8 {
		wait := a.sleeps(clock, retryMax)
		require.GreaterOrEqual(t, wait, retryBase/2)
		clock.move(wait)
	}
	require.Equal(t, first[0], a.manager.Certificate().Leaf, "what is in force stays")
	require.Contains(t, a.log.String(), "there is no new certificate")
	wait := a.sleeps(clock, retryMax)
	c.holder.Set(working)
	clock.move(wait)
	second, secondKey := s.pair()
	require.NotEqual(t, first[0].SerialNumber, second[0].SerialNumber)
	require.NotEqual(t, firstKey, secondKey)
}

// sleeps returns how long the manager sleeps next, for at most so long. Who reads files sleeps for
// another time than the manager ever does.
func (a *agent) sleeps(c *testClock, longest time.Duration) time.Duration {
	a.t.Helper()
	for {
		select {
		case d := <-c.asleep:
			if d <= longest && d != poll {
				return d
			}
		case <-time.After(patience):
			require.FailNow(a.t, "nobody sleeps")
		}
	}
}

// Attempts come closer together as the certificate nears its end, and are never closer than after
// the first failure.
func TestRetriesFitIntoTheRestOfALife(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	m := &Manager{options: Options{Clock: Clock{Now: func() time.Time { return now }}}}
	require.Equal(t, retryMax, m.retryAfter(retryMax), "there is no certificate yet")
	m.pair.Store(&tls.Certificate{Leaf: &x509.Certificate{NotAfter: now.Add(time.Hour)}})
	for left, want := range map[time.Duration]time.Duration{
		time.Hour: retryMax, 20 * time.Second: 5 * time.Second, time.Second: retryBase / 2, -time.Second: retryMax,
	} {
		now = m.pair.Load().Leaf.NotAfter.Add(-left)
		require.Equal(t, want, m.retryAfter(retryMax), left)
	}
	now = m.pair.Load().Leaf.NotAfter.Add(-20 * time.Second)
	require.Equal(t, time.Second, m.retryAfter(time.Second))
}

func TestRenewalIsDueBeforeTheEnd(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	m := &Manager{
		options: Options{Grace: 0.5, Jitter: 0.01, Clock: Clock{Now: func() time.Time { return now }}},
		ended:   wire.Backoff{Base: retryBase, Max: endedMax},
	}
	from, until := now, now.Add(100*time.Hour)
	for range 100 {
		due := m.dueAt(from, until)
		require.WithinRange(t, due, now.Add(49*time.Hour), now.Add(51*time.Hour))
	}
	for range 100 { // dated back by half of its life
		due := m.dueAt(from.Add(-50*time.Hour), until)
		require.WithinRange(t, due, now.Add(49*time.Hour), now.Add(51*time.Hour))
	}
	require.Equal(t, now.Add(retryBase), m.dueAt(from, now.Add(retryBase/2)), "the CA's own certificate ends")
	now = now.Add(200 * time.Hour) // the clock is ahead by more than a life
	longest := time.Duration(0)
	for i := range 20 { // or the CA was about to end, and its answer took longer: then there is a new one soon
		wait := m.dueAt(from, until).Sub(now)
		require.LessOrEqual(t, wait, retryBase<<i)
		longest = max(longest, wait)
	}
	require.Greater(t, longest, endedMax/2)
	require.LessOrEqual(t, longest, endedMax)
	now = from.Add(-time.Hour) // and behind
	require.WithinRange(t, m.dueAt(from, until), from.Add(49*time.Hour), from.Add(51*time.Hour))
}

// TestRootsOverlap follows a root file and a trust bundle, and a CA that changes its root.
func TestRootsOverlap(t *testing.T) {
	one, two, three := newRoot(t, "one"), newRoot(t, "two"), newRoot(t, "three")
	c := startCA(t, one)
	a := start(t, Options{CA: c.connect(t), RootFile: c.roots, Request: Request{TTL: time.Hour}})
	s := a.ask("ROOTCA")
	require.Equal(t, string(one.Roots), s.roots(), "the root of the answer and of the file are the same")
	replace(t, c.roots, string(one.Roots)+string(two.Roots))
	require.Equal(t, string(one.Roots)+string(two.Roots), s.roots())
	require.NoError(t, a.manager.SetBundle(three.Roots))
	require.Equal(t, string(one.Roots)+string(two.Roots)+string(three.Roots), s.roots())
	require.ErrorContains(t, a.manager.SetBundle([]byte("garbage")), "the trust bundle")
	replace(t, c.roots, "garbage")
	replace(t, c.roots, string(two.Roots))
	require.Equal(t, string(two.Roots)+string(one.Roots)+string(three.Roots), s.roots())
}

// TestAnswerWithTwoRoots is that of a CA whose root is being replaced.
func TestAnswerWithTwoRoots(t *testing.T) {
	one, two := newRoot(t, "one"), newRoot(t, "two")
	one.Roots = append(append([]byte{}, two.Roots...), one.Roots...)
	c := startCA(t, one)
	a := start(t, Options{CA: c.connect(t), Request: Request{TTL: time.Hour}})
	chain, _ := a.ask("default").pair()
	require.Len(t, chain, 1, "roots are not sent to peers")
	require.Equal(t, string(one.Roots), a.ask("ROOTCA").roots())
}

func TestStateOfTheWorld(t *testing.T) {
	c := startCA(t, newRoot(t, "mesh"))
	a := start(t, Options{CA: c.connect(t), Request: Request{TTL: time.Hour}})
	s, err := a.client.StreamSecrets(t.Context())
	require.NoError(t, err)
	ask := &discoveryv3.DiscoveryRequest{TypeUrl: typeurl.Secret, ResourceNames: []string{"ROOTCA"}}
	require.NoError(t, s.Send(ask))
	r, err := s.Recv()
	require.NoError(t, err)
	require.Len(t, r.GetResources(), 1)
	require.NotEmpty(t, r.GetVersionInfo())
	require.NoError(t, s.Send(&discoveryv3.DiscoveryRequest{
		TypeUrl: typeurl.Secret, ResourceNames: []string{"ROOTCA"}, ResponseNonce: r.GetNonce(),
		ErrorDetail: &status.Status{Message: "it is no good"},
	}))
	require.NoError(t, a.manager.SetBundle(newRoot(t, "other").Roots))
	again, err := s.Recv()
	require.NoError(t, err)
	require.NotEqual(t, r.GetNonce(), again.GetNonce())
	require.Eventually(t, func() bool { return a.manager.Stats().Refused == 1 }, patience, time.Millisecond)
	a.awaitLog("it is no good", 1)

	require.NoError(t, s.Send(&discoveryv3.DiscoveryRequest{TypeUrl: typeurl.Cluster}))
	_, err = s.Recv()
	require.Equal(t, codes.InvalidArgument, grpcstatus.Code(err))
}

// replace replaces a file as a mounted Secret is: in one step.
func replace(t *testing.T, path, content string) {
	t.Helper()
	require.NoError(t, replaceFile(path, []byte(content), 0o600))
}

func TestCertificatesOfFilesAreFollowed(t *testing.T) {
	dir := t.TempDir()
	chain, key, root := filepath.Join(dir, "chain"), filepath.Join(dir, "key"), filepath.Join(dir, "root")
	authority := certs.NewAuthority(t, "files")
	one, two := authority.Issue(t, "one"), authority.Issue(t, "two")
	a := start(t, Options{})
	pair, roots := a.ask("file-cert:"+chain+"~"+key), a.ask("file-root:"+root)
	replace(t, key, one.Key)
	replace(t, chain, one.Certificate)
	replace(t, root, authority.PEM)
	got, gotKey := pair.pair()
	require.Equal(t, "one", got[0].DNSNames[0])
	require.Equal(t, one.Key, string(gotKey))
	require.Equal(t, authority.PEM, roots.roots())

	replace(t, chain, two.Certificate) // the other's key: nothing changes
	replace(t, key, two.Key)
	got, gotKey = pair.pair()
	require.Equal(t, "two", got[0].DNSNames[0])
	require.Equal(t, two.Key, string(gotKey))

	a.ask("kubernetes://secret")
	a.ask("file-cert:" + chain)
	a.awaitLog("that no agent has", 2)
}

func TestMountedCertificates(t *testing.T) {
	dir := t.TempDir()
	f := filesIn(dir)
	authority := certs.NewAuthority(t, "files")
	one := authority.Issue(t, "one", certs.Identity(identity))
	replace(t, f.Chain, one.Certificate)
	replace(t, f.Key, one.Key)
	replace(t, f.Root, authority.PEM)
	a := start(t, Options{Mounted: f})
	require.Equal(t, authority.PEM, a.ask("ROOTCA").roots())
	chain, _ := a.ask("default").pair()
	require.Equal(t, identity, chain[0].URIs[0].String())
	require.NotNil(t, a.manager.Certificate())
}

func TestOutputIsWritten(t *testing.T) {
	dir := t.TempDir()
	f := filesIn(dir)
	keys := newRoot(t, "mesh")
	c := startCA(t, keys)
	a := start(t, Options{CA: c.connect(t), Output: f, Request: Request{TTL: time.Hour}})
	a.ask("default").pair()
	require.Eventually(t, func() bool { _, err := os.Stat(f.Root); return err == nil }, patience, time.Millisecond)
	pair, err := tls.LoadX509KeyPair(f.Chain, f.Key)
	require.NoError(t, err)
	require.Equal(t, identity, pair.Leaf.URIs[0].String())
	root, err := os.ReadFile(f.Root)
	require.NoError(t, err)
	require.Equal(t, string(keys.Roots), string(root))
	info, err := os.Stat(f.Key)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode())
}

func TestAnswersThatAreRefused(t *testing.T) {
	r := Request{Identity: identity}
	key, err := r.newKey()
	require.NoError(t, err)
	csr, err := r.csr(key)
	require.NoError(t, err)
	a := authority(t, newRoot(t, "mesh"))
	sign := func(id string) [][]byte {
		who, err := ca.ParseIdentity(id)
		require.NoError(t, err)
		request := Request{Identity: id}
		csr := csr
		if id != identity {
			csr, err = request.csr(key)
			require.NoError(t, err)
		}
		chain, err := a.Sign(csr, ca.Request{Identity: who, TTL: time.Hour, Now: time.Now()})
		require.NoError(t, err)
		parts := make([][]byte, 0, len(chain))
		for _, part := range chain {
			parts = append(parts, []byte(part))
		}
		return parts
	}
	good := sign(identity)
	got, err := r.accept(good, key)
	require.NoError(t, err)
	require.Equal(t, good[len(good)-1], got.roots)
	other, err := r.newKey()
	require.NoError(t, err)
	for want, attempt := range map[string]func() error{
		"for another key":                 func() error { _, err := r.accept(good, other); return err },
		"want a certificate and its root": func() error { _, err := r.accept(good[:1], key); return err },
		"there is no certificate":         func() error { _, err := r.accept([][]byte{[]byte("x")}, key); return err },
		"the certificate is for [spiffe://cluster.local/ns/shop/sa/others]": func() error {
			_, err := r.accept(sign("spiffe://cluster.local/ns/shop/sa/others"), key)
			return err
		},
		"unknown authority": func() error {
			_, err := r.accept([][]byte{good[0], newRoot(t, "another").Roots}, key)
			return err
		},
	} {
		require.ErrorContains(t, attempt(), want)
	}
}

// TestUnknownRevocationsKeepRootsBack has a file of which nobody can tell what it revokes: peers
// wait rather than that a revoked one gets in.
func TestUnknownRevocationsKeepRootsBack(t *testing.T) {
	keys := newRoot(t, "root")
	c := startCA(t, keys)
	clock := newTestClock()
	revoked := filepath.Join(t.TempDir(), "ca-crl.pem")
	require.NoError(t, os.WriteFile(revoked, []byte("lists"), 0o600))
	a := start(t, Options{
		CA: c.connect(t), RootFile: c.roots, RevokedFile: revoked,
		Request: Request{TTL: time.Hour}, Clock: clock.clock(),
	})
	a.awaitLog("part 1 is no list of revoked certificates", 1)
	a.ask(ownName).pair()
	waiting, _ := a.manager.secrets.get(map[string]string{rootsName: ""})
	require.Empty(t, waiting)
	roots := a.ask(rootsName)
	list := listOf(t, keys)
	require.NoError(t, os.WriteFile(revoked, list, 0o600))
	require.Eventually(t, func() bool {
		clock.move(time.Second) // whoever follows the file may have gone to sleep later
		served, _ := a.manager.secrets.get(map[string]string{rootsName: ""})
		return len(served) == 1
	}, patience, time.Millisecond)
	context := roots.next().GetValidationContext()
	require.Equal(t, string(list), string(context.GetCrl().GetInlineBytes()))
	require.NotEmpty(t, context.GetTrustedCa().GetInlineBytes())
}
