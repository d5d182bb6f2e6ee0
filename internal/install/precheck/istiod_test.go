package precheck

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

func TestVariablesOfIstiodAreTold(t *testing.T) {
	const deployment = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: istiod-prod, namespace: istio-system, labels: {app: istiod}}
spec:
  template:
    spec:
      containers:
      - name: discovery
        env:
        - {name: PILOT_HTTP10, value: "1"}
        - {name: PILOT_ENABLE_AMBIENT, value: "true"}
        - {name: PILOT_ENABLE_ANALYSIS, value: "false"}
        - {name: XDS_AUTH, value: "true"}
        - {name: PILOT_SKIP_VALIDATE_TRUST_DOMAIN, value: "true"}
        - {name: POD_NAME, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
`
	var o unstructured.Unstructured
	require.NoError(t, yaml.Unmarshal([]byte(deployment), &o.Object))
	v, found := Istiod(&o)
	require.True(t, found)
	require.True(t, v.Go(), "what it tells stops nobody")
	var fields []string
	for _, d := range v.Differences {
		require.NotEmpty(t, d.Why)
		fields = append(fields, d.Field+" = "+d.Value)
	}
	require.Equal(t, []string{
		"env.PILOT_ENABLE_AMBIENT = true", "env.PILOT_SKIP_VALIDATE_TRUST_DOMAIN = true",
	}, fields)

	o.SetLabels(map[string]string{"app": "other"})
	_, found = Istiod(&o)
	require.False(t, found)
}

// TestFiltersOfIstiodsInstallationAreNoReasonAgainst: others with such a name are.
func TestFiltersOfIstiodsInstallationAreNoReasonAgainst(t *testing.T) {
	checker, _ := New("istio-system", nil)
	for _, c := range []struct {
		namespace, name string
		want            bool
	}{
		{"istio-system", "stats-filter-1.13", true},
		{"istio-system", "tcp-metadata-exchange-1.8-canary", true},
		{"shop", "stats-filter-1.13", false},
		{"istio-system", "stats-filter", false},
		{"istio-system", "my-stats-filter-1.13", false},
	} {
		o := &unstructured.Unstructured{}
		o.SetAPIVersion("networking.istio.io/v1alpha3")
		o.SetKind("EnvoyFilter")
		o.SetNamespace(c.namespace)
		o.SetName(c.name)
		v := checker.Check(o)
		require.True(t, v.Go(), "%+v", c)
		require.Equal(t, c.want, len(v.Differences) == 1)
	}
}
