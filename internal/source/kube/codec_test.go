package kube

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	networkingv1 "istio.io/client-go/pkg/apis/networking/v1"
	securityv1 "istio.io/client-go/pkg/apis/security/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/api/ratelimit"
	"github.com/lateen-mesh/lateen/internal/source"
)

func decoder(t *testing.T) customDecoder {
	standard, err := standardCodecs()
	require.NoError(t, err)
	d := customDecoder{standard: standard.UniversalDeserializer(), kinds: map[string]kinds.Kind{}}
	for _, k := range []kinds.Kind{kinds.VirtualService, kinds.AuthorizationPolicy, kinds.RateLimit} {
		d.kinds[string(k)] = k
	}
	return d
}

// Unknown fields, as a newer definition has them, are left out with a warning; of a policy they
// close it.
func TestUnknownFieldsOfSpecs(t *testing.T) {
	list := fmt.Appendf(nil, `{"kind":"%sList","apiVersion":"x/v1","metadata":{"resourceVersion":"7"},"items":[`+
		`{"metadata":{"name":"a"},"spec":{"hosts":["a"],"another":1}},{"metadata":{"name":"b"},"spec":{"hosts":["b"]}}]}`, kinds.VirtualService)
	o, _, err := decoder(t).Decode(list, nil, nil)
	require.NoError(t, err)
	items := o.(*metav1.List).Items
	require.Len(t, items, 2)
	a := items[0].Object.(*customObject)
	require.Equal(t, []string{"a"}, a.object.(*networkingv1.VirtualService).Spec.Hosts)
	require.Equal(t, source.Warning, a.problem.severity)
	require.Equal(t, `unknown field "another"; it has no effect`, a.problem.message)
	require.Nil(t, items[1].Object.(*customObject).problem)

	o, _, err = decoder(t).Decode([]byte(
		`{"kind":"AuthorizationPolicy","apiVersion":"x/v1","metadata":{"name":"a"},"spec":{"action":"DENY","another":1}}`,
	), nil, nil)
	require.NoError(t, err)
	policy := o.(*customObject)
	require.Equal(t, source.Error, policy.problem.severity)
	require.Equal(t, "ALLOW", policy.object.(*securityv1.AuthorizationPolicy).Spec.GetAction().String())
}

// The specs of Lateen's own kinds are no messages.
func TestSpecsOfOwnKinds(t *testing.T) {
	decode := func(spec string) *customObject {
		o, _, err := decoder(t).Decode([]byte(
			`{"kind":"RateLimit","apiVersion":"lateen.io/v1alpha1","metadata":{"name":"a"},"spec":`+spec+`}`,
		), nil, nil)
		require.NoError(t, err)
		return o.(*customObject)
	}
	good := decode(`{"mode":"Shadow","global":{"timeout":"20ms"}}`)
	require.Nil(t, good.problem)
	require.Equal(t, ratelimit.Shadow, good.object.(*ratelimit.RateLimit).Spec.Mode)
	require.Equal(t, source.Warning, decode(`{"another":1}`).problem.severity)
	bad := decode(`{"mode":7}`)
	require.Nil(t, bad.object)
	require.Equal(t, source.Error, bad.problem.severity)
}

// Whatever an API server sends, nothing panics, and what it says of errors is passed on.
func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Expired","code":410}`))
	f.Add([]byte(`{"kind":"VirtualServiceList","metadata":{},"items":[{"metadata":{"name":"a"},"spec":{"http":7}}]}`))
	f.Add([]byte(`{"kind":"AuthorizationPolicy","metadata":{"name":"a"},"spec":{"selector":7}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		o, _, err := decoder(t).Decode(data, nil, nil)
		require.True(t, (o == nil) != (err == nil))
	})
}
