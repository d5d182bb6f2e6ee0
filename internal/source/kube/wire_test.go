package kube_test

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/source/kube"
	"github.com/lateen-mesh/lateen/internal/testkit/kubeapi"
)

// recorder notes the requests of one source and how they were answered.
type recorder struct {
	mu        sync.Mutex
	exchanges []exchange
}

type exchange struct {
	resource string // group/plural; plural alone of the core group
	query    url.Values
	status   int
	content  string // type of the answer
}

func (e exchange) streams() bool {
	return e.query.Get("watch") == "true" && e.query.Get("sendInitialEvents") == "true" && e.query.Get(
		"allowWatchBookmarks",
	) == "true"
}

// lists reports whether a request is for a page.
func (e exchange) lists() bool { return e.query.Get("watch") == "" && e.query.Get("limit") != "" }

// continues reports whether a watch goes on from a known version.
func (e exchange) continues() bool {
	return e.query.Get("watch") == "true" && e.query.Get(
		"sendInitialEvents",
	) == "" && e.query.Get("resourceVersion") != ""
}

// recorded is a configuration whose requests are noted.
func recorded(config *rest.Config) (*rest.Config, *recorder) {
	r := &recorder{}
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return recording{r, next} })
	return config, r
}

type recording struct {
	recorder *recorder
	next     http.RoundTripper
}

func (r recording) RoundTrip(q *http.Request) (*http.Response, error) {
	e := exchange{resource: resourceOf(q.URL.Path), query: q.URL.Query()}
	answer, err := r.next.RoundTrip(q)
	if err == nil {
		e.status, e.content = answer.StatusCode, answer.Header.Get("Content-Type")
		r.recorder.mu.Lock()
		r.recorder.exchanges = append(r.recorder.exchanges, e)
		r.recorder.mu.Unlock()
	}
	return answer, err
}

// resourceOf is group/plural of what a path of the API is about.
func resourceOf(path string) string {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	if parts[0] == "apis" && len(parts) > 1 {
		return parts[1] + "/" + parts[len(parts)-1]
	}
	return parts[len(parts)-1]
}

// about are the exchanges about a resource, in their order, but for those that come before it is
// served. Of the two ConfigMaps it is the one with the mesh configuration.
func (r *recorder) about(resource string) []exchange {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(r.exchanges), func(e exchange) bool {
		other := slices.Contains(e.query["fieldSelector"], "metadata.name=lateen-jwks")
		served := e.status == http.StatusOK || e.status == http.StatusUnprocessableEntity
		return other || e.resource != resource || !served
	})
}

const builtIn, customObject = false, true

// resourcesOf are the names of what is read, of custom resources or of those that are built in.
func resourcesOf(custom bool) (names []string) {
	for _, d := range kinds.Watched() {
		if d.Custom == custom {
			names = append(names, strings.TrimPrefix(d.Group+"/"+d.Resource, "/"))
		}
	}
	return names
}

const asProtobuf = "application/vnd.kubernetes.protobuf;stream=watch"

// Each resource is a watch that begins with what exists, in protobuf if the API server has the type
// built in.
func TestListsAreStreamedInProtobuf(t *testing.T) {
	api := shared.Server(t)
	api.InstallIstioCRDs(t)
	api.InstallGatewayAPICRDs(t)
	api.InstallLateenCRDs(t)
	config, record := recorded(api.Config())
	s := run(t, kube.Options{Config: config})
	s.awaitSync()
	for _, resource := range slices.Concat(resourcesOf(builtIn), resourcesOf(customObject)) {
		seen := record.about(resource)
		require.NotEmpty(t, seen, resource)
		require.True(t, seen[0].streams(), "%s: %+v", resource, seen[0])
		content := asProtobuf
		if slices.Contains(resourcesOf(customObject), resource) {
			content = "application/json"
		}
		for _, e := range seen {
			require.False(t, e.lists(), "%s: %+v", resource, e)
			require.Equal(t, http.StatusOK, e.status, "%s: %+v", resource, e)
			require.Equal(t, content, e.content, resource)
		}
	}
}

// An API server that does not stream lists refuses to. It is asked for pages then, and for what
// follows them.
func TestAServerThatStreamsNoListsIsAskedForPages(t *testing.T) {
	api := kubeapi.Start(
		t, kubeapi.Options{NoControllerManager: true, APIServerFlags: []string{"--feature-gates=WatchList=false"}},
	)
	api.InstallIstioCRDs(t)
	api.InstallGatewayAPICRDs(t)
	api.InstallLateenCRDs(t)
	c, ns := clientOf(t, api.Config()), api.Namespace(t, nil)
	c.createAll(t, ns)
	config, record := recorded(api.Config())
	s := run(t, kube.Options{Config: config})
	s.awaitSync()
	require.Equal(t, everything, s.in(ns))
	for _, resource := range slices.Concat(resourcesOf(builtIn), resourcesOf(customObject)) {
		eventually(t, func() bool { return slices.ContainsFunc(record.about(resource), exchange.continues) })
		seen := record.about(resource)
		require.GreaterOrEqual(t, len(seen), 3, resource)
		require.True(
			t, seen[0].streams() && seen[0].status == http.StatusUnprocessableEntity, "%s: %+v", resource, seen[0],
		)
		require.True(t, seen[1].lists() && seen[1].status == http.StatusOK, "%s: %+v", resource, seen[1])
		require.True(t, seen[2].continues() && seen[2].status == http.StatusOK, "%s: %+v", resource, seen[2])
		if slices.Contains(resourcesOf(builtIn), resource) {
			require.Equal(t, "application/vnd.kubernetes.protobuf", seen[1].content, resource)
			require.Equal(t, asProtobuf, seen[2].content, resource)
		}
	}
	_, err := c.CoreV1().Services(ns).Create(t.Context(), service("late"), metav1.CreateOptions{})
	require.NoError(t, err)
	eventually(t, func() bool { return s.get(key(kinds.Service, ns, "late")) != nil })
	require.Empty(t, s.problem(""))
}

// A server, or what stands before it, that knows no protobuf answers in JSON.
func TestAServerWithoutProtobufIsReadInJSON(t *testing.T) {
	api := shared.Server(t)
	api.InstallIstioCRDs(t)
	c, ns := clientOf(t, api.Config()), api.Namespace(t, nil)
	c.createAll(t, ns)
	config, record := recorded(api.Config())
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return jsonAlone{next} })
	s := run(t, kube.Options{Config: config})
	s.awaitSync()
	require.Equal(t, everything, s.in(ns))
	for _, resource := range resourcesOf(builtIn) {
		seen := record.about(resource)
		require.NotEmpty(t, seen, resource)
		require.Equal(t, "application/json", seen[0].content, resource)
	}
	require.Empty(t, s.problem(""))
}

// jsonAlone asks for JSON, whatever else the client would take.
type jsonAlone struct{ next http.RoundTripper }

func (j jsonAlone) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	var types []string
	for accepted := range strings.SplitSeq(r.Header.Get("Accept"), ",") {
		if !strings.Contains(accepted, "protobuf") {
			types = append(types, accepted)
		}
	}
	r.Header.Set("Accept", strings.Join(types, ","))
	return j.next.RoundTrip(r)
}
