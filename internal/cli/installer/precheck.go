package installer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/lateen-mesh/lateen/internal/cli/command"
	"github.com/lateen-mesh/lateen/internal/cli/terminal"
	"github.com/lateen-mesh/lateen/internal/cluster/inject"
	"github.com/lateen-mesh/lateen/internal/install/apply"
	"github.com/lateen-mesh/lateen/internal/install/precheck"
	"github.com/lateen-mesh/lateen/internal/install/spec"
)

// precheckFlags say what would be installed, and how to print.
type precheckFlags struct {
	input   inputFlags
	cluster clusterFlags
	all     bool
	output  string
}

func newPrecheck(out, notes *terminal.Writer) *cobra.Command {
	var f precheckFlags
	cmd := &cobra.Command{
		Use:   "precheck [DIRECTORY|FILE]...",
		Short: "Say of each object of a cluster or of files whether it would be in force with Lateen",
		Long: `Looks at the objects of Istio, Services, Ingresses and namespaces of a cluster, at the
variables of a running istiod, at who injects Pods of the namespaces that ask for proxies of the
revision, and at the templates of Pods that Istio or Lateen injects, and asks the API server what
lateen install with the same flags would do. Nothing is changed. For each object it says go, or no go
with the field that would not be in force, differs: the field is in force and works otherwise than
with istiod, or warned: it is probably not what was meant, with istiod neither. The exit code is 1 if
there is a no go.

With directories or files it reads these in place of a cluster, and asks no API server.`,
		Example: `  lateen precheck
  lateen precheck --revision lateen -f operator.yaml --all
  lateen precheck deploy/ istio/mesh.yaml`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, paths []string) error { return f.run(cmd, out, notes, paths) },
	}
	f.input.bind(cmd)
	f.cluster.bind(cmd)
	cmd.Flags().BoolVar(&f.all, "all", false, "list the objects without findings too")
	cmd.Flags().StringVarP(&f.output, "output", "o", "table", "table or json")
	command.OneOf(cmd, "output", &f.output, "table", "json")
	return cmd
}

func (f *precheckFlags) run(cmd *cobra.Command, out, notes *terminal.Writer, paths []string) error {
	if f.input.in.Image == "" {
		f.input.in.Image = "precheck" // which image it is makes no difference
	}
	verdicts, err := f.judge(cmd, notes, paths)
	if err != nil {
		return err
	}
	noGo := 0
	for i := range verdicts {
		if !verdicts[i].Go() {
			noGo++
		}
	}
	if f.output == "json" {
		if verdicts == nil {
			verdicts = []precheck.Verdict{} // a list in JSON too
		}
		encoder := json.NewEncoder(cmd.OutOrStdout())
		encoder.SetIndent("", "  ")
		if err := encoder.Encode(verdicts); err != nil {
			return err
		}
	} else {
		f.table(out, verdicts)
		out.Line("%d of %d objects: go", len(verdicts)-noGo, len(verdicts))
	}
	if noGo > 0 {
		return command.ErrFailed
	}
	return nil
}

// judge returns the verdicts on files, or on a cluster where there are none.
func (f *precheckFlags) judge(cmd *cobra.Command, notes *terminal.Writer, paths []string) ([]precheck.Verdict, error) {
	if len(paths) > 0 {
		files, err := readManifests(paths)
		if err != nil {
			return nil, err
		}
		s, err := f.input.read(cmd, notes)
		if err != nil {
			return nil, err
		}
		j := judgement{estate: files, spec: s}
		verdicts, err := j.verdicts(cmd.Context())
		return append(verdicts, files.broken...), err
	}
	ctx, cancel, cluster, err := f.cluster.connect(cmd.Context())
	if err != nil {
		return nil, err
	}
	defer cancel()
	s, err := f.input.read(cmd, notes)
	if err != nil {
		return nil, err
	}
	j := judgement{estate: cluster, cluster: cluster, spec: s}
	verdicts, err := j.verdicts(ctx)
	if err != nil {
		return nil, err
	}
	return append(verdicts, j.installation(ctx)), nil
}

// judgement judges an estate for what would be installed in it.
type judgement struct {
	estate  estate
	cluster *apply.Cluster // nil for files
	spec    *spec.Spec
}

// installation is the verdict on lateen install itself.
func (j *judgement) installation(ctx context.Context) precheck.Verdict {
	v := precheck.Verdict{Kind: "installation", Name: "revision " + j.spec.Revision()}
	objects, err := j.spec.Objects(j.cluster)
	if err == nil {
		_, err = j.cluster.Plan(ctx, objects, apply.Options{Revision: j.spec.Owner()})
	}
	if err != nil {
		v.Findings = linesOf(err.Error() + beside(err, j.spec))
	}
	return v
}

// linesOf makes a finding of each line.
func linesOf(text string) (all []precheck.Finding) {
	for line := range strings.Lines(text) {
		all = append(all, precheck.Finding{Why: strings.TrimSpace(line)})
	}
	return all
}

// verdicts returns those on the objects of the cluster.
func (j *judgement) verdicts(ctx context.Context) ([]precheck.Verdict, error) {
	config, err := meshConfig(ctx, j.estate, j.spec)
	if err != nil {
		return nil, err
	}
	checker, verdict := precheck.New(j.spec.Root(), config)
	checker.Discovery = j.spec.Names().Discovery()
	var all []precheck.Verdict
	if verdict != nil {
		all = append(all, *verdict)
	}
	namespaces, others, err := namespacesAndWebhooks(ctx, j.estate)
	if err != nil {
		return nil, err
	}
	checker.Known = precheck.Known(j.spec.Revision(), others)
	for _, d := range precheck.Kinds() {
		err := j.each(ctx, d.APIVersions()[0], string(d.Kind), func(o *unstructured.Unstructured) {
			all = append(all, checker.Check(o))
		})
		if err != nil {
			return nil, err
		}
	}
	for i := range namespaces {
		v := precheck.Namespace(&namespaces[i], j.spec.Revision(), others)
		v.Warnings = append(v.Warnings, checker.Unnamed(namespaces[i].GetLabels(), "metadata")...)
		all = append(all, v)
	}
	all = append(all, precheck.TagWebhooks(others, j.spec.Revision())...)
	workloads, err := j.workloads(ctx, checker, config, namespaces)
	if err != nil {
		return nil, err
	}
	remote, err := j.remoteClusters(ctx)
	if err != nil {
		return nil, err
	}
	all = slices.Concat(all, workloads, remote)
	checker.Compare(all)
	precheck.Sort(all)
	return all, nil
}

// each calls f with the objects of a kind. There are none of a kind that the cluster has not.
func (j *judgement) each(ctx context.Context, apiVersion, kind string, f func(*unstructured.Unstructured)) error {
	list, err := j.estate.List(ctx, apiVersion, kind)
	if errors.Is(err, apply.ErrNoKind) || apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading the objects of kind %s: %w", kind, err)
	}
	for i := range list.Items {
		f(&list.Items[i])
	}
	return nil
}

// workloads returns the verdicts on workloads, by the injection that would be installed.
func (j *judgement) workloads(
	ctx context.Context, checker *precheck.Checker, mesh *corev1.ConfigMap, namespaces []unstructured.Unstructured,
) ([]precheck.Verdict, error) {
	injector, err := j.injector(mesh)
	if err != nil {
		return []precheck.Verdict{{
			Kind: "injection", Name: "revision " + j.spec.Revision(), Findings: linesOf(err.Error()),
		}}, nil
	}
	labels := map[string]map[string]string{}
	for i := range namespaces {
		labels[namespaces[i].GetName()] = namespaces[i].GetLabels()
	}
	var all []precheck.Verdict
	for _, kind := range precheck.WorkloadKinds() {
		err := j.each(ctx, kind.APIVersion, kind.Kind, func(o *unstructured.Unstructured) {
			if v, ok := precheck.Istiod(o); ok {
				all = append(all, v)
			}
			if v, ok := precheck.NodeAgent(o, injector); ok {
				all = append(all, v)
			}
			if v, ok := checker.Workload(injector, o, labels[o.GetNamespace()]); ok {
				all = append(all, v)
			}
		})
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

// remoteClusters returns the verdicts on the Secrets by which istiod reads other clusters. What is
// in them is not read.
func (j *judgement) remoteClusters(ctx context.Context) ([]precheck.Verdict, error) {
	names, err := j.estate.Secrets(ctx, j.spec.Root(), precheck.RemoteCluster)
	if apierrors.IsForbidden(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("listing the Secrets of other clusters: %w", err)
	}
	var all []precheck.Verdict
	for _, name := range names {
		all = append(all, precheck.OtherCluster(j.spec.Root(), name))
	}
	return all, nil
}

// injector returns the injection as it would be installed, with the mesh configuration of the
// cluster, if there is one. What cannot be rendered is the verdict of the installation, and is
// judged by the defaults here.
func (j *judgement) injector(mesh *corev1.ConfigMap) (*inject.Injector, error) {
	var texts inject.Texts
	var asked spec.Lookup
	if j.cluster != nil {
		asked = j.cluster
	}
	objects, _ := j.spec.Objects(asked)
	for _, o := range objects {
		data, _, _ := unstructured.NestedStringMap(o.Object, "data")
		switch {
		case o.GetKind() != "ConfigMap":
		case o.GetName() == j.spec.Names().InjectorConfig:
			texts.Config, texts.Values = data[inject.ConfigKey], data[inject.ValuesKey]
		case o.GetName() == j.spec.Names().MeshConfig:
			texts.Mesh = data["mesh"]
		}
	}
	if mesh != nil {
		texts.Mesh = mesh.Data["mesh"]
	}
	return inject.New(inject.Options{Namespace: j.spec.Root(), Revision: j.spec.Revision()}, texts)
}

func (f *precheckFlags) table(out *terminal.Writer, verdicts []precheck.Verdict) {
	table := terminal.Table{Header: []string{"OBJECT", "VERDICT", "FIELD", "WHY"}}
	for i := range verdicts {
		v := &verdicts[i]
		if v.Go() && len(v.Differences)+len(v.Warnings) == 0 && f.all {
			table.Row(v.Object(), "go", "", "")
		}
		rows := func(verdict string, findings []precheck.Finding) {
			for _, finding := range findings {
				field := finding.Field
				if finding.Value != "" {
					field += " = " + finding.Value
				}
				table.Row(v.Object(), verdict, field, finding.Why)
			}
		}
		rows("no go", v.Findings)
		rows("warned", v.Warnings)
		rows("differs", v.Differences)
	}
	if len(table.Rows) > 0 {
		out.Table(table)
	}
}
