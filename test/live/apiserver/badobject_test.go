package apiserver

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	networking "istio.io/api/networking/v1alpha3"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lateen-mesh/lateen/internal/testkit/certs"
	"github.com/lateen-mesh/lateen/internal/testkit/lateenserve"
	"github.com/lateen-mesh/lateen/internal/testkit/leanproxy"
)

// TestBadObjectsAreRefusedAlone are objects that are in the API server because no webhook was there
// to refuse them. Each is refused alone, said by name, and disturbs nothing; two replicas of the
// control plane make the same of it. A large one is not bad. Then gateways live through Secrets
// that are.
func TestBadObjectsAreRefusedAlone(t *testing.T) {
	m := start(t, "--write")
	second := lateenserve.Start(t, m.serve())
	m.proxies = append(m.proxies, m.connect(second, "client-elsewhere"))
	for _, c := range []struct {
		name, object string
		put, mend    func(*mesh)
	}{
		{"a regular expression that cannot compile", "VirtualService web-1", func(m *mesh) {
			m.virtualService("web-1", []*networking.HTTPRoute{
				{Match: []*networking.HTTPMatchRequest{{Uri: regex("/a(b")}}},
			})
		}, func(m *mesh) { m.remove("web-1") }},
		{"an address that is none", "EndpointSlice web-2", func(m *mesh) {
			m.put("web-2", "nowhere")
		}, func(m *mesh) { m.put("web-2", "10.1.0.3") }},
		{"a timeout below zero", "VirtualService web-5", func(m *mesh) {
			m.virtualService("web-5", []*networking.HTTPRoute{{Retries: &networking.HTTPRetry{Attempts: -1}}})
		}, func(m *mesh) { m.remove("web-5") }},
		{"a Secret of garbage", "Secret pair", func(m *mesh) {
			m.secret("pair", "garbage", "garbage")
		}, func(m *mesh) { m.noSecret("pair") }},
		{"a certificate that has ended", "Secret ended", func(m *mesh) {
			ended := certs.NewAuthority(m.t, "authority").Issue(m.t, "a.test",
				certs.Valid(time.Now().Add(-time.Hour), time.Now().Add(-time.Minute)))
			m.secret("ended", ended.Certificate, ended.Key)
		}, func(m *mesh) { m.noSecret("ended") }},
		{"the key of another certificate", "Secret crossed", func(m *mesh) {
			a := certs.NewAuthority(m.t, "authority")
			m.secret("crossed", a.Issue(m.t, "a.test").Certificate, a.Issue(m.t, "b.test").Key)
		}, func(m *mesh) { m.noSecret("crossed") }},
	} {
		t.Run(c.name, func(t *testing.T) {
			of := *m
			of.t = t
			kind, name, _ := strings.Cut(c.object, " ")
			before := unconcerned(of.proxies[0], name)
			c.put(&of)
			for _, replica := range []*lateenserve.Process{of.lateen, second} {
				eventually(t, c.object+" is reported", func() bool {
					return contains(problemsOf(t, replica), c.object)
				})
				eventually(t, "and counted", func() bool { return replica.Metrics(t).Sum("lateen_problems") == 1 })
			}
			if kind == "VirtualService" {
				of.marked(name)
			}
			of.marker()
			of.agree(second)
			after := unconcerned(of.proxies[0], name)
			for name, version := range before {
				require.Equal(t, version, after[name], "%s is as it was", name)
			}
			c.mend(&of)
			for _, replica := range []*lateenserve.Process{of.lateen, second} {
				eventually(t, c.object+" is no longer reported", func() bool {
					return !contains(problemsOf(t, replica), c.object)
				})
			}
			of.marker() // the next case begins with what the proxies have of the mended object
			m.markers = of.markers
		})
	}
	t.Run("ten thousand routes", func(t *testing.T) {
		of := *m
		of.t = t
		of.large()
		of.agree(second)
		m.markers = of.markers
	})
	require.Empty(t, m.problems())
	m.gateways(second)
}

// marked waits until a VirtualService says in its status that it is not in force.
func (m *mesh) marked(virtualService string) {
	m.t.Helper()
	eventually(m.t, "a condition of VirtualService "+virtualService, func() bool {
		v, err := m.istio.NetworkingV1().VirtualServices(namespace).Get(m.t.Context(), virtualService,
			metav1.GetOptions{})
		return err == nil && says(v.Status.GetConditions(), []string{"spec.http[0]"})
	})
}

// agree waits until the proxies of both replicas have the same, byte for byte, and checks that the
// replicas say the same.
func (m *mesh) agree(second *lateenserve.Process) {
	m.t.Helper()
	eventually(m.t, "the proxies of both replicas have the same", func() bool {
		return maps.Equal(versions(m.proxies[0]), versions(m.proxies[len(m.proxies)-1]))
	})
	eventually(m.t, "the replicas say the same", func() bool {
		return slices.Equal(m.problems(), problemsOf(m.t, second))
	})
}

// secret creates one of type kubernetes.io/tls.
func (m *mesh) secret(name, certificate, key string) {
	m.t.Helper()
	_, err := m.core.CoreV1().Secrets(namespace).Create(m.t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Type: corev1.SecretTypeTLS,
		StringData: map[string]string{corev1.TLSCertKey: certificate, corev1.TLSPrivateKeyKey: key},
	}, metav1.CreateOptions{})
	require.NoError(m.t, err)
}

func (m *mesh) noSecret(name string) {
	m.t.Helper()
	require.NoError(m.t, m.core.CoreV1().Secrets(namespace).Delete(m.t.Context(), name, metav1.DeleteOptions{}))
}

func regex(s string) *networking.StringMatch {
	return &networking.StringMatch{MatchType: &networking.StringMatch_Regex{Regex: s}}
}

func (m *mesh) remove(virtualService string) {
	m.t.Helper()
	err := m.istio.NetworkingV1().VirtualServices(namespace).Delete(m.t.Context(), virtualService,
		metav1.DeleteOptions{})
	require.NoError(m.t, err)
}

// unconcerned are the versions of what a mistake about a service may not touch: all but its own
// endpoints and virtual host.
func unconcerned(p *leanproxy.Client, service string) map[string]string {
	all := versions(p)
	delete(all, string(leanproxy.Endpoint)+"/"+cluster(service))
	delete(all, string(leanproxy.VirtualHost)+"/"+virtualHost(service))
	return all
}

// says tells whether one of the problems that are reported now contains a text.
func (m *mesh) says(text string) bool { return contains(m.problems(), text) }

func contains(problems []problem, text string) bool {
	for _, p := range problems {
		if strings.Contains(fmt.Sprintf("%s %s: %s", p.Kind, p.Name, p.Text), text) {
			return true
		}
	}
	return false
}

// large: a VirtualService with 10,000 routes, close to the 1.5 MB that etcd takes, is served, and
// changes of others go on.
func (m *mesh) large() {
	routes := make([]*networking.HTTPRoute, 10000)
	for i := range routes {
		routes[i] = &networking.HTTPRoute{Name: fmt.Sprintf("route-%d", i), Match: []*networking.HTTPMatchRequest{{
			Uri: &networking.StringMatch{MatchType: &networking.StringMatch_Prefix{Prefix: fmt.Sprintf("/%05d", i)}},
		}}}
	}
	m.virtualService("web-6", routes)
	for _, p := range m.proxies {
		p.Await(m.t, "the last of many routes", func(s *leanproxy.State) bool { return s.HasRoute("route-9999") })
	}
	mark := m.mark()
	m.only(mark, m.marker())
}
