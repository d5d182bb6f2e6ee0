package dir

import (
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	security "istio.io/api/security/v1beta1"
	"istio.io/api/type/v1beta1"
	securityv1 "istio.io/client-go/pkg/apis/security/v1"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/source"
)

const (
	allowPolicy = `apiVersion: security.istio.io/v1
kind: AuthorizationPolicy
metadata: {name: a, namespace: shop}
spec:
  selector: {matchLabels: {app: ratings}}
  rules: [{}]
`
	strictPolicy = `apiVersion: security.istio.io/v1
kind: PeerAuthentication
metadata: {name: p}
spec: {mtls: {mode: STRIKT}}
`
	// misspelt has a selector that can be read and rules that cannot.
	misspelt = `apiVersion: security.istio.io/v1
kind: AuthorizationPolicy
metadata: {name: a, namespace: shop}
spec:
  selector: {matchLabels: {app: ratings}}
  rules: [{fron: []}]
`
	// versionless has an apiVersion that does not exist.
	versionless = `apiVersion: security.istio.io/v2
kind: AuthorizationPolicy
metadata: {name: a, namespace: shop}
spec:
  selector: {matchLabels: {app: ratings}}
`
	misspeltSelector = `apiVersion: security.istio.io/v1
kind: AuthorizationPolicy
metadata: {name: a, namespace: shop}
spec:
  selector: {matchLabels: [ratings]}
  rules: [{}]
`
)

// policies plays contents of one file, each an hour after the one before, and gives what the sink
// holds in the end.
func policies(t *testing.T, contents ...string) (map[source.Key]source.Change, []source.Problem) {
	t.Helper()
	disk := &fakeDisk{files: map[string]fakeFile{}, locked: map[string]bool{}}
	logger := slog.New(slog.DiscardHandler)
	waits := delays{settle: 50 * time.Millisecond, suspect: 250 * time.Millisecond, limit: 2 * time.Second}
	state := t.TempDir()
	objects := map[source.Key]source.Change{}
	var problems []source.Problem
	now := time.Unix(1_000_000, 0)
	newProcess := func() *tree { return newTree("mesh", waits, disk, newRecords(state, logger), logger) }
	tree := newProcess()
	settle := func() {
		for again := now; !again.IsZero(); {
			now = again
			var event source.Event
			event, again = tree.step(now)
			for _, c := range event.Changes {
				objects[c.Key] = c
			}
			for _, r := range event.Reports {
				problems = r.Problems
			}
		}
	}
	for _, content := range contents {
		now = now.Add(time.Hour)
		data := []byte(content)
		disk.files["a.yaml"] = fakeFile{data: data, stamp: stamp{size: int64(len(data)), modified: now.UnixNano()}}
		settle()
	}
	before := objects
	objects = map[source.Key]source.Change{}
	tree = newProcess()
	settle()
	require.Len(t, objects, len(before), "a restart changes something")
	return objects, problems
}

func TestBrokenEditOfAPolicyCloses(t *testing.T) {
	closed := &security.AuthorizationPolicy{
		Selector: &v1beta1.WorkloadSelector{MatchLabels: map[string]string{"app": "ratings"}},
	}
	key := source.Key{Kind: kinds.AuthorizationPolicy, Namespace: "shop", Name: "a"}
	for name, test := range map[string]struct {
		contents []string
		want     *security.AuthorizationPolicy
	}{
		"an edit":                   {[]string{allowPolicy, misspelt}, closed},
		"a new one":                 {[]string{misspelt}, closed},
		"an edit of its apiVersion": {[]string{allowPolicy, versionless}, closed},
		"with a selector not known": {[]string{allowPolicy, misspeltSelector}, &security.AuthorizationPolicy{}},
		"and is mended": {
			[]string{misspelt, allowPolicy},
			&security.AuthorizationPolicy{Selector: closed.GetSelector(), Rules: []*security.Rule{{}}},
		},
		"and stays so in a file that cannot be read": {[]string{misspelt, allowPolicy + "  rules: ["}, closed},
	} {
		t.Run(name, func(t *testing.T) {
			objects, problems := policies(t, test.contents...)
			require.Contains(t, objects, key)
			policy := objects[key].Object.(*securityv1.AuthorizationPolicy)
			require.True(t, proto.Equal(test.want, &policy.Spec), "%v", &policy.Spec)
			require.Equal(t, "shop", policy.Namespace)
			require.Equal(t, name != "and is mended", hasError(problems))
		})
	}
}

func TestBrokenPeerAuthenticationIsStrict(t *testing.T) {
	objects, problems := policies(t, strictPolicy)
	policy := objects[source.Key{Kind: kinds.PeerAuthentication, Namespace: "default", Name: "p"}].Object
	require.NotNil(t, policy)
	mode := policy.(*securityv1.PeerAuthentication).Spec.GetMtls().GetMode()
	require.Equal(t, security.PeerAuthentication_MutualTLS_STRICT, mode)
	require.Contains(t, problems[0].Message,
		"calls to the workloads that it is for are refused until it can be read")
}
