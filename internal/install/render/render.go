package render

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"regexp"
	"strings"

	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/chart/loader/archive"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"github.com/lateen-mesh/lateen/charts"
)

// The charts.
const (
	Base    = "base"
	Lateen  = "lateen"
	Gateway = "gateway"
)

// Lookup answers what templates ask a cluster.
type Lookup = engine.ClientProvider

// Release is a chart with its values.
type Release struct {
	// Chart is Base, Lateen or Gateway.
	Chart string
	// Name is that of the release, and Namespace where it is installed.
	Name, Namespace string
	// Values are those that differ from the chart's own. They are as JSON decodes them.
	Values map[string]any
	// Cluster answers what templates look up; nil: they find nothing.
	Cluster Lookup
}

// Objects returns the objects of a release, in the order in which to apply them.
func (r Release) Objects() ([]*unstructured.Unstructured, error) {
	c, err := load(r.Chart)
	if err != nil {
		return nil, err
	}
	if err := validate(c, r.Values); err != nil {
		return nil, err
	}
	options := common.ReleaseOptions{Name: r.Name, Namespace: r.Namespace, IsInstall: true, Revision: 1}
	values, err := util.ToRenderValuesWithSchemaValidation(c, r.Values, options, common.DefaultCapabilities, true)
	if err != nil {
		return nil, err
	}
	var files map[string]string
	if r.Cluster == nil {
		files, err = engine.Render(c, values)
	} else {
		files, err = engine.RenderWithClientProvider(c, values, r.Cluster)
	}
	if err != nil {
		return nil, templateError(err)
	}
	var all []*unstructured.Unstructured
	for name, text := range files {
		if path.Base(name) == notesFile {
			continue
		}
		objects, err := parse(text)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		all = append(all, objects...)
	}
	Sort(all)
	return all, nil
}

// notesFile is the template of what Helm prints of a release.
const notesFile = "NOTES.txt"

// load reads an embedded chart.
func load(name string) (*chart.Chart, error) {
	var files []*archive.BufferedFile
	err := fs.WalkDir(charts.FS, name, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := charts.FS.ReadFile(path)
		files = append(files, &archive.BufferedFile{Name: strings.TrimPrefix(path, name+"/"), Data: data})
		return err
	})
	if err != nil {
		return nil, err
	}
	return loader.LoadFiles(files)
}

// Defaults returns the values of a chart.
func Defaults(name string) (map[string]any, error) {
	c, err := load(name)
	if err != nil {
		return nil, err
	}
	if inner, ok := c.Values[internalDefaults].(map[string]any); ok {
		return inner, nil
	}
	return c.Values, nil
}

// internalDefaults is the key around the values of a chart whose templates put what is set over
// them.
const internalDefaults = "_internal_defaults_do_not_set"

// Text returns a file of a chart.
func Text(name, file string) ([]byte, error) { return charts.FS.ReadFile(name + "/" + file) }

// failed is what Helm says around the message of a template that calls fail.
var failed = regexp.MustCompile(`(?s)^.*execution error at \([^)]*\): `)

// templateError returns the message of a template that refuses its values.
func templateError(err error) error {
	if message := failed.ReplaceAllString(err.Error(), ""); message != err.Error() {
		return errors.New(message)
	}
	return err
}

// parse returns the objects of YAML documents.
func parse(text string) ([]*unstructured.Unstructured, error) {
	var all []*unstructured.Unstructured
	for reader := utilyaml.NewYAMLReader(bufio.NewReader(strings.NewReader(text))); ; {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, err
		}
		o := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(document, &o.Object); err != nil {
			return nil, err
		}
		if len(o.Object) > 0 {
			all = append(all, o)
		}
	}
}

// Write writes objects as YAML documents.
func Write(out io.Writer, objects []*unstructured.Unstructured) error {
	var all bytes.Buffer
	for _, o := range objects {
		text, err := yaml.Marshal(o.Object)
		if err != nil {
			return err
		}
		fmt.Fprintf(&all, "---\n%s", text)
	}
	_, err := out.Write(all.Bytes())
	return err
}
