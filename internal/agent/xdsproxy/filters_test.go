package xdsproxy

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/lateen-mesh/lateen/internal/xds/typeurl"
)

// moduleFilters fetches filters of the type "module". The test says what comes of each attempt.
type moduleFilters struct {
	attempts chan attempt

	mu    sync.Mutex
	given []string // "filter type", and "-filter" of those that are gone
}

type attempt struct {
	filter string // and its value
	result chan error
}

const fakeType = "type.googleapis.com/"

func newModuleFilters() *moduleFilters { return &moduleFilters{attempts: make(chan attempt, 64)} }

func filterIn(resource []byte) *corev3.TypedExtensionConfig {
	f := &corev3.TypedExtensionConfig{}
	if proto.Unmarshal(resource, f) != nil {
		return nil
	}
	return f
}

func (m *moduleFilters) Fetches(resource []byte) bool {
	return filterIn(resource).GetTypedConfig().GetTypeUrl() == fakeType+"module"
}

func (m *moduleFilters) Rewrite(ctx context.Context, resource []byte) ([]byte, error) {
	f := filterIn(resource)
	a := attempt{f.GetName() + string(f.GetTypedConfig().GetValue()), make(chan error, 1)}
	var err error
	select {
	case m.attempts <- a:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	select {
	case err = <-a.result:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	f.TypedConfig.TypeUrl = fakeType + "fetched"
	if err != nil {
		f.TypedConfig.TypeUrl = fakeType + "fallback"
	}
	out, _ := proto.Marshal(f)
	return out, err
}

func (m *moduleFilters) Given(resource []byte) {
	f := filterIn(resource)
	m.note(f.GetName() + " " + strings.TrimPrefix(f.GetTypedConfig().GetTypeUrl(), fakeType))
}

func (m *moduleFilters) Gone(name string) { m.note("-" + name) }

func (m *moduleFilters) note(text string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.given = append(m.given, text)
}

func (m *moduleFilters) noted() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]string(nil), m.given...)
}

// filterResponse has filters, each "name type value".
func filterResponse(t *testing.T, nonce string, filters ...string) *discoveryv3.DeltaDiscoveryResponse {
	out := &discoveryv3.DeltaDiscoveryResponse{TypeUrl: typeurl.Filter, Nonce: nonce, SystemVersionInfo: "s"}
	for _, filter := range filters {
		part := strings.Split(filter+"  ", " ")
		packed, err := anypb.New(&corev3.TypedExtensionConfig{
			Name: part[0], TypedConfig: &anypb.Any{TypeUrl: fakeType + part[1], Value: []byte(part[2])},
		})
		require.NoError(t, err)
		out.Resources = append(out.Resources, &discoveryv3.Resource{Name: part[0], Version: "1", Resource: packed})
	}
	return out
}

// filtersOf are the filters of a response, each "name type value".
func filtersOf(t *testing.T, r *discoveryv3.DeltaDiscoveryResponse) (all []string) {
	for _, of := range r.GetResources() {
		f := &corev3.TypedExtensionConfig{}
		require.NoError(t, of.GetResource().UnmarshalTo(f))
		require.Equal(t, of.GetName(), f.GetName())
		typ := strings.TrimPrefix(f.GetTypedConfig().GetTypeUrl(), fakeType)
		require.Equal(t, typ == "fallback", of.GetVersion() != "1", of.GetVersion())
		all = append(all, strings.TrimSpace(f.GetName()+" "+typ+" "+string(f.GetTypedConfig().GetValue())))
	}
	return all
}

// filterStream is an Envoy that has asked for filters.
func filterStream(t *testing.T, m *moduleFilters, change ...proxyOptions) (*running, envoy, *upstream) {
	c := startControlPlane(t, "127.0.0.1:0")
	change = append(change, func(o *Options) { o.Filters = m })
	p := startProxy(t, c.address, change...)
	e := p.envoy()
	e.ask(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: typeurl.Filter})
	u := c.accept()
	u.next()
	return p, e, u
}

func retryAfter(d time.Duration) proxyOptions { return func(o *Options) { o.FilterRetry = d } }

func TestModulesHoldUpNothingElse(t *testing.T) {
	m := newModuleFilters()
	_, e, u := filterStream(t, m)
	u.give(filterResponse(t, "1", "a module 1", "policies plain 1", "b module 1"))
	first := e.next()
	require.Equal(t, []string{"policies plain 1"}, filtersOf(t, first))
	require.Equal(t, "1", first.GetNonce())
	require.Equal(t, "s", first.GetSystemVersionInfo())
	attempts := map[string]chan error{}
	for range 2 {
		a := receive(t, m.attempts)
		attempts[a.filter] = a.result
	}
	u.give(filterResponse(t, "2", "policies plain 2"))
	require.Equal(t, []string{"policies plain 2"}, filtersOf(t, e.next()))
	u.give(filterResponse(t, "3", "c module 1"))
	third := e.next()
	require.Empty(t, filtersOf(t, third), "the control plane waits for an answer")
	require.Equal(t, "3", third.GetNonce())
	receive(t, m.attempts).result <- nil
	require.Equal(t, []string{"c fetched 1"}, filtersOf(t, e.next()))
	u.give(&discoveryv3.DeltaDiscoveryResponse{TypeUrl: typeurl.Cluster, Nonce: "4"})
	require.Equal(t, "4", e.next().GetNonce())
	attempts["b1"] <- nil
	require.Equal(t, []string{"b fetched 1"}, filtersOf(t, e.next()))
	attempts["a1"] <- nil
	last := e.next()
	require.Equal(t, []string{"a fetched 1"}, filtersOf(t, last))
	require.True(t, isOwnNonce(last.GetNonce()))
}

func TestFiltersThatFailAreTriedAgain(t *testing.T) {
	m := newModuleFilters()
	_, e, u := filterStream(t, m, retryAfter(1))
	u.give(filterResponse(t, "1", "a module 1"))
	e.next()
	receive(t, m.attempts).result <- errors.New("there is no registry")
	require.Equal(t, []string{"a fallback 1"}, filtersOf(t, e.next()))
	receive(t, m.attempts).result <- errors.New("there is no registry")
	receive(t, m.attempts).result <- nil
	again := e.next()
	require.Equal(t, []string{"a fetched 1"}, filtersOf(t, again))

	// The control plane has not sent it: it is told what else the request says alone.
	e.ack(again)
	e.ask(&discoveryv3.DeltaDiscoveryRequest{
		TypeUrl: typeurl.Filter, ResponseNonce: again.GetNonce(), ResourceNamesSubscribe: []string{"other"},
	})
	q := u.next()
	require.Empty(t, q.GetResponseNonce())
	require.Equal(t, []string{"other"}, q.GetResourceNamesSubscribe())
}

// What was replaced or removed is neither delivered, though an attempt was under way, nor tried any
// more.
func TestAnOlderFilterTakesNoPlaceOfANewerOne(t *testing.T) {
	removal := filterResponse(t, "2")
	removal.RemovedResources = []string{"a"}
	for name, c := range map[string]struct {
		newer *discoveryv3.DeltaDiscoveryResponse
		want  []string
	}{
		"a filter without a module": {filterResponse(t, "2", "a deny 2"), []string{"a deny 2"}},
		"none":                      {removal, nil},
		"another module":            {filterResponse(t, "2", "a module 2"), nil},
	} {
		for _, failsBefore := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				m := newModuleFilters()
				_, e, u := filterStream(t, m, retryAfter(1))
				u.give(filterResponse(t, "1", "a module 1"))
				e.next()
				old := receive(t, m.attempts)
				if failsBefore {
					old.result <- errors.New("there is no registry")
					require.Equal(t, []string{"a fallback 1"}, filtersOf(t, e.next()))
					old = receive(t, m.attempts)
				}
				u.give(c.newer)
				require.Equal(t, c.want, filtersOf(t, e.next()))
				old.result <- nil
				if c.newer.GetResources() != nil && c.want == nil {
					newer := receive(t, m.attempts)
					require.Equal(t, "a2", newer.filter)
					newer.result <- nil
					require.Equal(t, []string{"a fetched 2"}, filtersOf(t, e.next()))
				}
				u.give(filterResponse(t, "3", "b plain"))
				require.Equal(t, []string{"b plain"}, filtersOf(t, e.next()))
				select {
				case a := <-m.attempts:
					require.Fail(t, "tried again", a.filter)
				case <-time.After(20 * time.Millisecond):
				}
			})
		}
	}
}

func TestReplacedFiltersAreTriedNoMore(t *testing.T) {
	m := newModuleFilters()
	_, e, u := filterStream(t, m, retryAfter(10*time.Millisecond))
	u.give(filterResponse(t, "1", "a module 1", "b module 1"))
	e.next()
	for range 2 {
		receive(t, m.attempts).result <- errors.New("there is no registry")
		e.next()
	}
	u.give(filterResponse(t, "2", "a deny 2"))
	require.Equal(t, []string{"a deny 2"}, filtersOf(t, e.next()))
	e.ask(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: typeurl.Filter, ResourceNamesUnsubscribe: []string{"b"}})
	u.next()
	for range 2 { // those that had begun
		select {
		case a := <-m.attempts:
			a.result <- errors.New("there is no registry")
		case <-time.After(100 * time.Millisecond):
		}
	}
	select {
	case a := <-m.attempts:
		require.Fail(t, "tried again", a.filter)
	case <-time.After(100 * time.Millisecond):
	}
	require.Contains(t, m.noted(), "-b")
}

func TestOtherResponsesDelayNoAttempt(t *testing.T) {
	m := newModuleFilters()
	_, e, u := filterStream(t, m, retryAfter(100*time.Millisecond))
	same := filterResponse(t, "1", "a module 1", "policies plain")
	u.give(same)
	e.next()
	receive(t, m.attempts).result <- errors.New("there is no registry")
	e.next()
	require.Eventually(t, func() bool {
		u.give(same)
		require.Equal(t, []string{"policies plain"}, filtersOf(t, e.next()))
		return len(m.attempts) > 0
	}, patience, time.Millisecond)
}

func TestRefusalsOfTheAgentsOwnResponsesAreCounted(t *testing.T) {
	m := newModuleFilters()
	p, e, u := filterStream(t, m)
	u.give(filterResponse(t, "1", "a module 1"))
	e.next()
	receive(t, m.attempts).result <- nil
	own := e.next()
	e.ask(&discoveryv3.DeltaDiscoveryRequest{
		TypeUrl: typeurl.Filter, ResponseNonce: own.GetNonce(), ErrorDetail: &status.Status{Message: "no module"},
		ResourceNamesSubscribe: []string{"other"},
	})
	require.Nil(t, u.next().GetErrorDetail(), "the control plane has not sent it")
	require.Equal(t, int64(1), p.proxy.Stats().RefusedFilters)
}

// Whoever keeps modules is told which ones are in force.
func TestFiltersInForceAreTold(t *testing.T) {
	m := newModuleFilters()
	file := filepath.Join(t.TempDir(), "last")
	p, e, u := filterStream(t, m, withCache(file))
	u.give(filterResponse(t, "1", "a module 1", "b plain"))
	e.ack(e.next())
	u.next()
	require.Equal(t, []string{"b plain"}, m.noted())
	receive(t, m.attempts).result <- nil
	e.ack(e.next())
	removal := filterResponse(t, "2")
	removal.RemovedResources = []string{"b"}
	u.give(removal)
	e.ack(e.next())
	u.next()
	require.Equal(t, []string{"b plain", "a fetched", "-b"}, m.noted())
	p.cancel()

	kept := newModuleFilters()
	startProxy(t, "127.0.0.1:1", withCache(file), func(o *Options) { o.Filters = kept })
	require.Equal(t, []string{"a fetched"}, kept.noted())
}
