package conformance

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
)

const (
	// samplesNamespace has sidecars.
	samplesNamespace = meshNamespaces + "-samples"
	samplesTimeout   = time.Minute
	samplesInterval  = 100 * time.Millisecond
)

// TestSamplesOfIstioWork applies the manifests of Istio's samples for the Gateway API as they are,
// one after the other as their guides do, and calls what they publish. Their images are stood in
// for by programs that answer with their names (sampleprograms_linux_test.go).
func TestSamplesOfIstioWork(t *testing.T) {
	s := startSamples(t)

	s.apply(t, "httpbin/httpbin.yaml", "httpbin/gateway-api/httpbin-gateway.yaml")
	httpbin := s.address(t, "httpbin-gateway")
	s.await(t, func() (string, error) { return get(httpbin + ":80/get") }, "httpbin")

	s.apply(t, "helloworld/helloworld.yaml", "helloworld/gateway-api/helloworld-gateway.yaml")
	hello := s.address(t, "helloworld-gateway")
	s.await(t, func() (string, error) { return get(hello + ":80/hello") }, "helloworld-v1", "helloworld-v2")
	_, err := get(hello + ":80/elsewhere")
	require.ErrorContains(t, err, "404")
	s.apply(t, "helloworld/gateway-api/helloworld-versions.yaml", "helloworld/gateway-api/helloworld-route.yaml")
	s.awaitResolved(t, "helloworld")
	s.await(t, func() (string, error) { return get(hello + ":80/hello") }, "helloworld-v1", "helloworld-v2")

	s.apply(t, "tcp-echo/tcp-echo-services.yaml", "tcp-echo/gateway-api/tcp-echo-all-v1.yaml")
	echo := s.address(t, "tcp-echo-gateway")
	s.awaitAlone(t, func() (string, error) { return ask(echo + ":31400") }, "one hello")
	s.apply(t, "tcp-echo/gateway-api/tcp-echo-20-v2.yaml")
	s.await(t, func() (string, error) { return ask(echo + ":31400") }, "one hello", "two hello")

	s.apply(t, "bookinfo/platform/kube/bookinfo.yaml", "bookinfo/platform/kube/bookinfo-versions.yaml",
		"bookinfo/gateway-api/bookinfo-gateway.yaml")
	book := s.address(t, "bookinfo-gateway")
	page := func() (string, error) { return get(book + ":80/productpage") }
	const of = "productpage details ratings "
	s.await(t, page, of+"reviews-v1", of+"reviews-v2", of+"reviews-v3")
	s.apply(t, "bookinfo/gateway-api/route-all-v1.yaml")
	s.awaitAlone(t, page, of+"reviews-v1")
	s.apply(t, "bookinfo/gateway-api/route-reviews-90-10.yaml")
	s.await(t, page, of+"reviews-v1", of+"reviews-v2")
	s.apply(t, "bookinfo/gateway-api/route-reviews-50-v3.yaml")
	s.await(t, page, of+"reviews-v1", of+"reviews-v3")
	s.apply(t, "bookinfo/gateway-api/route-reviews-v3.yaml")
	s.awaitAlone(t, page, of+"reviews-v3")
	s.apply(t, "bookinfo/gateway-api/route-reviews-v1.yaml")
	s.awaitAlone(t, page, of+"reviews-v1")
}

// samples are those of the Istio of this module, and a cluster for them.
type samples struct {
	dir string
	k8s client.Client
}

func startSamples(t *testing.T) *samples {
	t.Helper()
	dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "istio.io/istio").Output()
	require.NoError(t, err)
	c := start(t)
	s := &samples{dir: filepath.Join(strings.TrimSpace(string(dir)), "samples"), k8s: c.clientOfAll(t)}
	require.NoError(t, s.k8s.Create(t.Context(), &corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{Name: samplesNamespace},
	}))
	return s
}

// apply is `kubectl apply` of files.
func (s *samples) apply(t *testing.T, paths ...string) {
	t.Helper()
	for _, path := range paths {
		text, err := os.ReadFile(filepath.Join(s.dir, path))
		require.NoError(t, err)
		documents := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096)
		for {
			o := &unstructured.Unstructured{}
			if err := documents.Decode(&o.Object); errors.Is(err, io.EOF) {
				break
			} else {
				require.NoError(t, err, path)
			}
			if len(o.Object) == 0 {
				continue // comments alone
			}
			o.SetNamespace(samplesNamespace)
			err := s.k8s.Patch(t.Context(), o, client.Apply, client.FieldOwner("user"), client.ForceOwnership)
			require.NoError(t, err, path)
		}
	}
}

// address awaits the address of a Gateway.
func (s *samples) address(t *testing.T, gateway string) (address string) {
	t.Helper()
	require.Eventually(t, func() bool {
		g := &gatewayv1.Gateway{}
		err := s.k8s.Get(t.Context(), types.NamespacedName{Namespace: samplesNamespace, Name: gateway}, g)
		if err != nil {
			return false
		}
		for _, a := range g.Status.Addresses {
			address = a.Value
		}
		return net.ParseIP(address) != nil
	}, samplesTimeout, samplesInterval, "the Gateway %s gets no address", gateway)
	return address
}

// awaitResolved awaits that the status of a HTTPRoute is about its newest generation.
func (s *samples) awaitResolved(t *testing.T, route string) {
	t.Helper()
	require.Eventually(t, func() bool {
		r := &gatewayv1.HTTPRoute{}
		err := s.k8s.Get(t.Context(), types.NamespacedName{Namespace: samplesNamespace, Name: route}, r)
		if err != nil || len(r.Status.Parents) == 0 {
			return false
		}
		for _, c := range r.Status.Parents[0].Conditions {
			if c.Status != metav1.ConditionTrue || c.ObservedGeneration != r.Generation {
				return false
			}
		}
		return true
	}, samplesTimeout, samplesInterval, "the HTTPRoute %s is not in force", route)
}

// await asks until each of the answers has come.
func (s *samples) await(t *testing.T, ask func() (string, error), answers ...string) {
	t.Helper()
	seen := map[string]bool{}
	require.Eventually(t, func() bool {
		answer, err := ask()
		seen[fmt.Sprint(answer, err)] = true
		for _, a := range answers {
			if !seen[fmt.Sprint(a, nil)] {
				return false
			}
		}
		return true
	}, samplesTimeout, samplesInterval, "want %q, got %v", answers, seen)
}

// awaitAlone asks until 20 answers in a row are the one that is wanted.
func (s *samples) awaitAlone(t *testing.T, ask func() (string, error), want string) {
	t.Helper()
	row, last := 0, map[string]error{}
	require.Eventually(t, func() bool {
		answer, err := ask()
		if answer != want || err != nil {
			clear(last)
			row, last[answer] = 0, err
			return false
		}
		row++
		return row == 20
	}, samplesTimeout, samplesInterval/5, "want %q alone, got %v", want, last)
}

// get returns the body of an answer with the status 200.
func get(url string) (string, error) {
	c := http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	answer, err := c.Get("http://" + url)
	if err != nil {
		return "", err
	}
	defer func() { _ = answer.Body.Close() }()
	body, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = errors.New(answer.Status)
	}
	return string(body), err
}

// ask sends a line over a new connection and returns the one that comes back.
func ask(address string) (string, error) {
	connection, err := net.DialTimeout("tcp", address, 5*time.Second)
	if err != nil {
		return "", err
	}
	defer func() { _ = connection.Close() }()
	_ = connection.SetDeadline(time.Now().Add(5 * time.Second))
	if _, err := fmt.Fprintln(connection, "hello"); err != nil {
		return "", err
	}
	line, err := bufio.NewReader(connection).ReadString('\n')
	return strings.TrimSpace(line), err
}
