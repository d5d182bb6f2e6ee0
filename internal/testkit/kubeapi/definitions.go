package kubeapi

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"
)

// objectTimeout bounds what a helper waits for: that kinds are served, that a namespace is ready.
const objectTimeout = time.Minute

var definitions = schema.GroupVersionResource{
	Group:    "apiextensions.k8s.io",
	Version:  "v1",
	Resource: "customresourcedefinitions",
}

// InstallIstioCRDs creates the definitions of Istio's kinds, as the Go module istio.io/api ships
// them, and waits until the API server serves them. Those that are there already stay.
func (s *Server) InstallIstioCRDs(t testing.TB) {
	t.Helper()
	s.installCRDs(t, "istio.io/api", "kubernetes", "customresourcedefinitions.gen.yaml")
}

// InstallLateenCRDs does the same for the kinds of Lateen's own, as the chart base has them.
func (s *Server) InstallLateenCRDs(t testing.TB) {
	t.Helper()
	s.installCRDs(t, "github.com/lateen-mesh/lateen", "charts", "base", "files", "crd-*.yaml")
}

// InstallGatewayAPICRDs does the same for the standard kinds of the Gateway API, as the Go module
// sigs.k8s.io/gateway-api ships them.
func (s *Server) InstallGatewayAPICRDs(t testing.TB) {
	t.Helper()
	s.installGatewayAPICRDs(t, "standard")
}

// InstallExperimentalGatewayAPICRDs does the same for the experimental channel: these kinds have
// more fields, as retry of HTTPRoutes.
func (s *Server) InstallExperimentalGatewayAPICRDs(t testing.TB) {
	t.Helper()
	s.installGatewayAPICRDs(t, "experimental")
}

func (s *Server) installGatewayAPICRDs(t testing.TB, channel string) {
	t.Helper()
	s.installCRDs(t, "sigs.k8s.io/gateway-api", "config", "crd", channel, "gateway.networking.k8s.io_*.yaml")
}

func (s *Server) installCRDs(t testing.TB, module string, path ...string) {
	t.Helper()
	s.InstallCRDs(t, "", module, path...)
}

// InstallCRDs does the same for the kinds of a program. dir has a go.mod that requires its module;
// it is the working directory if empty. The last part of the path in the module may be a pattern.
func (s *Server) InstallCRDs(t testing.TB, dir, module string, path ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), objectTimeout)
	defer cancel()
	list := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", module)
	list.Dir = dir
	output, err := list.Output()
	if err != nil {
		err = fmt.Errorf("looking for the module %s: %w", module, err)
	}
	fatal(t, err)
	manifests, err := definitionsIn(strings.TrimSpace(string(output)), path...)
	fatal(t, err)
	s.create(ctx, t, manifests)
}

// create creates definitions and waits until all that there are are served.
func (s *Server) create(ctx context.Context, t testing.TB, manifests []*unstructured.Unstructured) {
	t.Helper()
	client, err := dynamic.NewForConfig(s.Config())
	fatal(t, err)
	for _, definition := range manifests {
		_, err := client.Resource(definitions).Create(ctx, definition, metav1.CreateOptions{})
		if !apierrors.IsAlreadyExists(err) {
			fatal(t, err)
		}
	}
	fatal(t, await(ctx, func(ctx context.Context) error {
		list, err := client.Resource(definitions).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for _, definition := range list.Items {
			if !established(definition) {
				return fmt.Errorf("%s is not served yet", definition.GetName())
			}
		}
		return nil
	}))
}

// definitionsIn reads them in the directory of a module. The last part of the path may be a
// pattern.
func definitionsIn(dir string, path ...string) ([]*unstructured.Unstructured, error) {
	files, err := filepath.Glob(filepath.Join(append([]string{dir}, path...)...))
	if err != nil || len(files) == 0 {
		return nil, fmt.Errorf("%s has no %s: %w", dir, filepath.Join(path...), err)
	}
	var all []*unstructured.Unstructured
	for _, file := range files {
		found, err := definitionsOf(file)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		all = append(all, found...)
	}
	return all, nil
}

func definitionsOf(file string) ([]*unstructured.Unstructured, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var all []*unstructured.Unstructured
	for decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(content), 4096); ; {
		var definition unstructured.Unstructured
		err := decoder.Decode(&definition)
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, err
		}
		if definition.GetKind() == "CustomResourceDefinition" {
			all = append(all, &definition)
		}
	}
}

func established(definition unstructured.Unstructured) bool {
	conditions, _, _ := unstructured.NestedSlice(definition.Object, "status", "conditions")
	for _, c := range conditions {
		if c, ok := c.(map[string]any); ok && c["type"] == "Established" && c["status"] == "True" {
			return true
		}
	}
	return false
}
