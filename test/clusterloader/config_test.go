package clusterloader

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	template "github.com/google/safetext/yamltemplate"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

const examples = "../../examples/clusterloader2"

// config are the fields of ClusterLoader2's Config that the files have, by its names
// (k8s.io/perf-tests, clusterloader2/api). Reading is strict.
type config struct {
	Name       string               `json:"name"`
	Namespace  struct{ Number int } `json:"namespace"`
	TuningSets []tuningSet          `json:"tuningSets"`
	Steps      []step               `json:"steps"`
}

type tuningSet struct {
	Name    string `json:"name"`
	QPSLoad struct {
		QPS float64 `json:"qps"`
	} `json:"qpsLoad"`
}

type step struct {
	Name   string `json:"name"`
	Module struct {
		Path   string         `json:"path"`
		Params map[string]any `json:"params"`
	} `json:"module"`
	Phases       []phase       `json:"phases"`
	Measurements []measurement `json:"measurements"`
}

type phase struct {
	NamespaceRange struct {
		Min, Max int
	} `json:"namespaceRange"`
	ReplicasPerNamespace int      `json:"replicasPerNamespace"`
	TuningSet            string   `json:"tuningSet"`
	ObjectBundle         []bundle `json:"objectBundle"`
}

type bundle struct {
	Basename           string         `json:"basename"`
	ObjectTemplatePath string         `json:"objectTemplatePath"`
	TemplateFillMap    map[string]any `json:"templateFillMap"`
}

type measurement struct {
	Identifier string         `json:"Identifier"`
	Method     string         `json:"Method"`
	Params     map[string]any `json:"Params"`
}

// rendered is a file with ClusterLoader2's functions in force, by the package that it uses for
// templates, which refuses values that change the structure of the YAML.
func rendered(t *testing.T, file string, params map[string]any) []byte {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(examples, file))
	require.NoError(t, err)
	functions := template.FuncMap{
		"DefaultParam": func(param, fallback any) any {
			if param == nil {
				return fallback
			}
			return param
		},
		"MultiplyInt": func(a, b int) int { return a * b },
		"DivideInt":   func(a, b int) int { return a / b },
		"SubtractInt": func(a, b int) int { return a - b },
	}
	parsed, err := template.New(file).Funcs(functions).Parse(string(content))
	require.NoError(t, err)
	var b strings.Builder
	if params == nil {
		params = map[string]any{} // as there, since without data nothing is refused
	}
	require.NoError(t, parsed.Execute(&b, params), file)
	require.NotContains(t, b.String(), "<no value>", file)
	return []byte(b.String())
}

// read reads a configuration, with the steps of its modules in place of them.
func read(t *testing.T, file string, params map[string]any) config {
	t.Helper()
	var c config
	require.NoError(t, yaml.UnmarshalStrict(rendered(t, file, params), &c), file)
	var all []step
	for _, s := range c.Steps {
		if s.Module.Path == "" {
			all = append(all, s)
			continue
		}
		all = append(all, read(t, s.Module.Path, s.Module.Params).Steps...)
	}
	c.Steps = all
	return c
}

// pods returns how many Pods each phase with Deployments asks for in all.
func pods(t *testing.T, c config) (all []int) {
	t.Helper()
	for _, s := range c.Steps {
		for _, p := range s.Phases {
			require.Equal(t, c.TuningSets[0].Name, p.TuningSet)
			for _, b := range p.ObjectBundle {
				params := map[string]any{"Name": b.Basename + "-0", "Index": 0}
				for k, v := range b.TemplateFillMap {
					params[k] = v
				}
				object := rendered(t, b.ObjectTemplatePath, params)
				if b.Basename == "service" {
					var service corev1.Service
					require.NoError(t, yaml.UnmarshalStrict(object, &service))
					require.NotEmpty(t, service.Spec.Selector)
					continue
				}
				var d appsv1.Deployment
				require.NoError(t, yaml.UnmarshalStrict(object, &d))
				for k, v := range d.Spec.Selector.MatchLabels {
					require.Equal(t, v, d.Spec.Template.Labels[k])
				}
				all = append(all, int(*d.Spec.Replicas)*p.ReplicasPerNamespace)
			}
		}
	}
	return all
}

func TestChurnGoesAndComes(t *testing.T) {
	c := read(t, "churn.yaml", nil)
	require.Equal(t, []int{1000, 750, 1000}, pods(t, c))
	require.InDelta(t, 40, c.TuningSets[0].QPSLoad.QPS, 0)
	c = read(t, "churn.yaml", map[string]any{"CL2_SIDECARS": 200, "CL2_CHURN": 50, "CL2_DEPLOYMENTS": 4})
	require.Equal(t, []int{200, 100, 200}, pods(t, c))
}

func TestServicesHaveTheirPods(t *testing.T) {
	c := read(t, "services.yaml", map[string]any{"CL2_SIDECARS": 2000})
	require.Equal(t, []int{2000}, pods(t, c))
}

// placeholders are what ClusterLoader2 takes out of a file to read its kind: from the first to the
// last of a line.
var placeholders = regexp.MustCompile(`\{\{.*\}\}`)

// TestObjectsAreYAMLWithoutTheirValues: ClusterLoader2 reads them so when it deletes what it has
// created. A placeholder in braces would take the closing one with it.
func TestObjectsAreYAMLWithoutTheirValues(t *testing.T) {
	for file, kind := range map[string]string{"deployment.yaml": "Deployment", "service.yaml": "Service"} {
		content, err := os.ReadFile(filepath.Join(examples, file))
		require.NoError(t, err)
		var object struct{ Kind, APIVersion string }
		require.NoError(t, yaml.Unmarshal(placeholders.ReplaceAll(content, nil), &object), file)
		require.Equal(t, kind, object.Kind)
		require.NotEmpty(t, object.APIVersion)
	}
}

// TestThePublishedColumnsAreMeasured: sidecars, memory and CPU, from the beginning to the end.
func TestThePublishedColumnsAreMeasured(t *testing.T) {
	for _, file := range []string{"churn.yaml", "services.yaml"} {
		var actions []any
		for _, s := range read(t, file, nil).Steps {
			for _, m := range s.Measurements {
				if m.Method != "GenericPrometheusQuery" {
					continue
				}
				actions = append(actions, m.Params["action"])
				var names []string
				for _, q := range m.Params["queries"].([]any) {
					query := q.(map[string]any)
					names = append(names, query["name"].(string))
					require.Contains(t, query["query"], `app="istiod"`)
				}
				require.Equal(t, []string{"sidecars", "memory, bytes", "CPU, cores", "push time p99, seconds"}, names)
			}
		}
		require.Equal(t, []any{"start", "gather"}, actions, file)
	}
}
