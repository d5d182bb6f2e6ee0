package cluster

import (
	"crypto/tls"
	"fmt"
	"net"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/lateen-mesh/lateen/internal/testkit/livemesh"
)

// headlessTLS calls a pod of a headless service at its TLS port, where unknown destinations are
// closed: whichever name a client asks for, and if it speaks no TLS at all, the connection is the
// service's.
func headlessTLS(t *testing.T, c *cluster) {
	w := c.from(t, "app=client")
	server := c.pods(t, "app=server,version=v1")[0]
	address := net.JoinHostPort(server.Status.PodIP, "9001")
	c.apply(t, livemesh.Object("Sidecar default", "outboundTrafficPolicy: {mode: REGISTRY_ONLY}"))
	c.await(t, "a port that nobody names is closed", func() bool { return w.lines(t, address) == "" })
	c.apply(t, livemesh.Selecting(space, "each-tls", "app: server, version: v1", "tls:9001")+"  clusterIP: None\n")
	w.untilLines(t, address, "v1")
	for _, name := range []string{
		"each-tls." + space + ".svc.cluster.local", "server-0.each-tls." + space + ".svc.cluster.local", "each-tls",
		"another.example.com",
	} {
		require.Equal(t, "v1", w.answersHello(t, address, name), name)
	}
}

// headlessStrangers calls the port of a headless service at the address of its pod, which a route
// takes, and at an address of nobody, which it does not: that goes on to itself, or to the
// ServiceEntry that has the port, and is closed where unknown destinations are.
func headlessStrangers(t *testing.T, c *cluster) {
	w := c.from(t, "app=client")
	c.apply(t, bare(echo("stranger", "v3", 1, "--tcp=9000", "--tcp=9001")))
	c.ready(t, "stranger-v3")
	pod := c.pods(t, "app=server,version=v1")[0].Status.PodIP
	stranger := c.pods(t, "app=stranger")[0].Status.PodIP
	c.apply(t,
		livemesh.Selecting(space, "store", "app: server, version: v1", "tcp:9000")+"  clusterIP: None\n",
		livemesh.Selecting(space, "next", "app: server, version: v2", "tcp:9000"),
		livemesh.Object("VirtualService store", "hosts: [store]\ntcp:\n- {route: [{destination: {host: next}}]}"),
	)
	at := func(address string) string { return net.JoinHostPort(address, "9000") }
	w.untilLines(t, at(pod), "v2")
	require.Equal(t, "v3", w.lines(t, at(stranger)))

	t.Run("a ServiceEntry has the port elsewhere", func(t *testing.T) {
		c.apply(t, livemesh.Object("ServiceEntry rented", "hosts: [rented.example.com]\nresolution: STATIC\n"+
			"ports: [{number: 9000, name: tcp, protocol: TCP}]\nendpoints: [{address: "+pod+", ports: {tcp: 9001}}]"))
		w.untilLines(t, at(stranger), "v1")
		require.Equal(t, "v2", w.lines(t, at(pod)))
	})
	w.untilLines(t, at(stranger), "v3")
	c.apply(t, livemesh.Object("Sidecar default", "outboundTrafficPolicy: {mode: REGISTRY_ONLY}"))
	w.untilLines(t, at(stranger), "")
	require.Equal(t, "v2", w.lines(t, at(pod)))
}

// headlessMutualTLS calls pods of a headless service that refuse plaintext, by connections and by
// requests. Beside a pod that takes no TLS they are called in plaintext.
func headlessMutualTLS(t *testing.T, c *cluster) {
	arguments := []string{"--version=v1", "--port=8080", "--tcp=9000"}
	c.apply(t,
		ofMesh(deployment("strict", "strict", "v1", 1, arguments)), bare(echo("plain", "v3", 1, "--tcp=9000")),
		livemesh.Selecting(space, "strict", "app: strict", "tcp:9000", "http:8080")+"  clusterIP: None\n",
		livemesh.Object("PeerAuthentication strict",
			"selector: {matchLabels: {app: strict}}\nmtls: {mode: STRICT}"),
	)
	c.ready(t, "strict", "plain-v3")
	w := c.from(t, "app=client")
	pod := c.pods(t, "app=strict")[0]
	w.untilLines(t, pod.Status.PodIP+":9000", "v1")
	w.until(t, "http://"+pod.Status.PodIP+":8080/", pod.Name, answeredBy(pod.Name), "Host: strict")

	c.apply(t, livemesh.Selecting(space, "strict", "", "tcp:9000", "http:8080")+"  clusterIP: None\n",
		sliceOf("strict", pod, c.pods(t, "app=plain")[0]))
	c.await(t, "a pod that takes no TLS has all called in plaintext", func() bool {
		return w.lines(t, pod.Status.PodIP+":9000") == ""
	})
	w.untilLines(t, c.pods(t, "app=plain")[0].Status.PodIP+":9000", "v3")
}

// sliceOf has the pods of a service with the ports tcp and http.
func sliceOf(service string, pods ...corev1.Pod) string {
	text := fmt.Sprintf(`---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: %s-by-hand, namespace: %s, labels: {kubernetes.io/service-name: %s}}
addressType: IPv4
ports: [{name: tcp, port: 9000}, {name: http, port: 8080}]
endpoints:
`, service, space, service)
	for _, p := range pods {
		text += fmt.Sprintf("- {addresses: [%s], targetRef: {kind: Pod, name: %s, namespace: %s}}\n",
			p.Status.PodIP, p.Name, space)
	}
	return text
}

// answersHello is who answers a client that begins TLS and asks for a name, by the version of the
// line echo; empty for nobody.
func (w *workload) answersHello(t *testing.T, address, name string) string {
	t.Helper()
	return w.answerer(t, address, clientHello(t, name))
}

// clientHello is the first message of a client that asks for a name.
func clientHello(t *testing.T, name string) []byte {
	t.Helper()
	client, server := net.Pipe()
	defer func() { _ = server.Close() }()
	go func() {
		_ = tls.Client(client, &tls.Config{ServerName: name, MinVersion: tls.VersionTLS12}).Handshake()
		_ = client.Close()
	}()
	message := make([]byte, 16<<10)
	n, err := server.Read(message)
	require.NoError(t, err)
	return message[:n]
}
