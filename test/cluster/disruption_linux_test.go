package cluster

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lateen-mesh/lateen/internal/testkit/livemesh"
)

// rollingUpdate replaces all pods of a service under load. No request fails.
func rollingUpdate(t *testing.T, c *cluster) {
	w := c.from(t, "app=client")
	c.apply(t, echo("roll", "v1", 2), livemesh.Service("roll", "http:80:8080"))
	c.ready(t, "roll-v1")
	w.until(t, "http://roll/", "an answer", again(20, w, "http://roll/", ok))
	before := c.pods(t, "app=roll")
	l := w.steady(t, "http://roll/", patience)
	c.apply(t, strings.Replace(echo("roll", "v1", 2), "--port=8080", `--port=8080", "--call=/x=http://roll/`, 1))
	c.ready(t, "roll-v1")
	c.await(t, "the old pods have gone", func() bool {
		for _, p := range before {
			if c.kubelet.Pod(p.Namespace, p.Name) != nil {
				return false
			}
		}
		return true
	})
	l.advance(t, 100)
	l.requireNone(t)
}

// apiServerAway stops the API server under load, and starts it again. No request fails, and what is
// changed then takes effect.
func apiServerAway(t *testing.T, c *cluster) {
	w := c.from(t, "app=client")
	w.until(t, "http://server/", "an answer", again(20, w, "http://server/", ok))
	l := w.steady(t, "http://server/", patience)
	c.api.Stop(t)
	over := time.After(*outage)
	l.advance(t, 600)
	<-over
	c.api.Restart(t)
	l.advance(t, 100)
	c.apply(t, livemesh.Object("VirtualService server", "hosts: [server]\nhttp:\n"+
		"- {headers: {response: {add: {x-since: restart}}}, route: [{destination: {host: server}}]}"))
	w.until(t, "http://server/", "the header of the new route", func(a answer) bool {
		return a.header.Get("x-since") == "restart"
	})
	l.requireNone(t)
}

// twice makes two services of an app: one whose requests are tried again by default, and one whose
// are not.
func twice(t *testing.T, c *cluster, app string) (retried, once string) {
	c.apply(t,
		livemesh.Service(app, "http:80:8080"), livemesh.Selecting(space, app+"-once", "app: "+app, "http:80:8080"),
		livemesh.Object("VirtualService "+app+"-once",
			"hosts: ["+app+"-once]\nhttp:\n- {retries: {attempts: 0}, route: [{destination: {host: "+app+"-once}}]}"),
	)
	return "http://" + app + "/", "http://" + app + "-once/"
}

// killedPod deletes a pod without grace: its proxies and its process are gone at once, and proxies
// call it until they hear of it.
func killedPod(t *testing.T, c *cluster) {
	w := c.from(t, "app=client")
	c.apply(t, echo("victim", "v1", 3, "node=node-a"))
	retried, once := twice(t, c, "victim")
	c.ready(t, "victim-v1")
	w.until(t, retried, "an answer", again(20, w, retried, ok))
	w.until(t, once, "an answer", again(20, w, once, ok))
	with, without := w.steady(t, retried, 2*time.Second), w.steady(t, once, 2*time.Second)
	victim := c.pods(t, "app=victim")[0]
	killed := time.Now()
	now := int64(0)
	require.NoError(t, c.client.CoreV1().Pods(c.namespace).Delete(t.Context(), victim.Name,
		metav1.DeleteOptions{GracePeriodSeconds: &now}))
	c.kubelet.Crash(victim.Namespace, victim.Name)
	c.ready(t, "victim-v1")
	with.quiet(t, 200)
	without.quiet(t, 200)
	t.Logf("with the default retries:    %s", with.since(killed))
	t.Logf("without retries:             %s", without.since(killed))
}

// lostNode lets the node of a service's pods vanish, but for one pod elsewhere. Proxies call the
// lost ones until the API server gives the node up.
func lostNode(t *testing.T, c *cluster) {
	w := c.from(t, "app=client")
	c.apply(t, echo("far", "v1", 2, "node=node-b"), echo("far", "v2", 1, "node=node-a"))
	retried, once := twice(t, c, "far")
	c.ready(t, "far-v1", "far-v2")
	w.until(t, retried, "an answer", again(20, w, retried, ok))
	with, without := w.steady(t, retried, time.Second), w.steady(t, once, time.Second)
	lost := time.Now()
	c.kubelet.LoseNode("node-b")
	c.await(t, "the node's pods are not ready", func() bool { return len(c.pods(t, "app=far")) == 1 })
	noticed := time.Since(lost)
	with.quiet(t, 400)
	without.quiet(t, 400)
	t.Logf("the API server notices after %v", noticed.Round(time.Millisecond))
	t.Logf("with the default retries:    %s", with.since(lost))
	t.Logf("without retries:             %s", without.since(lost))
	w.until(t, retried, "200", again(50, w, retried, status(http.StatusOK)))
}
