package inject

import (
	_ "embed"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/yaml"

	"github.com/lateen-mesh/lateen/internal/cluster/inject/gotemplate"
	"github.com/lateen-mesh/lateen/internal/source/untrusted"
)

// The names of the ConfigMap's keys, and of the templates that are always there.
const (
	ConfigKey       = "config"
	ValuesKey       = "values"
	SidecarTemplate = "sidecar"
	GatewayTemplate = "gateway"
)

// What holds where the ConfigMap says nothing.
var (
	//go:embed defaults/values.yaml
	defaultValues string
	//go:embed defaults/sidecar.yaml
	defaultSidecar string
	//go:embed defaults/gateway.yaml
	defaultGateway string
)

// Policy says whether a Pod gets a proxy that says nothing itself.
type Policy string

// The values of Policy.
const (
	Enabled  Policy = "enabled"
	Disabled Policy = "disabled"
)

// settings are the text under ConfigKey.
type settings struct {
	Policy           Policy              `json:"policy"`
	DefaultTemplates []string            `json:"defaultTemplates"`
	Templates        map[string]string   `json:"templates"`
	Aliases          map[string][]string `json:"aliases"`
	// The selectors decide about Pods that say nothing themselves: never first.
	NeverInjectSelector  []metav1.LabelSelector `json:"neverInjectSelector"`
	AlwaysInjectSelector []metav1.LabelSelector `json:"alwaysInjectSelector"`
	InjectedAnnotations  map[string]string      `json:"injectedAnnotations"`
	// Template is what Istio before 1.10 reads; nothing reads it now.
	Template string `json:"template"`
}

// Texts are what an Injector is made of. An empty text stands for the defaults.
type Texts struct {
	// Config and Values are those of the ConfigMap, in YAML.
	Config, Values string
	// Mesh is the mesh configuration in YAML.
	Mesh string
}

// Options are what the control plane itself says.
type Options struct {
	// Namespace is the root namespace.
	Namespace string
	// Revision is the control plane's own; empty and "default" stand for the only one.
	Revision string
	// NativeSidecars puts the proxy among the init containers (ENABLE_NATIVE_SIDECARS).
	NativeSidecars bool
	// ProxyImage stands above the images of the values; empty for those.
	ProxyImage string
	// Compliance is the policy that agents keep too (COMPLIANCE_POLICY); empty for none.
	Compliance string
}

// Injector adds proxies to Pods. It is immutable.
type Injector struct {
	Options
	settings
	never, always []labels.Selector
	templates     map[string]*gotemplate.Template
	values        values
	mesh          *meshConfig
}

// New reads the texts. The error says everything that is wrong with them.
func New(o Options, t Texts) (*Injector, error) {
	i := &Injector{Options: o, templates: map[string]*gotemplate.Template{}}
	i.settings = settings{Policy: Enabled, DefaultTemplates: []string{SidecarTemplate}}
	var problems []error
	err := untrusted.CheckFile([]byte(t.Config))
	if err == nil {
		err = yaml.UnmarshalStrict([]byte(t.Config), &i.settings)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", ConfigKey, err)
	}
	if len(i.DefaultTemplates) == 0 { // Istio's chart writes an empty list where nobody names any
		i.DefaultTemplates = []string{SidecarTemplate}
	}
	if i.Policy != Enabled && i.Policy != Disabled {
		problems = append(problems,
			fmt.Errorf("%s: policy = %q; want %s or %s", ConfigKey, i.Policy, Enabled, Disabled))
	}
	i.never, err = selectors("neverInjectSelector", i.NeverInjectSelector)
	problems = append(problems, err)
	i.always, err = selectors("alwaysInjectSelector", i.AlwaysInjectSelector)
	problems = append(problems, err, i.parseTemplates())
	i.values, err = newValues(o, t.Values)
	problems = append(problems, err)
	i.mesh, err = newMesh(o, t.Mesh)
	problems = append(problems, err)
	if err := errors.Join(problems...); err != nil {
		return nil, err
	}
	return i, nil
}

func selectors(field string, in []metav1.LabelSelector) ([]labels.Selector, error) {
	var out []labels.Selector
	for n := range in {
		s, err := metav1.LabelSelectorAsSelector(&in[n])
		if err != nil {
			return nil, fmt.Errorf("%s: %s[%d]: %w", ConfigKey, field, n, err)
		}
		if !s.Empty() { // it would select all
			out = append(out, s)
		}
	}
	return out, nil
}

// parseTemplates parses the templates of the ConfigMap and those of this package that it lacks.
func (i *Injector) parseTemplates() error {
	texts := map[string]string{SidecarTemplate: defaultSidecar, GatewayTemplate: defaultGateway}
	maps.Copy(texts, i.Templates)
	var problems []error
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		parsed, err := gotemplate.Parse(name, texts[name], functions(), reflect.TypeFor[templateData]())
		if err != nil {
			problems = append(problems, fmt.Errorf("%s: templates: %w", ConfigKey, err))
		}
		i.templates[name] = parsed
	}
	known := func(names []string, of string) {
		for _, name := range names {
			_, alias := i.Aliases[name]
			if _, there := texts[name]; !there && !alias {
				problems = append(problems, fmt.Errorf("%s: %s names the template %q, which is not there; have %q",
					ConfigKey, of, name, slices.Sorted(maps.Keys(texts))))
			}
		}
	}
	known(i.DefaultTemplates, "defaultTemplates")
	return errors.Join(problems...)
}

// templatesNamed returns the templates of a list of names and aliases.
func (i *Injector) templatesNamed(names []string) ([]string, error) {
	var out []string
	for _, name := range names {
		if of, ok := i.Aliases[name]; ok {
			out = append(out, of...)
			continue
		}
		out = append(out, name)
	}
	for _, name := range out {
		if i.templates[name] == nil {
			return nil, fmt.Errorf("the template %q is not there; have %q", name, slices.Sorted(maps.Keys(i.templates)))
		}
	}
	return out, nil
}
