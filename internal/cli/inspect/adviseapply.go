package inspect

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/lateen-mesh/lateen/internal/cli/remote"
	"github.com/lateen-mesh/lateen/internal/cli/terminal"
	"github.com/lateen-mesh/lateen/internal/install"
	"github.com/lateen-mesh/lateen/internal/observe/advise"
)

// adviceManager is the name under which an API server keeps what --apply has set.
const adviceManager = "lateen-advise"

// namespaceNameLabel is the label that Kubernetes puts on each namespace.
const namespaceNameLabel = "kubernetes.io/metadata.name"

// applyAll applies what can be applied, after a question for each unless --yes is given.
func (f *adviseFlags) applyAll(cmd *cobra.Command, out *terminal.Writer, findings []advise.Finding) error {
	answers := bufio.NewReader(cmd.InOrStdin())
	for _, found := range findings {
		if !found.Remedy.Automatic {
			continue
		}
		if !f.yes {
			out.Line("apply %s? [y/N]", found.Rule)
			line, err := answers.ReadString('\n')
			if err != nil && !errors.Is(err, io.EOF) {
				return err
			}
			if answer := strings.ToLower(strings.TrimSpace(line)); answer != "y" && answer != "yes" {
				out.Line("%s is left as it is", found.Rule)
				continue
			}
		}
		what, err := f.applyOne(cmd.Context(), found)
		if err != nil {
			return fmt.Errorf("applying %s: %w", found.Rule, err)
		}
		out.Line("applied %s: %s", found.Rule, what)
	}
	return nil
}

// applyOne applies a finding to the directory, or to the cluster, and says what it did.
func (f *adviseFlags) applyOne(ctx context.Context, found advise.Finding) (string, error) {
	if f.objects != "" && f.objects != wholeCluster {
		if found.Remedy.Manifests == "" {
			return "", errors.New("this is a setting of a cluster; want the command without a directory")
		}
		return writeAdvice(f.objects, found)
	}
	access, err := f.remote.RestConfig()
	if err != nil {
		return "", fmt.Errorf("%w, or the directory of lateen up as argument", err)
	}
	api, err := newRawAPI(access)
	if err != nil {
		return "", err
	}
	if len(found.Remedy.ExcludeNamespaces) > 0 {
		name := install.NamesOf(f.remote.Namespace, f.remote.Revision).MeshConfig
		return "ConfigMap " + f.remote.Namespace + "/" + name, api.exclude(ctx, f.remote.Namespace, name,
			found.Remedy.ExcludeNamespaces)
	}
	return api.applyManifests(ctx, found.Remedy.Manifests)
}

// writeAdvice writes the manifests of a finding into a new file of the directory.
func writeAdvice(directory string, found advise.Finding) (string, error) {
	for n := 1; ; n++ {
		name := "advice-" + found.Rule + ".yaml"
		if n > 1 {
			name = fmt.Sprintf("advice-%s-%d.yaml", found.Rule, n)
		}
		path := filepath.Join(directory, name)
		file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
		if errors.Is(err, os.ErrExist) {
			continue
		}
		if err != nil {
			return "", err
		}
		_, err = file.WriteString(found.Remedy.Manifests)
		return path, errors.Join(err, file.Close())
	}
}

// rawAPI sends requests to an API server.
type rawAPI struct {
	base   *url.URL
	client *http.Client
}

func newRawAPI(access *rest.Config) (*rawAPI, error) {
	client, err := rest.HTTPClientFor(access)
	if err != nil {
		return nil, err
	}
	base, _, err := rest.DefaultServerUrlFor(access)
	return &rawAPI{base, client}, err
}

func (a *rawAPI) get(ctx context.Context, path string) ([]byte, error) {
	return a.do(ctx, http.MethodGet, path, "", nil)
}

// do sends a request. Its error has what the API server says.
func (a *rawAPI) do(ctx context.Context, method, path, contentType string, body []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, remote.FindTimeout)
	defer cancel()
	at, err := a.base.Parse(strings.TrimSuffix(a.base.Path, "/") + path)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, method, at.String(), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	if contentType != "" {
		req.Header.Set("Content-Type", contentType)
	}
	resp, err := a.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode >= http.StatusMultipleChoices {
		var status struct{ Message string }
		_ = json.Unmarshal(answer, &status)
		return nil, &statusError{
			code: resp.StatusCode, text: fmt.Sprintf("%s %s: %s: %s", method, path, resp.Status, status.Message),
		}
	}
	return answer, nil
}

// statusError is an answer of an API server that is not a success.
type statusError struct {
	code int // of HTTP
	text string
}

func (e *statusError) Error() string { return e.text }

// adviceObject is what a path needs to know of a manifest.
type adviceObject struct {
	APIVersion string
	Kind       string
	Metadata   struct{ Name, Namespace string }
	Spec       map[string]any
}

func (o *adviceObject) name() string {
	return o.Kind + " " + o.Metadata.Namespace + "/" + o.Metadata.Name
}

// applyManifests creates namespaced objects of Istio. The advice is for a mesh without them, so one
// that is there by now and says something else is an error, and is left as it is.
func (a *rawAPI) applyManifests(ctx context.Context, manifests string) (string, error) {
	var done []string
	for text := range strings.SplitSeq(manifests, "---\n") {
		var o adviceObject
		if err := yaml.Unmarshal([]byte(text), &o); err != nil {
			return "", err
		}
		if err := a.create(ctx, &o, text); err != nil {
			return "", err
		}
		done = append(done, o.name())
	}
	return strings.Join(done, ", "), nil
}

// create creates an object, or finds that it is there as it should be.
func (a *rawAPI) create(ctx context.Context, o *adviceObject, text string) error {
	path := fmt.Sprintf("/apis/%s/namespaces/%s/%s", o.APIVersion, o.Metadata.Namespace, pluralOf(o.Kind))
	_, err := a.do(ctx, http.MethodPost, path+"?fieldManager="+adviceManager, "application/yaml", []byte(text))
	var refused *statusError
	if !errors.As(err, &refused) || refused.code != http.StatusConflict {
		return err
	}
	body, err := a.get(ctx, path+"/"+o.Metadata.Name)
	if err != nil {
		return err
	}
	var live adviceObject
	if err := json.Unmarshal(body, &live); err != nil {
		return err
	}
	if !reflect.DeepEqual(live.Spec, o.Spec) {
		return fmt.Errorf("%s is there by now with another spec, and is left as it is: want lateen advise again",
			o.name())
	}
	return nil
}

// pluralOf returns the name of a kind in paths.
func pluralOf(kind string) string {
	return map[string]string{"Sidecar": "sidecars", "Telemetry": "telemetries"}[kind]
}

// exclude adds namespaces to those that the discovery selectors of a mesh configuration leave out.
// The resource version makes it fail if somebody else changes the object meanwhile.
func (a *rawAPI) exclude(ctx context.Context, namespace, name string, namespaces []string) error {
	path := "/api/v1/namespaces/" + namespace + "/configmaps/" + name
	body, err := a.get(ctx, path)
	if err != nil {
		return err
	}
	var live map[string]any
	if err := json.Unmarshal(body, &live); err != nil {
		return err
	}
	data, _ := live["data"].(map[string]any)
	text, _ := data["mesh"].(string)
	if text, err = excludeNamespaces(text, namespaces); err != nil {
		return fmt.Errorf("ConfigMap %s/%s: data.mesh: %w", namespace, name, err)
	}
	if data == nil {
		data = map[string]any{}
	}
	data["mesh"], live["data"] = text, data
	if body, err = json.Marshal(live); err != nil {
		return err
	}
	_, err = a.do(ctx, http.MethodPut, path+"?fieldManager="+adviceManager, "application/json", body)
	return err
}

// excludeNamespaces adds to each discovery selector of a mesh configuration that a namespace is
// none of these. Without any a selector of all others is made.
func excludeNamespaces(mesh string, namespaces []string) (string, error) {
	config := map[string]any{}
	if err := yaml.Unmarshal([]byte(mesh), &config); err != nil {
		return "", err
	}
	selectors, _ := config["discoverySelectors"].([]any)
	if len(selectors) == 0 {
		selectors = []any{map[string]any{}}
	}
	for _, s := range selectors {
		selector, ok := s.(map[string]any)
		if !ok {
			return "", errors.New("discoverySelectors: want selectors of labels")
		}
		expressions, _ := selector["matchExpressions"].([]any)
		selector["matchExpressions"] = append(expressions, exclusion(namespaces))
	}
	config["discoverySelectors"] = selectors
	text, err := yaml.Marshal(config)
	return string(text), err
}

func exclusion(namespaces []string) map[string]any {
	return map[string]any{"key": namespaceNameLabel, "operator": "NotIn", "values": namespaces}
}

// selectorsText is what a mesh configuration without discovery selectors would get.
func selectorsText(namespaces []string) string {
	text, err := excludeNamespaces("", namespaces)
	if err != nil {
		return err.Error()
	}
	return text
}
