package apiserver

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1alpha1 "istio.io/api/meta/v1alpha1"
	networkingv1 "istio.io/client-go/pkg/apis/networking/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/lateen-mesh/lateen/internal/testkit/certs"
	"github.com/lateen-mesh/lateen/internal/testkit/lateenserve"
)

// tenant is a namespace that has its own gateway, its own hosts, and a service behind them that
// says the namespace's name.
type tenant struct {
	*gateway
	authority *certs.Authority
}

// tenant makes one. Its gateway terminates TLS for <namespace>.test at port 8443 (Secret "own"),
// for clients with a certificate at 8444 (Secret "mutual", authorities in "mutual-cacert"), and
// takes requests in plaintext at 8080; never.<namespace>.test at port 8443 has a Secret that was
// garbage from the start.
func (m *mesh) tenant(replica *lateenserve.Process, namespace, address string) *tenant {
	m.t.Helper()
	o := &tenant{gateway: m.runGateway(replica, namespace, address), authority: certs.NewAuthority(m.t, namespace)}
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, namespace)
	}))
	m.t.Cleanup(backend.Close)
	_, port, err := net.SplitHostPort(strings.TrimPrefix(backend.URL, "http://"))
	require.NoError(m.t, err)
	o.put(m.t, "own", pairOf(o.issue(m.t)))
	o.put(m.t, "mutual", pairOf(o.issue(m.t)))
	o.put(m.t, "mutual-cacert", authorities(o.authority))
	o.put(m.t, "never", garbage())
	var entry networkingv1.ServiceEntry
	read(m.t, &entry, fmt.Sprintf(`
metadata: {name: backend}
spec:
  hosts: [backend.%s.test]
  ports: [{number: 80, name: http, protocol: HTTP}]
  resolution: STATIC
  endpoints: [{address: 127.0.0.1, ports: {http: %s}}]
`, namespace, port))
	_, err = m.istio.NetworkingV1().ServiceEntries(namespace).Create(m.t.Context(), &entry, metav1.CreateOptions{})
	require.NoError(m.t, err)
	var wayIn networkingv1.Gateway
	read(m.t, &wayIn, fmt.Sprintf(`
metadata: {name: way-in}
spec:
  selector: {app: %[1]s-gateway}
  servers:
  - {port: {number: 8080, name: http, protocol: HTTP}, hosts: [%[1]s.test]}
  - {port: {number: 8443, name: https, protocol: HTTPS}, hosts: [%[1]s.test], tls: {mode: SIMPLE, credentialName: own}}
  - {port: {number: 8443, name: never, protocol: HTTPS}, hosts: [never.%[1]s.test],
     tls: {mode: SIMPLE, credentialName: never}}
  - {port: {number: 8444, name: mutual, protocol: HTTPS}, hosts: [%[1]s.test],
     tls: {mode: MUTUAL, credentialName: mutual}}
`, namespace))
	_, err = m.istio.NetworkingV1().Gateways(namespace).Create(m.t.Context(), &wayIn, metav1.CreateOptions{})
	require.NoError(m.t, err)
	var routes networkingv1.VirtualService
	read(m.t, &routes, fmt.Sprintf(`
metadata: {name: routes}
spec:
  hosts: ["*"]
  gateways: [way-in]
  http: [{route: [{destination: {host: backend.%s.test}}]}]
`, namespace))
	_, err = m.istio.NetworkingV1().VirtualServices(namespace).Create(m.t.Context(), &routes, metav1.CreateOptions{})
	require.NoError(m.t, err)
	return o
}

func read(t *testing.T, into any, text string) {
	t.Helper()
	require.NoError(t, yaml.Unmarshal([]byte(text), into))
}

// issue makes a certificate of the tenant's host.
func (o *tenant) issue(t *testing.T) certs.Pair { return o.authority.Issue(t, o.namespace+".test") }

func pairOf(p certs.Pair) map[string]string {
	return map[string]string{corev1.TLSCertKey: p.Certificate, corev1.TLSPrivateKeyKey: p.Key}
}

func garbage() map[string]string {
	return map[string]string{corev1.TLSCertKey: "garbage", corev1.TLSPrivateKeyKey: "garbage"}
}

func authorities(all ...*certs.Authority) map[string]string {
	text := ""
	for _, a := range all {
		text += a.PEM
	}
	return map[string]string{"ca.crt": text}
}

// put creates a Secret, or puts something else into it as whoever renews certificates does.
func (o *tenant) put(t *testing.T, name string, data map[string]string) {
	t.Helper()
	secrets := o.m.core.CoreV1().Secrets(o.namespace)
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}, Type: corev1.SecretTypeOpaque, StringData: data}
	if data[corev1.TLSCertKey] != "" {
		s.Type = corev1.SecretTypeTLS
	}
	if _, err := secrets.Get(t.Context(), name, metav1.GetOptions{}); err == nil {
		_, err = secrets.Update(t.Context(), s, metav1.UpdateOptions{})
		require.NoError(t, err)
		return
	}
	_, err := secrets.Create(t.Context(), s, metav1.CreateOptions{})
	require.NoError(t, err)
}

// ask sends a request in TLS over a connection of its own, and returns what was answered and the
// certificate that was shown.
func (o *tenant) ask(port int, host string, shown ...tls.Certificate) (body, serial string, err error) {
	return ask("https://"+host, o.at(port),
		&tls.Config{RootCAs: o.authority.Pool(), Certificates: shown, MinVersion: tls.VersionTLS12})
}

// ask sends a request to an address, whatever its URL says.
func ask(url, address string, config *tls.Config) (body, serial string, err error) {
	client := http.Client{Timeout: time.Minute, Transport: &http.Transport{
		DisableKeepAlives: true, TLSClientConfig: config,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "tcp", address)
		},
	}}
	response, err := client.Get(url)
	if err != nil {
		return "", "", err
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("status %d", response.StatusCode)
	}
	if response.TLS != nil {
		serial = response.TLS.PeerCertificates[0].SerialNumber.String()
	}
	return string(text), serial, err
}

// shows waits until new connections get a certificate.
func (o *tenant) shows(t *testing.T, want certs.Pair) {
	t.Helper()
	eventually(t, "the next certificate", func() bool {
		_, serial, err := o.ask(8443, o.namespace+".test")
		return err == nil && serial == want.Serial
	})
}

// load asks again and again, each time over a new connection, until it is stopped; then it requires
// that no request failed.
func load(t *testing.T, ask func() error) (stop func()) {
	var (
		running sync.WaitGroup
		sent    int
		failed  []error
	)
	ended := make(chan struct{})
	running.Go(func() {
		for {
			sent++
			if err := ask(); err != nil {
				failed = append(failed, err)
			}
			select {
			case <-ended:
				return
			default:
			}
		}
	})
	end := sync.OnceFunc(func() { close(ended); running.Wait() })
	t.Cleanup(end)
	return func() {
		t.Helper()
		end()
		require.Empty(t, failed, "of %d requests", sent)
	}
}

// says waits until the Gateway's condition names these mistakes, one each; none means that all of
// it is in force.
func (o *tenant) says(t *testing.T, mistakes ...string) {
	t.Helper()
	eventually(t, fmt.Sprintf("a condition of Gateway %s/way-in: %q", o.namespace, mistakes), func() bool {
		g, err := o.m.istio.NetworkingV1().Gateways(o.namespace).Get(t.Context(), "way-in", metav1.GetOptions{})
		if err != nil {
			return false
		}
		return says(g.Status.GetConditions(), mistakes)
	})
}

func says(conditions []*metav1alpha1.IstioCondition, mistakes []string) bool {
	for _, c := range conditions {
		if c.GetType() != "Accepted" {
			continue
		}
		for _, w := range mistakes {
			if !strings.Contains(c.GetMessage(), w) {
				return false
			}
		}
		return (c.GetStatus() == "True") == (len(mistakes) == 0) &&
			len(mistakes) == strings.Count(c.GetMessage(), "error: ")
	}
	return false
}
