package precheck

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/lateen-mesh/lateen/internal/api/convert"
	"github.com/lateen-mesh/lateen/internal/api/differences"
	"github.com/lateen-mesh/lateen/internal/api/istionames"
	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/compile/offline"
	"github.com/lateen-mesh/lateen/internal/source"
	"github.com/lateen-mesh/lateen/internal/source/manifest"
)

// Finding is one thing that would not be in force.
type Finding struct {
	Field string `json:"field,omitempty"`
	Value string `json:"value,omitempty"`
	Why   string `json:"why"`
}

// Verdict is what would become of one object.
type Verdict struct {
	Kind      string    `json:"kind"`
	Namespace string    `json:"namespace,omitempty"`
	Name      string    `json:"name"`
	Findings  []Finding `json:"findings,omitempty"`
	// Warnings are what is in force and probably not what was meant, with istiod neither.
	Warnings []Finding `json:"warnings,omitempty"`
	// Differences are what is in force and works otherwise than with istiod.
	Differences []Finding `json:"differences,omitempty"`
}

// Go reports whether all of the object would be in force.
func (v *Verdict) Go() bool { return len(v.Findings) == 0 }

// Object names the object for people.
func (v *Verdict) Object() string {
	if v.Namespace == "" {
		return v.Kind + " " + v.Name
	}
	return v.Kind + " " + v.Namespace + "/" + v.Name
}

// Kinds returns the kinds whose objects Check judges. Secrets are left alone.
func Kinds() []*kinds.Descriptor {
	var all []*kinds.Descriptor
	for _, d := range slices.Concat(kinds.All(), kinds.Reported()) {
		isIstios := slices.Contains(kinds.IstioGroups(), d.Group) || d.Group == kinds.GatewayAPIGroup
		if isIstios || d.Kind == kinds.Service || d.Kind == kinds.Ingress {
			all = append(all, d)
		}
	}
	return all
}

// Checker judges the objects of one mesh.
type Checker struct {
	// Discovery is the address of the revision's control plane, with its port. Proxies may name it.
	Discovery string
	// Known are the names of revisions and tags of the cluster; see the function Known.
	Known map[string]bool

	converter *convert.Converter
	mesh      model.MeshConfig
	together  differences.Together // all objects that were judged
	offline   offline.Mesh         // of all that was judged
}

// New returns the checker of a mesh with a root namespace. config is the ConfigMap with the mesh
// configuration, nil if there is none, and its verdict comes with the checker.
func New(root string, config *corev1.ConfigMap) (*Checker, *Verdict) {
	defaults := model.DefaultMesh()
	defaults.RootNamespace = root
	c := &Checker{mesh: defaults, together: differences.Together{Root: root}}
	name := ""
	if config != nil {
		name = config.Name
	}
	c.converter = convert.New(convert.Options{Defaults: defaults, ConfigMap: name, Selected: true, Injects: true})
	if config == nil {
		return c, nil
	}
	result := c.converter.Convert(source.Change{Key: c.converter.MeshKey(), Object: config}, defaults)
	for _, o := range result.Objects {
		if mesh, ok := o.(*model.MeshConfig); ok {
			c.mesh = *mesh
		}
	}
	c.together.Add(config)
	v := &Verdict{
		Kind: "ConfigMap", Namespace: config.Namespace, Name: config.Name,
		Differences: findings(differences.Of(config, c.converter.MeshKey())),
	}
	v.judge(result.Problems)
	return c, v
}

// Check judges an object.
func (c *Checker) Check(o *unstructured.Unstructured) Verdict {
	v := Verdict{Kind: o.GetKind(), Namespace: o.GetNamespace(), Name: o.GetName()}
	if o.GetKind() == "EnvoyFilter" && o.GetNamespace() == c.mesh.RootNamespace && istiodsFilter(o.GetName()) {
		v.Differences = []Finding{{Why: "istiod's installation has it for standard metrics, which Lateen makes " +
			"otherwise: delete it with istiod"}}
		return v
	}
	if !manifest.Reads(o.GetAPIVersion(), o.GetKind()) {
		key := source.Key{Kind: kinds.Kind(o.GetKind()), Namespace: o.GetNamespace(), Name: o.GetName()}
		v.Findings = []Finding{{Why: source.NotUsed(key, o.GetAPIVersion()).Message}}
		return v
	}
	raw, err := o.MarshalJSON()
	if err != nil {
		v.Findings = []Finding{{Why: err.Error()}}
		return v
	}
	reading := manifest.ReadFile("object.json", raw)
	problems := reading.Problems
	for _, d := range reading.Documents {
		change := d.Change(time.Time{})
		problems = append(problems, c.converter.Convert(change, c.mesh).Problems...)
		c.offline.Add(change)
		v.Differences = append(v.Differences, findings(differences.Of(d.Object, d.Key))...)
		c.together.Add(d.Object)
	}
	v.judge(problems)
	v.Warnings = append(v.Warnings, c.Unnamed(o.GetLabels(), "metadata")...)
	v.Differences = slices.Concat(v.Differences,
		named("metadata.annotations", o.GetAnnotations(), istionames.Annotations()),
		named("metadata.labels", o.GetLabels(), istionames.Labels()),
	)
	return v
}

// Compare adds to the verdicts of objects what they differ in together, and which patches of
// EnvoyFilters match nothing. It looks at all objects and workloads that Check and Workload were
// given.
func (c *Checker) Compare(verdicts []Verdict) {
	of := map[source.Key][]*Verdict{}
	for i := range verdicts {
		v := &verdicts[i]
		k := source.Key{Kind: kinds.Kind(v.Kind), Namespace: v.Namespace, Name: v.Name}
		of[k] = append(of[k], v)
	}
	for _, p := range c.together.Found() {
		for _, v := range of[p.Object] {
			v.Differences = append(v.Differences, findingOf(p))
		}
	}
	for k, warnings := range c.patches() {
		for _, v := range of[k] {
			v.Warnings = append(v.Warnings, warnings...)
		}
	}
}

// named returns the annotations or labels of Istio that have no effect.
func named(at string, set, absent map[string]string) (all []Finding) {
	for _, name := range slices.Sorted(maps.Keys(set)) {
		if why := absent[name]; why != "" {
			all = append(all, Finding{Field: at + "[" + name + "]", Value: set[name], Why: why})
		}
	}
	return all
}

// judge sorts what is wrong with an object: what is not in force, and what is only doubtful.
func (v *Verdict) judge(problems []source.Problem) {
	for _, p := range problems {
		switch {
		case p.Severity == source.Error || convert.IsGap(p):
			v.Findings = append(v.Findings, findingOf(p))
		case !convert.IsSoInIstiod(p):
			v.Warnings = append(v.Warnings, findingOf(p))
		}
	}
}

func findings(problems []source.Problem) []Finding {
	var all []Finding
	for _, p := range problems {
		all = append(all, findingOf(p))
	}
	return all
}

func findingOf(p source.Problem) Finding {
	why := p.Message
	if p.Want != "" {
		why += "; want " + p.Want
	}
	return Finding{p.Path, p.Value, why}
}

// Labels by which a namespace asks for proxies.
const injectionLabel = "istio-injection"

// Namespace judges the labels of a namespace. If it asks for proxies of the revision, none of the
// webhooks may be another control plane's that injects its Pods too.
func Namespace(o *unstructured.Unstructured, revision string, webhooks []unstructured.Unstructured) Verdict {
	v := Verdict{Kind: "Namespace", Name: o.GetName()}
	v.Findings = Labels(o.GetLabels())
	label := Asks(o, NamesOf(revision, webhooks))
	if label == "" {
		return v
	}
	for _, other := range Injectors(webhooks, o) {
		name, value, _ := strings.Cut(label, "=")
		v.Findings = append(v.Findings, Finding{
			Field: "metadata.labels[" + name + "]", Value: value,
			Why: other + " injects its Pods too; want one control plane, by the label " + kinds.RevisionLabel,
		})
	}
	return v
}

// Labels judges the labels by which a namespace asks for proxies, or for what Lateen does not have.
func Labels(labels map[string]string) (findings []Finding) {
	injection, revision := labels[injectionLabel], labels[kinds.RevisionLabel]
	for _, name := range []string{"istio.io/dataplane-mode", "istio.io/use-waypoint"} {
		if value := labels[name]; value != "" && value != "none" {
			findings = append(findings, Finding{
				Field: "metadata.labels[" + name + "]", Value: value,
				Why: "Lateen has no ambient mode; want sidecars, by " + injectionLabel + "=enabled",
			})
		}
	}
	if injection != "" && revision != "" {
		findings = append(findings, Finding{
			Field: "metadata.labels[" + kinds.RevisionLabel + "]", Value: revision,
			Why: "does not count beside " + injectionLabel + "=" + injection + "; want one of the two labels",
		})
	}
	if injection != "" && injection != "enabled" && injection != "disabled" {
		findings = append(findings, Finding{
			Field: "metadata.labels[" + injectionLabel + "]", Value: injection, Why: "want enabled or disabled",
		})
	}
	return findings
}

// Asks returns the label by which a namespace asks for proxies of a revision with these names (see
// NamesOf), as label=value, or "" if it does not. The label istio-injection speaks to the name
// "default", and counts alone.
func Asks(o *unstructured.Unstructured, names []string) string {
	injection, named := o.GetLabels()[injectionLabel], o.GetLabels()[kinds.RevisionLabel]
	switch {
	case injection == "enabled" && slices.Contains(names, "default"):
		return injectionLabel + "=" + injection
	case injection == "" && slices.Contains(names, named):
		return kinds.RevisionLabel + "=" + named
	}
	return ""
}

// Silent reports whether a namespace says nothing about proxies, so that its Pods may.
func Silent(o *unstructured.Unstructured) bool {
	return o.GetLabels()[injectionLabel] == "" && o.GetLabels()[kinds.RevisionLabel] == ""
}

// Sort puts verdicts in the order of their objects' names.
func Sort(all []Verdict) {
	slices.SortFunc(all, func(a, b Verdict) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
}
