package apiserver

import (
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lateen-mesh/lateen/internal/testkit/lateenserve"
	"github.com/lateen-mesh/lateen/internal/testkit/leanproxy"
)

// TestOutageOfTheAPIServerSendsNothingAgain lets one mesh live through everything that befalls an
// API server. What has not changed is not sent again, whatever happens: that is counted, not
// estimated.
func TestOutageOfTheAPIServerSendsNothingAgain(t *testing.T) {
	m := start(t)
	for _, c := range []struct {
		name string
		test func(*mesh)
	}{
		{"an outage", (*mesh).outage},
		{"changes during an outage", (*mesh).changedMeanwhile},
		{"broken connections", (*mesh).severed},
		{"history that has expired", (*mesh).expired},
		{"slow answers", (*mesh).slow},
		{"a control plane that starts during an outage", (*mesh).late},
	} {
		if !t.Run(c.name, func(t *testing.T) {
			of := *m
			of.t = t
			c.test(&of)
			m.markers = of.markers
		}) {
			return
		}
	}
}

// outage: proxies keep what they have, new ones get the last known state, and afterwards all lists
// are read again for nothing.
func (m *mesh) outage() {
	mark := m.mark()
	m.api.Stop(m.t)
	over := time.After(*outage)
	eventually(m.t, "the outage is reported", func() bool { return m.says("does not answer") })
	fresh := m.connect(m.lateen, "client-fresh")
	require.Equal(m.t, versions(m.proxies[0]), versions(fresh), "a new proxy gets the last known state")
	<-over
	require.Empty(m.t, m.sent(mark))
	m.api.Restart(m.t)
	eventually(m.t, "the outage is over", func() bool { return !m.says("does not answer") })
	m.only(mark, m.marker())
}

// changedMeanwhile: what changed while nobody watched is sent, once, and nothing else.
func (m *mesh) changedMeanwhile() {
	mark := m.mark()
	m.api.Stop(m.t)
	m.put("web-3", "10.9.9.9")
	m.api.Restart(m.t)
	for _, p := range m.proxies {
		p.Await(m.t, "the endpoint that moved", func(s *leanproxy.State) bool {
			return s.Hosts(cluster("web-3")) == "10.9.9.9:80"
		})
	}
	m.only(mark, m.marker(), "web-3")
}

// put changes the endpoint of a service where the API server is not asked.
func (m *mesh) put(service, address string) {
	m.t.Helper()
	s := slice(service, address)
	s.TypeMeta = metav1.TypeMeta{APIVersion: "discovery.k8s.io/v1", Kind: "EndpointSlice"}
	s.UID = "d9e1b9a2-0000-4000-8000-000000000001"
	object, err := json.Marshal(s)
	require.NoError(m.t, err)
	m.api.Put(m.t, "/registry/endpointslices/"+namespace+"/"+s.Name, object)
}

// severed: watches go on where they were.
func (m *mesh) severed() {
	mark := m.mark()
	for range 3 {
		m.api.Sever()
	}
	eventually(m.t, "the test's own client has a new connection", func() bool {
		_, err := m.core.CoreV1().Namespaces().List(m.t.Context(), metav1.ListOptions{})
		return err == nil
	})
	m.only(mark, m.marker())
}

// expired: etcd has forgotten what watches would go on from, and the API server says so.
func (m *mesh) expired() {
	ctx := m.t.Context()
	before, err := m.core.CoreV1().Services(namespace).List(ctx, metav1.ListOptions{})
	require.NoError(m.t, err)
	m.marker()
	mark := m.mark()
	m.api.Stop(m.t)
	m.put("web-4", "10.1.0.5") // as it was: the history goes on, and nothing has changed
	m.api.Compact(m.t)
	m.api.Restart(m.t)
	watch, err := m.core.CoreV1().Services(namespace).Watch(ctx,
		metav1.ListOptions{ResourceVersion: before.ResourceVersion})
	if err == nil {
		err = apierrors.FromObject((<-watch.ResultChan()).Object)
		watch.Stop()
	}
	require.True(m.t, apierrors.IsResourceExpired(err) || apierrors.IsGone(err), "%v", err)
	m.only(mark, m.marker())
}

// slow: what is known is served at once, and changes arrive all the same.
func (m *mesh) slow() {
	mark := m.mark()
	m.api.Slow(300 * time.Millisecond)
	defer m.api.Slow(0)
	fresh := m.connect(m.lateen, "client-slow")
	require.Equal(m.t, versions(m.proxies[0]), versions(fresh))
	m.only(mark, m.marker())
}

// late: a control plane that knows nothing says nothing, and needs nobody to start it again.
func (m *mesh) late() {
	m.api.Stop(m.t)
	second := lateenserve.Start(m.t, m.serve())
	waiting := m.dial(second, "client-late")
	require.False(m.t, ready(m.t, second))
	m.api.Restart(m.t)
	waiting.AwaitSynced(m.t)
	require.True(m.t, ready(m.t, second))
	waiting.Look(func(s *leanproxy.State) { require.NotEmpty(m.t, s.Names(leanproxy.Cluster)) })
	require.Equal(m.t, versions(m.proxies[0]), versions(waiting), "two control planes agree byte for byte")
}

func ready(t *testing.T, lateen *lateenserve.Process) bool {
	t.Helper()
	response, err := http.Get("http://" + lateen.Monitoring + "/ready")
	require.NoError(t, err)
	defer http.DefaultClient.CloseIdleConnections()
	require.NoError(t, response.Body.Close())
	return response.StatusCode == http.StatusOK
}

func versions(p *leanproxy.Client) (all map[string]string) {
	p.Look(func(s *leanproxy.State) { all = s.Versions() })
	return all
}
