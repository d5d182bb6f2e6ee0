package cluster

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/lateen-mesh/lateen/internal/testkit/livemesh"
)

// life is how long the certificates of Pods live here. They are renewed after half of it.
const life = 14 * time.Second

// TestTrustByTraffic runs all scenarios of certificates on one cluster, one after the other, under
// STRICT: a request is answered only if both certificates are good. Each connection carries few
// requests, and no request is tried again, so a certificate that is bad for a moment fails some.
func TestTrustByTraffic(t *testing.T) {
	c := start(t)
	c.apply(t,
		secured(echo("client", "v1", 1), life), secured(echo("server", "v1", 1), life),
		livemesh.Service("server", "http:80:8080"), once("server"),
		livemesh.Object("PeerAuthentication default", "mtls: {mode: STRICT}"),
	)
	c.ready(t, "client-v1", "server-v1")
	for _, scenario := range []struct {
		name string
		run  func(*testing.T, *cluster)
	}{
		{"Rotation", certificatesRotate}, {"Expired", authorityExpires}, {"Replaced", authorityReplaced},
		{"Away", authorityAway}, {"Clock", clockOff},
	} {
		t.Run(scenario.name, func(t *testing.T) { scenario.run(t, c) })
	}
}

// secured is a Deployment whose proxies take mutual TLS, with certificates that live so long.
func secured(manifest string, lives time.Duration) string {
	return strings.NewReplacer(
		"metadata: {labels: {", "metadata: {labels: {security.istio.io/tlsMode: istio, ",
		"containers:\n", "containers:\n      - {name: istio-proxy, image: auto, env: [{name: SECRET_TTL, value: "+
			lives.String()+"}]}\n",
	).Replace(manifest)
}

// once lets a connection to a service carry few requests, and no request be tried again.
func once(host string) string {
	return livemesh.Object("DestinationRule "+host,
		"{host: "+host+", trafficPolicy: {connectionPool: {http: {maxRequestsPerConnection: 8}}}}") +
		livemesh.Object("VirtualService "+host,
			"hosts: ["+host+"]\nhttp:\n- {retries: {attempts: 0}, route: [{destination: {host: "+host+"}}]}")
}

// certificatesRotate lets the root come to its end under load: the next one is distributed, and
// signs. The certificates of caller and server are renewed meanwhile, and strangers ask for what
// they may not have.
func certificatesRotate(t *testing.T, c *cluster) {
	w := c.from(t, "app=client")
	pods := []corev1.Pod{c.pods(t, "app=client")[0], c.pods(t, "app=server")[0]}
	w.until(t, "http://server/", "an answer", again(20, w, "http://server/", ok))
	var before []*x509.Certificate
	for _, p := range pods {
		before = append(before, c.leaf(t, p))
	}
	l := w.steady(t, "http://server/", patience)
	c.ageRoot(t, 2*life)
	c.await(t, "both roots are distributed", func() bool { return len(c.distributedRoots(t)) == 2 })
	for i, p := range pods {
		c.await(t, p.Name+" has a certificate of the next root", func() bool {
			return !bytes.Equal(c.leaf(t, p).AuthorityKeyId, before[i].AuthorityKeyId)
		})
	}
	strangers(t, c)
	l.advance(t, 200)
	l.requireNone(t)
}

// authorityExpires plugs in an authority that expires within seconds. The certificates that it
// issued expire with it. The control plane, the agent and the caller's proxy log why. A valid
// authority restores service.
func authorityExpires(t *testing.T, c *cluster) {
	w := c.from(t, "app=client")
	client, server := c.pods(t, "app=client")[0], c.pods(t, "app=server")[0]
	c.apply(t, "\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: istio, namespace: "+rootNamespace+"}\n"+
		"data: {mesh: 'accessLogFile: /dev/stdout'}\n")
	top := c.signer(t)
	c.plug(t, top.intermediate(t, life/2+2*time.Second))
	w.until(t, "http://server/", "503", status(http.StatusServiceUnavailable))
	c.await(t, "the caller's proxy logs why", func() bool {
		_ = w.get("http://server/")
		return c.proxyLogs(t, client, "CERTIFICATE_VERIFY_FAILED")
	})
	c.await(t, "the control plane logs it", func() bool {
		return c.logs.has("the certificate authority has expired") &&
			c.logs.has("the authority's own certificate has expired at")
	})
	require.Less(t, value(t, c.plane.metrics.CA.ChainExpiry), float64(time.Now().Unix()))
	_, err := c.createCertificate(t, c.token(t), requestOf(t, newKey(t)))
	require.ErrorContains(t, err, "the authority's own certificate has expired at")
	c.await(t, "the agent logs it", func() bool {
		return c.proxyLogs(t, server, "the authority's own certificate has expired at")
	})
	c.plug(t, top.intermediate(t, 30*24*time.Hour))
	w.until(t, "http://server/", "answers", again(50, w, "http://server/", ok))
}

// authorityAway stops the control plane for longer than half a certificate's life. Requests between
// running Pods do not fail. An Envoy that was killed comes back with the certificate that it had; a
// Pod that starts meanwhile is ready only when the control plane is back.
func authorityAway(t *testing.T, c *cluster) {
	const lives = 36 * time.Second
	c.apply(t, secured(echo("patient", "v1", 1), lives), secured(echo("caller", "v1", 1), 24*time.Hour),
		livemesh.Service("patient", "http:80:8080"), once("patient"))
	c.ready(t, "patient-v1", "caller-v1")
	caller, client := c.from(t, "app=caller"), c.from(t, "app=client")
	patient, killed := c.pods(t, "app=patient")[0], c.pods(t, "app=client")[0]
	caller.until(t, "http://patient/", "an answer", again(20, caller, "http://patient/", ok))
	l := caller.steady(t, "http://patient/", patience)
	left := func() time.Duration {
		return time.Duration(c.agentMetric(t, patient, "istio_agent_cert_expiry_seconds") * float64(time.Second))
	}
	c.await(t, "the certificate is new", func() bool { return left() > lives*4/5 })
	c.plane.stop()
	renewed := left() - lives/2
	envoy := c.envoyOf(t, killed)
	require.NoError(t, syscall.Kill(envoy, syscall.SIGKILL))
	c.await(t, "another agent has started another Envoy", func() bool { return c.envoyOf(t, killed) != envoy })
	client.until(t, "http://patient/", "an answer of the one that was killed, with no control plane",
		again(20, client, "http://patient/", ok))
	c.apply(t, secured(echo("late", "v1", 1), 24*time.Hour))
	c.await(t, "renewals fail, and more than half of the life has passed", func() bool {
		return c.agentMetric(t, patient, "istio_agent_num_failed_outgoing_requests") > 0 && left() < renewed
	})
	require.Empty(t, c.pods(t, "app=late"), "what starts without a control plane is not ready")
	c.serve(t, time.Now)
	c.await(t, "the certificate is renewed", func() bool { return left() > lives*4/5 })
	l.advance(t, 50)
	l.requireNone(t)

	c.ready(t, "late-v1", "client-v1")
	late := c.from(t, "app=late")
	late.until(t, "http://patient/", "an answer", ok)
	agent := c.kubelet.Proxy(killed.Namespace, killed.Name)
	require.NoError(t, syscall.Kill(agent.PID(), syscall.SIGKILL))
	<-agent.Done()
	client.until(t, "http://patient/", "an answer when the agent was killed",
		again(20, client, "http://patient/", ok))
}

// clockOff runs control planes whose clock is ahead and behind by an hour. Certificates that they
// issue are good for those whose clock is right.
func clockOff(t *testing.T, c *cluster) {
	add := func(name string) *workload {
		c.apply(t, secured(echo(name, "v1", 1), 24*time.Hour), livemesh.Service(name, "http:80:8080"), once(name))
		c.ready(t, name+"-v1")
		return c.from(t, "app="+name)
	}
	right := add("right")
	for _, test := range []struct {
		name string
		off  time.Duration
	}{{"ahead", time.Hour}, {"behind", -time.Hour}} {
		c.plane.stop()
		c.serve(t, func() time.Time { return time.Now().Add(test.off) })
		wrong := add(test.name)
		ends := c.leaf(t, c.pods(t, "app="+test.name)[0]).NotAfter
		require.WithinDuration(t, time.Now().Add(24*time.Hour+test.off), ends, 30*time.Minute)
		right.until(t, "http://"+test.name+"/", "answers", again(20, right, "http://"+test.name+"/", ok))
		wrong.until(t, "http://right/", "answers", again(20, wrong, "http://right/", ok))
	}
}

// leaf returns the certificate that a Pod's proxy shows.
func (c *cluster) leaf(t *testing.T, p corev1.Pod) *x509.Certificate {
	t.Helper()
	var leaf *x509.Certificate
	c.await(t, p.Name+" shows its certificate", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		conn, err := c.network.Dial(ctx, "tcp", net.JoinHostPort(p.Status.PodIP, "8080"))
		if err != nil {
			return false
		}
		defer func() { _ = conn.Close() }()
		_ = tls.Client(conn, &tls.Config{
			InsecureSkipVerify: true, //nolint:gosec // it is looked at, and nothing is sent
			NextProtos:         []string{"istio"}, MinVersion: tls.VersionTLS13,
			VerifyConnection: func(s tls.ConnectionState) error {
				leaf = s.PeerCertificates[0]
				return nil
			},
		}).HandshakeContext(ctx) // nobody is let in without a certificate of its own
		return leaf != nil
	})
	return leaf
}

// agentMetric returns the value of a metric of a Pod's agent, when it answers; 0 if it has none of
// this name.
func (c *cluster) agentMetric(t *testing.T, p corev1.Pod, name string) (value float64) {
	t.Helper()
	c.await(t, p.Name+"'s agent tells its metrics", func() (answers bool) {
		value, answers = c.askAgent(t, p, name)
		return answers
	})
	return value
}

func (c *cluster) askAgent(t *testing.T, p corev1.Pod, name string) (value float64, answers bool) {
	t.Helper()
	text, answers := c.agentPage(t, p, "/metrics")
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, name); ok && !strings.HasPrefix(rest, "_") {
			fields := strings.Fields(rest)
			number, err := strconv.ParseFloat(fields[len(fields)-1], 64)
			require.NoError(t, err, line)
			return number, true
		}
	}
	return 0, answers
}

// agentPage is a page of a Pod's agent, if it answers.
func (c *cluster) agentPage(t *testing.T, p corev1.Pod, path string) (text string, answers bool) {
	t.Helper()
	client := http.Client{
		Transport: &http.Transport{DialContext: c.network.Dial, DisableKeepAlives: true}, Timeout: 10 * time.Second,
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet,
		fmt.Sprintf("http://%s:15020%s", p.Status.PodIP, path), nil)
	require.NoError(t, err)
	response, err := client.Do(request)
	if err != nil {
		return "", false
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	return string(body), err == nil
}
