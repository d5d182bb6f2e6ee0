package precheck

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
)

const objects = `apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: fine, namespace: shop, resourceVersion: "7", managedFields: [{manager: kubectl}]}
spec: {hosts: [reviews], http: [{route: [{destination: {host: reviews}}]}]}
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: broken, namespace: shop}
spec: {hosts: [reviews], http: [{match: [{uri: {regex: "a["}}], route: [{destination: {host: reviews}}]}]}
---
apiVersion: extensions.istio.io/v1alpha1
kind: WasmPlugin
metadata: {name: lua, namespace: shop}
spec: {}
---
apiVersion: v1
kind: Namespace
metadata: {name: twice, labels: {istio-injection: enabled, istio.io/rev: canary}}
---
apiVersion: v1
kind: Namespace
metadata: {name: once, labels: {istio-injection: enabled}}
---
apiVersion: v1
kind: Namespace
metadata: {name: odd, labels: {istio-injection: "true"}}
---
apiVersion: v1
kind: Namespace
metadata: {name: ambient, labels: {istio.io/dataplane-mode: ambient}}
`

func TestVerdicts(t *testing.T) {
	checker, verdict := New("istio-system", &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "istio-system", Name: "istio"},
		Data: map[string]string{"mesh": "accessLogFile: /dev/stdout\nserviceEntryVisibility: {}\n" +
			"verifyCertificateAtClient: true\n"},
	})
	require.Len(t, verdict.Findings, 1)
	require.Equal(t, "data.mesh.serviceEntryVisibility", verdict.Findings[0].Field)

	var got []string
	for document := range strings.SplitSeq(objects, "---\n") {
		o := &unstructured.Unstructured{}
		require.NoError(t, yaml.Unmarshal([]byte(document), &o.Object))
		v := Namespace(o, "default", nil)
		if o.GetKind() != "Namespace" {
			v = checker.Check(o)
		}
		line := v.Object() + ": go"
		for _, f := range v.Findings {
			line = fmt.Sprintf("%s: %s = %q: %s", v.Object(), f.Field, f.Value, f.Why)
		}
		got = append(got, line)
	}
	require.Equal(t, []string{
		"VirtualService shop/fine: go",
		"VirtualService shop/broken: spec.http[0].match[0].uri.regex = \"a[\": error parsing regexp: missing closing " +
			"]: `[`; want a regular expression in RE2 syntax",
		`WasmPlugin shop/lua: spec.url = "": is empty; all that the filter is for is refused; want oci://, http:// or ` +
			`https:// and where the module is, or file:// and its path`,
		`Namespace twice: metadata.labels[istio.io/rev] = "canary": does not count beside istio-injection=enabled; ` +
			`want one of the two labels`,
		"Namespace once: go",
		`Namespace odd: metadata.labels[istio-injection] = "true": want enabled or disabled`,
		`Namespace ambient: metadata.labels[istio.io/dataplane-mode] = "ambient": Lateen has no ambient mode; want ` +
			`sidecars, by istio-injection=enabled`,
	}, got)
}

const differing = `apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: wide, namespace: shop}
spec: {hosts: ["*.test"], http: [{route: [{destination: {host: reviews}}]}]}
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: newer, namespace: shop, creationTimestamp: "2026-02-01T00:00:00Z"}
spec: {hosts: [a.test], ports: [{number: 80, name: http, protocol: HTTP}], resolution: DNS}
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: older, namespace: shop, creationTimestamp: "2026-01-01T00:00:00Z"}
spec: {hosts: [a.test], ports: [{number: 80, name: http, protocol: HTTP}], resolution: NONE}
`

func TestDifferencesFromIstiodAreTold(t *testing.T) {
	checker, verdict := New("istio-system", &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "istio-system", Name: "istio"},
		Data:       map[string]string{"mesh": "tlsDefaults: {minProtocolVersion: TLSV1_3}\n"},
	})
	require.Empty(t, verdict.Findings)
	require.Len(t, verdict.Differences, 1)
	var all []Verdict
	for document := range strings.SplitSeq(differing, "---\n") {
		o := &unstructured.Unstructured{}
		require.NoError(t, yaml.Unmarshal([]byte(document), &o.Object))
		all = append(all, checker.Check(o))
	}
	checker.Compare(all)
	fields := map[string]string{}
	for i := range all {
		require.True(t, all[i].Go(), all[i].Object())
		for _, d := range all[i].Differences {
			fields[all[i].Name] = d.Field
		}
	}
	require.Equal(t, map[string]string{"wide": "spec.hosts[0]", "newer": "spec.hosts[0]"}, fields)
}

// TestSecretsAreLeftAlone: nobody needs to read keys to say what would be in force.
func TestSecretsAreLeftAlone(t *testing.T) {
	found := map[kinds.Kind]bool{}
	for _, d := range Kinds() {
		found[d.Kind] = true
	}
	require.True(t, found[kinds.VirtualService] && found["EnvoyFilter"] && found[kinds.Ingress])
	require.False(t, found[kinds.Secret] || found[kinds.Pod])
}

func TestNamespacesAskForProxiesOfARevision(t *testing.T) {
	for _, c := range []struct {
		labels         map[string]string
		revision, want string
	}{
		{map[string]string{"istio-injection": "enabled"}, "default", "istio-injection=enabled"},
		{map[string]string{"istio-injection": "enabled"}, "canary", ""},
		{map[string]string{"istio-injection": "disabled", "istio.io/rev": "default"}, "default", ""},
		{map[string]string{"istio-injection": "enabled", "istio.io/rev": "canary"}, "canary", ""},
		{map[string]string{"istio.io/rev": "canary"}, "canary", "istio.io/rev=canary"},
		{map[string]string{"istio.io/rev": "canary"}, "default", ""},
		{nil, "default", ""},
	} {
		o := &unstructured.Unstructured{}
		o.SetLabels(c.labels)
		require.Equal(t, c.want, Asks(o, []string{c.revision}), "%v", c)
	}
}
