package installer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/install/apply"
	"github.com/lateen-mesh/lateen/internal/install/precheck"
	"github.com/lateen-mesh/lateen/internal/install/spec"
)

// estate is what precheck judges: the objects of a cluster, or of files.
type estate interface {
	// List returns all objects of a kind. The error is apply.ErrNoKind if there is no such kind.
	List(ctx context.Context, apiVersion, kind string) (*unstructured.UnstructuredList, error)
	// Get returns an object.
	Get(
		ctx context.Context, apiVersion, kind string, of types.NamespacedName,
	) (*unstructured.Unstructured, error)
	// Secrets returns the names of the Secrets of a namespace with labels.
	Secrets(ctx context.Context, namespace, selector string) ([]string, error)
}

// manifests are the objects of files. Each kind exists.
type manifests struct {
	objects []unstructured.Unstructured
	// broken are the verdicts on what cannot be read.
	broken []precheck.Verdict
}

// readManifests reads files, and directories with all below them. Of a directory it takes files
// whose names end in .yaml, .yml or .json, and leaves documents alone that are no objects of
// Kubernetes.
func readManifests(paths []string) (*manifests, error) {
	m := &manifests{}
	for _, root := range paths {
		err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
			if err != nil || e.IsDir() {
				return err
			}
			named := slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(path))
			if path != root && !named {
				return nil
			}
			data, err := os.ReadFile(path)
			if err == nil {
				m.read(path, data)
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return m, nil
}

// read adds the objects of one file.
func (m *manifests) read(path string, data []byte) {
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(data), 4096)
	for {
		var object map[string]any
		err := decoder.Decode(&object)
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			m.broken = append(m.broken, precheck.Verdict{
				Kind: "file", Name: path,
				Differences: linesOf("left out from here on, as it is no YAML: " + err.Error()),
			})
			return
		}
		m.add(&unstructured.Unstructured{Object: object})
	}
}

// add adds an object, or the items of a list. What is no object is left alone.
func (m *manifests) add(o *unstructured.Unstructured) {
	if o.GetKind() == "" || o.GetAPIVersion() == "" {
		return
	}
	if o.IsList() {
		_ = o.EachListItem(func(item runtime.Object) error {
			m.add(item.(*unstructured.Unstructured))
			return nil
		})
		return
	}
	if d := kinds.Of(kinds.Kind(o.GetKind())); o.GetNamespace() == "" && (d == nil || !d.ClusterScoped) {
		o.SetNamespace(corev1.NamespaceDefault)
	}
	m.objects = append(m.objects, *o)
}

// List implements estate. An object of any version of the kind is one. Webhooks are left alone: who
// injects where is decided by those of a cluster.
func (m *manifests) List(_ context.Context, apiVersion, kind string) (*unstructured.UnstructuredList, error) {
	list := &unstructured.UnstructuredList{}
	group := schema.FromAPIVersionAndKind(apiVersion, kind).GroupKind()
	if group.Group == admissionregistrationv1.GroupName {
		return list, nil
	}
	for i := range m.objects {
		if m.objects[i].GroupVersionKind().GroupKind() == group {
			list.Items = append(list.Items, m.objects[i])
		}
	}
	return list, nil
}

// Get implements estate.
func (m *manifests) Get(
	ctx context.Context, apiVersion, kind string, of types.NamespacedName,
) (*unstructured.Unstructured, error) {
	list, _ := m.List(ctx, apiVersion, kind)
	for i := range list.Items {
		if o := &list.Items[i]; o.GetNamespace() == of.Namespace && o.GetName() == of.Name {
			return o, nil
		}
	}
	return nil, apierrors.NewNotFound(schema.GroupResource{Resource: kind}, of.Name)
}

// Secrets implements estate: those of files are left alone.
func (m *manifests) Secrets(context.Context, string, string) ([]string, error) { return nil, nil }

// meshConfig returns the mesh configuration of an estate: that of the revision, or Istio's.
func meshConfig(ctx context.Context, from estate, s *spec.Spec) (*corev1.ConfigMap, error) {
	for _, name := range []string{s.Names().MeshConfig, "istio"} {
		o, err := from.Get(ctx, "v1", "ConfigMap", types.NamespacedName{Namespace: s.Root(), Name: name})
		if apierrors.IsNotFound(err) || errors.Is(err, apply.ErrNoKind) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("reading the mesh configuration: %w", err)
		}
		config := &corev1.ConfigMap{}
		return config, runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, config)
	}
	return nil, nil
}
