package evaluate_test

import (
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/anypb"

	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/rbac/v3"

	"github.com/lateen-mesh/lateen/internal/mesh/policy"
	"github.com/lateen-mesh/lateen/internal/translate/evaluate"
)

const types = "type.googleapis.com/envoy.extensions.filters."

// denies is a filter of requests that refuses what meets a permission.
func denies(permission string) string {
	return `{"@type": "` + types + `http.rbac.v3.RBAC", "rules": {"action": "DENY", "policies": {
		"ns[a]-policy[b]-rule[0]": {"permissions": [` + permission + `], "principals": [{"any": true}]}}}}`
}

// configOf is a gateway's listener with filters of requests.
func configOf(t *testing.T, filters string) evaluate.Config {
	t.Helper()
	l := &listenerv3.Listener{}
	require.NoError(t, protojson.Unmarshal([]byte(`{
		"address": {"socketAddress": {"address": "0.0.0.0", "portValue": 80}},
		"filterChains": [{"filters": [{"name": "hcm", "typedConfig": {
			"@type": "`+types+`network.http_connection_manager.v3.HttpConnectionManager",
			"httpFilters": [`+filters+`]}}]}]}`), l))
	return evaluate.Config{Listeners: []*listenerv3.Listener{l}, Extensions: map[string]*anypb.Any{}}
}

func get(path string) policy.Call { return policy.Call{Port: 80, Method: "GET", Path: path} }

// TestWhatIsNotKnownIsAnError: a condition that cannot be evaluated is never taken for one that
// holds, or for one that does not.
func TestWhatIsNotKnownIsAnError(t *testing.T) {
	for _, filter := range []string{
		denies(`{"destinationPortRange": {"start": 1, "end": 2}}`),
		denies(`{"header": {"name": "a", "rangeMatch": {"start": 1}}}`),
		denies(`{"urlPath": {"path": {}}}`),
		`{"@type": "` + types + `http.rbac.v3.RBAC", "matcher": {"onNoMatch": {"action": {"name": "a"}}}}`,
	} {
		_, err := configOf(t, `{"name": "rbac", "typedConfig": `+filter+`}`).Decide(get("/"))
		require.ErrorContains(t, err, "is not known", filter)
	}
}

// TestFiltersBesideTheListenerDecide: as one filter, or as a list of some; and the default where
// they are not there.
func TestFiltersBesideTheListenerDecide(t *testing.T) {
	c := configOf(t, `{"name": "apart", "configDiscovery": {"typeUrls": ["x"], "defaultConfig": `+
		denies(`{"any": true}`)+`}}`)
	decide := func(path string) policy.Outcome {
		r, err := c.Decide(get(path))
		require.NoError(t, err)
		return r.Outcome
	}
	require.Equal(t, policy.Denied, decide("/"))
	deny := denies(`{"urlPath": {"path": {"exact": "/a"}}}`)
	extension := func(config string) {
		e := &corev3.TypedExtensionConfig{}
		require.NoError(t, protojson.Unmarshal([]byte(`{"name": "apart", "typedConfig": `+config+`}`), e))
		c.Extensions["apart"] = e.GetTypedConfig()
	}
	for _, config := range []string{
		deny,
		`{"@type": "` + types + `http.filter_chain.v3.FilterChainConfig", "defaultFilterChain": {"filters": [
			{"name": "rbac", "typedConfig": ` + denies(`{"urlPath": {"path": {"exact": "/b"}}}`) + `},
			{"name": "rbac", "typedConfig": ` + deny + `}]}}`,
	} {
		extension(config)
		require.Equal(t, policy.Allowed, decide("/"))
		require.Equal(t, policy.Denied, decide("/a"))
	}
	extension(`{"@type": "` + types + `http.filter_chain.v3.FilterChainConfig"}`)
	require.Equal(t, policy.Allowed, decide("/a"), "a list of none")
	extension(`{"@type": "type.googleapis.com/envoy.extensions.common.matching.v3.ExtensionWithMatcher"}`)
	_, err := c.Decide(get("/"))
	require.ErrorContains(t, err, "a filter with a matcher is not known")
}

// TestAPortWithoutAListenerIsClosed where nothing takes all ports.
func TestAPortWithoutAListenerIsClosed(t *testing.T) {
	r, err := configOf(t, "").Decide(policy.Call{Port: 81, Method: "GET", Path: "/"})
	require.NoError(t, err)
	require.Equal(t, policy.Denied, r.Outcome)
	require.Zero(t, r.Status)
}
