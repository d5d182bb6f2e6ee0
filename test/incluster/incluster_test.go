package incluster

import (
	"crypto/tls"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const badRoute = `apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: %s, namespace: default}
spec:
  hosts: [%[1]s]
  http:
  - match: [{uri: {regex: "a["}}]
    route: [{destination: {host: kubernetes}}]
`

const goodRoute = `apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: %s, namespace: default}
spec:
  hosts: [%[1]s]
  http:
  - route: [{destination: {host: kubernetes}}]
`

const subsetRoute = `apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: canary, namespace: default}
spec:
  hosts: [canary]
  http:
  - route: [{destination: {host: kubernetes, subset: v2}}]
`

const subsets = `apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: kubernetes, namespace: default}
spec:
  host: kubernetes
  subsets: [{name: v2, labels: {version: v2}}]
`

const refusal = `admission webhook "validation.lateen.io" denied the request: VirtualService default/bad is refused:
spec.http[0].match[0].uri.regex = "a[": error parsing regexp: missing closing ]: ` + "`[`" +
	`; want a regular expression in RE2 syntax`

// TestInstalledControlPlaneWorksWithItsRights is one story, since each replica and API server takes
// seconds to start: what is installed works with the rights that come with it, one replica writes,
// and it is replaced without a status written twice.
func TestInstalledControlPlaneWorksWithItsRights(t *testing.T) {
	c := newCluster(t)
	first := c.start(t)
	first.ready(t)
	first.leads(t)
	c.certificateIsServed(t, first)
	c.certificateIsIssued(t, first)
	c.pilotAgentIsServed(t, first)
	c.istioctlIsServed(t, first)

	require.Equal(t, "Ignore Ignore", c.policies(t), "nobody has been seen to answer")
	c.route(t, first)
	eventually(t, func(ct require.TestingT) { require.Equal(ct, "Fail Fail", c.policies(ct)) })

	err := c.try(t, fmt.Sprintf(badRoute, "bad"))
	require.ErrorContains(t, err, refusal)
	c.apply(t, fmt.Sprintf(goodRoute, "good"))

	// What objects say about each other comes and goes with the others.
	c.apply(t, subsetRoute)
	c.says(t, "canary", condition{
		status: "False", reason: "Invalid", generation: 1, observed: 1,
		message: `error: spec.http[0].route[0].destination.subset = "v2": no DestinationRule defines this subset of ` +
			`kubernetes.default.svc.cluster.local; requests are answered with 503; want a DestinationRule for the ` +
			`host that defines it`,
	})
	c.apply(t, subsets)
	c.says(t, "canary", condition{status: "True", reason: "Accepted", generation: 1, observed: 1})
	c.says(t, "good", condition{status: "True", reason: "Accepted", generation: 1, observed: 1})
	first.wrote(t, 4) // good, canary twice, and its DestinationRule

	c.ingresses(t)
	first.wrote(t, 6)
	first.counts(t)

	second := c.startInPod(t)
	second.ready(t)
	c.certificateIsIssued(t, second)
	require.Equal(t, 0.0, second.metric("lateen_leader"))
	before := c.get(t, "VirtualService", "default", "canary").GetResourceVersion()
	address := c.get(t, "Ingress", "default", "shop").GetResourceVersion()

	// The leader dies, and with it the webhook. Somebody lets objects in all the same.
	first.kill()
	require.Error(t, c.try(t, fmt.Sprintf(badRoute, "bad")), "nothing gets in unseen")
	second.leads(t)
	c.letIn(t)
	eventually(t, func(ct require.TestingT) { require.NoError(ct, c.try(t, fmt.Sprintf(badRoute, "bad"))) })
	c.says(t, "bad", condition{
		status: "False", reason: "Invalid", generation: 1, observed: 1,
		message: "error: spec.http[0].match[0].uri.regex = \"a[\": error parsing regexp: missing closing ]: `[`; " +
			"want a regular expression in RE2 syntax",
	})
	second.wrote(t, 1)
	c.apply(t, fmt.Sprintf(goodRoute, "bad"))
	c.says(t, "bad", condition{status: "True", reason: "Accepted", generation: 2, observed: 2})
	second.wrote(t, 2)
	require.Equal(t, before, c.get(t, "VirtualService", "default", "canary").GetResourceVersion(),
		"an equal status is not written again")
	require.Equal(t, address, c.get(t, "Ingress", "default", "shop").GetResourceVersion(), "nor are equal addresses")
	c.noGateway(t)

	// In good order the Lease is given up.
	second.stop()
	eventually(t, func(ct require.TestingT) { require.NoError(ct, c.try(t, fmt.Sprintf(goodRoute, "late"))) })
	third := c.start(t, "--trust-loopback=false")
	third.leads(t)
	c.wantsTokens(t, third)
	c.says(t, "late", condition{status: "True", reason: "Accepted", generation: 1, observed: 1})
	c.apply(t, fmt.Sprintf(badRoute, "worse"))
	c.says(t, "worse", condition{
		status: "False", reason: "Invalid", generation: 1, observed: 1,
		message: "error: spec.http[0].match[0].uri.regex = \"a[\": error parsing regexp: missing closing ]: `[`; " +
			"want a regular expression in RE2 syntax",
	})
	third.wrote(t, 2) // late and worse: those that have a condition that is right are not written
	for _, r := range []*replica{first, second, third} {
		require.NotContains(t, r.said(), "forbidden", "all that it does, it may do")
	}
	c.mayNotDoMore(t)
}

// says waits until an object has a condition.
func (c *cluster) says(t *testing.T, name string, want condition) {
	t.Helper()
	eventually(t, func(ct require.TestingT) { require.Equal(ct, want, c.condition(ct, "VirtualService", name)) })
}

// letIn is somebody who edits the webhook's configuration while it does not answer.
func (c *cluster) letIn(t *testing.T) {
	c.onWebhooks(t, func(webhook map[string]any) { webhook["failurePolicy"] = "Ignore" })
}

// certificateIsServed connects to the secure xDS port with the roots of the mesh.
func (c *cluster) certificateIsServed(t *testing.T, r *replica) {
	eventually(t, func(ct require.TestingT) {
		roots := c.roots(ct)
		for _, name := range []string{"istiod.istio-system.svc", "lateen.istio-system.svc"} {
			connection, err := tls.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", r.ports["secure-xds"]), &tls.Config{
				RootCAs: roots, ServerName: name, MinVersion: tls.VersionTLS12, NextProtos: []string{"h2"},
			})
			require.NoError(ct, err)
			require.Equal(ct, "h2", connection.ConnectionState().NegotiatedProtocol)
			require.NoError(ct, connection.Close())
		}
	})
}

// mayNotDoMore asks the API server about what Lateen's service account has no business with.
func (c *cluster) mayNotDoMore(t *testing.T) {
	for _, a := range []authorizationv1.ResourceAttributes{
		{Verb: "create", Resource: "secrets", Namespace: root},
		{Verb: "update", Resource: "secrets", Namespace: root, Name: "other"},
		{Verb: "create", Resource: "pods", Namespace: root},
		{Verb: "update", Resource: "configmaps", Namespace: root, Name: "istio"},
		{Verb: "create", Group: "rbac.authorization.k8s.io", Resource: "roles", Namespace: "default"},
		{Verb: "create", Group: "rbac.authorization.k8s.io", Resource: "rolebindings", Namespace: "default"},
		{Verb: "delete", Group: "apps", Resource: "deployments", Namespace: "default"},
		{Verb: "delete", Resource: "services", Namespace: "default"},
		{Verb: "update", Group: "networking.istio.io", Resource: "virtualservices", Namespace: "default"},
		{Verb: "patch", Group: "networking.k8s.io", Resource: "ingresses", Namespace: "default"},
		{
			Verb:        "update",
			Group:       "networking.k8s.io",
			Resource:    "ingresses",
			Subresource: "status",
			Namespace:   "default",
		},
		{Verb: "patch", Resource: "services", Subresource: "status", Namespace: root},
		{Verb: "create", Group: "networking.istio.io", Resource: "gateways", Namespace: "default"},
		{Verb: "delete", Group: "networking.istio.io", Resource: "gateways", Namespace: root},
		{
			Verb:     "update",
			Group:    "admissionregistration.k8s.io",
			Resource: "validatingwebhookconfigurations",
			Name:     "other",
		},
		{Verb: "create", Group: "admissionregistration.k8s.io", Resource: "validatingwebhookconfigurations"},
		{Verb: "create", Group: "admissionregistration.k8s.io", Resource: "mutatingwebhookconfigurations"},
		{Verb: "delete", Group: "admissionregistration.k8s.io", Resource: "mutatingwebhookconfigurations"},
		{Verb: "update", Group: "coordination.k8s.io", Resource: "leases", Namespace: root, Name: "other"},
		{Verb: "create", Resource: "serviceaccounts", Subresource: "token", Namespace: root},
		{Verb: "impersonate", Resource: "users"},
		{Verb: "escalate", Group: "rbac.authorization.k8s.io", Resource: "clusterroles"},
	} {
		review, err := c.client.AuthorizationV1().SubjectAccessReviews().Create(t.Context(),
			&authorizationv1.SubjectAccessReview{
				Spec: authorizationv1.SubjectAccessReviewSpec{
					User:               "system:serviceaccount:" + root + ":istiod",
					Groups:             []string{"system:serviceaccounts", "system:authenticated"},
					ResourceAttributes: &a,
				},
			}, metav1.CreateOptions{})
		require.NoError(t, err)
		require.False(t, review.Status.Allowed, "%+v", a)
	}
}
