package state_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/api/convert"
	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/mesh/state"
	"github.com/lateen-mesh/lateen/internal/source/manifest"
)

// neighbours are a Gateway, a ListenerSet and a route without any mistake, which no mistake of
// others touches.
const neighbours = `
apiVersion: v1
kind: Service
metadata: {name: web, namespace: good}
spec: {selector: {gateway.networking.k8s.io/gateway-name: good}, ports: [{name: http, port: 80}]}
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: good, namespace: good}
spec:
  gatewayClassName: istio
  allowedListeners: {namespaces: {from: Same}}
  listeners: [{name: http, port: 80, protocol: HTTP}]
---
apiVersion: gateway.networking.k8s.io/v1
kind: ListenerSet
metadata: {name: good, namespace: good}
spec:
  parentRef: {name: good}
  listeners: [{name: http, port: 81, protocol: HTTP}]
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: good, namespace: good}
spec:
  parentRefs: [{name: good, sectionName: http}]
  rules: [{backendRefs: [{name: web, port: 80}]}]
---
`

// badObjects are mistakes, and the conditions of the specification that say so: "Kind name" and
// each condition of its first parent or listener, or of the object itself.
var badObjects = []struct {
	what, manifest, object string
	conditions             []string
}{
	{"no such section", route("{name: good, namespace: good, sectionName: none}", ""), "HTTPRoute bad",
		[]string{"Accepted False NoMatchingParent"}},
	{"a port without a listener", route("{name: good, namespace: good, port: 9}", ""), "HTTPRoute bad",
		[]string{"Accepted False NoMatchingParent"}},
	{"a Service that is not there", route("{group: \"\", kind: Service, name: none}", ""), "HTTPRoute bad",
		[]string{"Accepted False NoMatchingParent"}},
	{"a namespace that may not attach", route("{name: good, namespace: good}", ""), "HTTPRoute bad",
		[]string{"Accepted False NotAllowedByListeners"}},
	{"a backend of another namespace", gateway("") + route("{name: bad}",
		"backendRefs: [{name: web, namespace: good, port: 80}]"),
		"HTTPRoute bad", []string{"Accepted True Accepted", "ResolvedRefs False RefNotPermitted"}},
	{"a backend that is not there", gateway("") + route("{name: bad}", "backendRefs: [{name: none, port: 80}]"),
		"HTTPRoute bad", []string{"Accepted True Accepted", "ResolvedRefs False BackendNotFound"}},
	{"a backend of another kind", gateway("") + route("{name: bad}",
		"backendRefs: [{kind: Secret, name: a, port: 80}]"),
		"HTTPRoute bad", []string{"ResolvedRefs False InvalidKind"}},
	{"a mirror that is not there", gateway("") + mirrored("name: none, port: 80"), "HTTPRoute bad",
		[]string{"Accepted True Accepted", "ResolvedRefs False BackendNotFound"}},
	{"a mirror of another namespace", gateway("") + mirrored("name: web, namespace: good, port: 80"), "HTTPRoute bad",
		[]string{"Accepted True Accepted", "ResolvedRefs False RefNotPermitted"}},
	{"a mirror of another kind", gateway("") + mirrored("kind: Secret, name: a, port: 80"), "HTTPRoute bad",
		[]string{"Accepted True Accepted", "ResolvedRefs False InvalidKind"}},
	{"a filter that is unknown", gateway("") + route("{name: bad}",
		"filters: [{type: ExtensionRef, extensionRef: {group: a, kind: b, name: c}}]"),
		"HTTPRoute bad", []string{"Accepted False UnsupportedValue"}},
	{"one of two rules", gateway("") + route("{name: bad}",
		"filters: [{type: RequestRedirect, requestRedirect: {statusCode: 999}}]}, {backendRefs: []"),
		"HTTPRoute bad", []string{"Accepted True Accepted", "PartiallyInvalid True UnsupportedValue"}},
	{"two listeners of one host", gateway(", {name: b, port: 80, protocol: HTTP}"), "Gateway bad",
		[]string{"Accepted False HostnameConflict", "Conflicted True HostnameConflict"}},
	{"two protocols on one port", gateway(", {name: b, port: 80, protocol: TCP}"), "Gateway bad",
		[]string{"Accepted False ProtocolConflict", "Conflicted True ProtocolConflict"}},
	{"a certificate that is not there", secure("a", ""), "Gateway bad",
		[]string{"Accepted True Accepted", "Programmed False Invalid", "ResolvedRefs False InvalidCertificateRef"}},
	{"a certificate that does not parse", secure("a", "") + `
apiVersion: v1
kind: Secret
metadata: {name: a, namespace: bad}
type: kubernetes.io/tls
stringData: {tls.crt: garbage, tls.key: garbage}
---
`, "Gateway bad", []string{"Programmed False Invalid", "ResolvedRefs False InvalidCertificateRef"}},
	{"a certificate of another namespace", secure("a, namespace: good", ""), "Gateway bad",
		[]string{"Programmed False Invalid", "ResolvedRefs False RefNotPermitted"}},
	{"authorities of clients that do not parse", secure("a", "none") + `
apiVersion: v1
kind: ConfigMap
metadata: {name: none, namespace: bad}
data: {ca.crt: garbage}
---
`, "Gateway bad", []string{
		"Accepted False NoValidCACertificate", "Programmed False Invalid", "ResolvedRefs False InvalidCACertificateRef",
	}},
	{"authorities of another namespace", secure("a", "ca, namespace: good"), "Gateway bad",
		[]string{"Accepted False NoValidCACertificate", "ResolvedRefs False RefNotPermitted"}},
	{"a certificate to present that is not there", presents("a"), "Gateway bad",
		[]string{"gateway ResolvedRefs False InvalidClientCertificateRef"}},
	{"a certificate to present of another namespace", presents("a, namespace: good"), "Gateway bad",
		[]string{"gateway ResolvedRefs False RefNotPermitted"}},
	{"a certificate to present in no Secret", presents("a, kind: ConfigMap"), "Gateway bad",
		[]string{"gateway ResolvedRefs False InvalidClientCertificateRef"}},
	{"a set that may not attach", set("{name: good, namespace: good}", 82), "ListenerSet bad",
		[]string{"Accepted False NotAllowed", "Programmed False NotAllowed"}},
	{"a set that wants what the Gateway has", gateway("") + set("{name: bad}", 80), "ListenerSet bad",
		[]string{
			"Accepted False ListenersNotValid", "Programmed False ListenersNotValid",
			"listener Accepted False HostnameConflict", "listener Programmed False HostnameConflict",
			"listener Conflicted True HostnameConflict",
		}},
	{"a policy for no Service", policy("none", "wellKnownCACertificates: System"), "BackendTLSPolicy bad",
		[]string{"Accepted False TargetNotFound"}},
	{"a policy without certificates", policy("none", `caCertificateRefs: [{group: "", kind: ConfigMap, name: none}]`),
		"BackendTLSPolicy bad", []string{"ResolvedRefs False InvalidCACertificateRef"}},
	{"a policy with a Secret", policy("none", `caCertificateRefs: [{group: "", kind: Secret, name: none}]`),
		"BackendTLSPolicy bad", []string{"Accepted False NoValidCACertificate", "ResolvedRefs False InvalidKind"}},
	{"a policy with other authorities", policy("none", "wellKnownCACertificates: a.test/b"), "BackendTLSPolicy bad",
		[]string{"Accepted False Invalid"}},
}

func gateway(more string) string {
	return `
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: bad, namespace: bad}
spec:
  gatewayClassName: istio
  allowedListeners: {namespaces: {from: Same}}
  listeners: [{name: a, port: 80, protocol: HTTP}` + more + `]
---
`
}

func secure(secret, authorities string) string {
	frontend := ""
	if authorities != "" {
		frontend = "  tls: {frontend: {default: {validation: {caCertificateRefs: [{group: \"\", " +
			"kind: ConfigMap, name: " + authorities + "}]}}}}\n"
	}
	return `
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: bad, namespace: bad}
spec:
  gatewayClassName: istio
` + frontend + `  listeners: [{name: a, port: 443, protocol: HTTPS, tls: {certificateRefs: [{name: ` + secret + `}]}}]
---
`
}

func presents(ref string) string {
	tls := "  tls: {backend: {clientCertificateRef: {name: " + ref + "}}}\n"
	return strings.Replace(gateway(""), "  listeners:", tls+"  listeners:", 1)
}

func route(parent, rule string) string {
	return `
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: bad, namespace: bad}
spec:
  parentRefs: [` + parent + `]
  rules: [{` + rule + `}]
---
`
}

func mirrored(to string) string {
	return `
apiVersion: v1
kind: Service
metadata: {name: own, namespace: bad}
spec: {ports: [{name: http, port: 80}]}
---
` + route("{name: bad}", "backendRefs: [{name: own, port: 80}], "+
		"filters: [{type: RequestMirror, requestMirror: {backendRef: {"+to+"}}}]")
}

func set(parent string, port int) string {
	return fmt.Sprintf(`
apiVersion: gateway.networking.k8s.io/v1
kind: ListenerSet
metadata: {name: bad, namespace: bad}
spec:
  parentRef: %s
  listeners: [{name: a, port: %d, protocol: HTTP}]
---
`, parent, port)
}

func policy(service, validation string) string {
	return `
apiVersion: gateway.networking.k8s.io/v1
kind: BackendTLSPolicy
metadata: {name: bad, namespace: bad}
spec:
  targetRefs: [{group: "", kind: Service, name: ` + service + `}]
  validation: {hostname: a.test, ` + validation + `}
---
`
}

// updatesOf converts manifests.
func updatesOf(t *testing.T, text string) []state.Update {
	t.Helper()
	documents, problems := manifest.Read("case.yaml", []byte(text))
	require.Empty(t, problems)
	converter := convert.New(convert.Options{})
	var all []state.Update
	for _, d := range documents {
		c := d.Change(time.Time{})
		all = append(all, state.Update{Key: c.Key, Objects: converter.Convert(c, model.DefaultMesh()).Objects})
	}
	return all
}

// conditionsOf are all conditions of a status, as "type status reason".
func conditionsOf(s *model.GatewayAPIStatus) []string {
	var all []string
	add := func(kind string, c model.Condition) {
		if c.Reason != "" {
			status := map[bool]string{true: "True", false: "False"}[c.Status]
			all = append(all, fmt.Sprintf("%s %s %s", kind, status, c.Reason))
		}
	}
	if s == nil {
		return nil
	}
	of := ""
	if s.Kind == kinds.ListenerSet {
		add("Accepted", s.Accepted)
		add("Programmed", s.Programmed)
		of = "listener "
	}
	add("gateway ResolvedRefs", s.ResolvedRefs)
	for _, p := range s.Parents {
		add("Accepted", p.Accepted)
		add("ResolvedRefs", p.ResolvedRefs)
		add("PartiallyInvalid", p.PartiallyInvalid)
	}
	for _, l := range s.Listeners {
		add(of+"Accepted", l.Accepted)
		add(of+"Programmed", l.Programmed)
		add(of+"ResolvedRefs", l.ResolvedRefs)
		add(of+"Conflicted", l.Conflicted)
	}
	return all
}

// Each mistake has the condition and reason of the specification, and touches nobody else.
func TestMistakesHaveTheConditionsOfTheSpecification(t *testing.T) {
	for _, bad := range badObjects {
		t.Run(bad.what, func(t *testing.T) {
			w := state.NewWriter()
			w.Apply(updatesOf(t, neighbours))
			good := goodConditions(w.Snapshot())
			w.Apply(updatesOf(t, bad.manifest))
			var kind, name string
			_, err := fmt.Sscan(bad.object, &kind, &name)
			require.NoError(t, err)
			if kind == "Gateway" {
				kind = string(kinds.KubernetesGateway)
			}
			have := conditionsOf(w.Snapshot().GatewayAPIStatus(kinds.Kind(kind), "bad", name))
			for _, want := range bad.conditions {
				require.Contains(t, have, want)
			}
			require.Equal(t, good, goodConditions(w.Snapshot()))
		})
	}
}

func goodConditions(s *state.Snapshot) []string {
	var all []string
	for _, kind := range []kinds.Kind{kinds.KubernetesGateway, kinds.ListenerSet, kinds.HTTPRoute} {
		status := s.GatewayAPIStatus(kind, "good", "good")
		all = append(all, conditionsOf(status)...)
		for _, l := range status.Listeners {
			all = append(all, fmt.Sprint(l.Attached, " routes"))
		}
	}
	return all
}

// Ten thousand routes on one host are all accepted and counted.
func TestTenThousandRoutesOnOneHostAreAccepted(t *testing.T) {
	w := state.NewWriter()
	w.Apply(updatesOf(t, neighbours))
	one := updatesOf(t, route("{name: good, namespace: good}", "backendRefs: [{name: web, port: 80}]"))[0]
	var all []state.Update
	for i := range 10_000 {
		r := *one.Objects[0].(*model.AttachedRoute)
		r.Namespace, r.Name = "good", fmt.Sprint("r", i)
		r.Hosts = []model.Host{"one.test"}
		all = append(all, state.Update{Key: r.Key(), Objects: []model.Object{&r}})
	}
	w.Apply(all)
	status := w.Snapshot().GatewayAPIStatus(kinds.KubernetesGateway, "good", "good")
	require.Equal(t, int32(10_001), status.Listeners[0].Attached)
	for _, u := range all {
		s := w.Snapshot().GatewayAPIStatus(kinds.HTTPRoute, "good", u.Key.Name)
		require.True(t, s.Parents[0].Accepted.Status)
	}
}
