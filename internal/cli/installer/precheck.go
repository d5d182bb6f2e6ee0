package installer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/lateen-mesh/lateen/internal/cli/command"
	"github.com/lateen-mesh/lateen/internal/cli/terminal"
	"github.com/lateen-mesh/lateen/internal/cluster/apply"
	"github.com/lateen-mesh/lateen/internal/cluster/precheck"
	"github.com/lateen-mesh/lateen/internal/cluster/spec"
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
		Use:   "precheck",
		Short: "Say of each object of a cluster whether it would be in force with Lateen",
		Long: `Looks at the objects of Istio, Services, Ingresses and namespaces of a cluster, and at who injects Pods
of the namespaces that ask for proxies of the revision, and asks the API server what lateen install with
the same flags would do. Nothing is changed. For each object it says go, or no go with the field that would
not be in force, or differs: the field is in force, and works otherwise than with istiod. The exit code is 1
if there is a no go.`,
		Example: `  lateen precheck
  lateen precheck --revision lateen -f operator.yaml --all`,
		Args: command.Arguments(),
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd, out, notes) },
	}
	f.input.bind(cmd)
	f.cluster.bind(cmd)
	cmd.Flags().BoolVar(&f.all, "all", false, "list the objects without findings too")
	cmd.Flags().StringVarP(&f.output, "output", "o", "table", "table or json")
	command.OneOf(cmd, "output", &f.output, "table", "json")
	return cmd
}

func (f *precheckFlags) run(cmd *cobra.Command, out, notes *terminal.Writer) error {
	ctx, cancel, cluster, err := f.cluster.connect(cmd.Context())
	if err != nil {
		return err
	}
	defer cancel()
	if f.input.in.Image == "" {
		f.input.in.Image = "precheck" // which image it is makes no difference
	}
	s, err := f.input.read(cmd, notes)
	if err != nil {
		return err
	}
	verdicts, err := judge(ctx, cluster, s)
	if err != nil {
		return err
	}
	verdicts = append(verdicts, installation(ctx, cluster, s))
	noGo := 0
	for i := range verdicts {
		if !verdicts[i].Go() {
			noGo++
		}
	}
	if f.output == "json" {
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

// installation is the verdict on lateen install itself.
func installation(ctx context.Context, cluster *apply.Cluster, s *spec.Spec) precheck.Verdict {
	v := precheck.Verdict{Kind: "installation", Name: "revision " + s.Revision()}
	objects, err := s.Objects(cluster)
	if err == nil {
		_, err = cluster.Plan(ctx, objects, apply.Options{Revision: s.Revision()})
	}
	if err != nil {
		for line := range strings.Lines(err.Error() + beside(err, s)) {
			v.Findings = append(v.Findings, precheck.Finding{Why: strings.TrimSpace(line)})
		}
	}
	return v
}

// judge returns the verdicts on the objects of the cluster.
func judge(ctx context.Context, cluster *apply.Cluster, s *spec.Spec) ([]precheck.Verdict, error) {
	config, err := meshConfig(ctx, cluster, s)
	if err != nil {
		return nil, err
	}
	checker, verdict := precheck.New(s.Root(), config)
	var all []precheck.Verdict
	if verdict != nil {
		all = append(all, *verdict)
	}
	for _, d := range precheck.Kinds() {
		apiVersion := d.APIVersions()[0]
		list, err := cluster.List(ctx, apiVersion, string(d.Kind))
		if errors.Is(err, apply.ErrNoKind) || apierrors.IsNotFound(err) {
			continue // there are no objects of a kind that there is not
		}
		if err != nil {
			return nil, fmt.Errorf("reading the objects of kind %s: %w", d.Kind, err)
		}
		for i := range list.Items {
			all = append(all, checker.Check(&list.Items[i]))
		}
	}
	namespaces, err := cluster.List(ctx, "v1", "Namespace")
	if err != nil {
		return nil, err
	}
	others, err := cluster.List(ctx, "admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration")
	if err != nil {
		return nil, err
	}
	for i := range namespaces.Items {
		all = append(all, precheck.Namespace(&namespaces.Items[i], s.Revision(), others.Items))
	}
	checker.Compare(all)
	precheck.Sort(all)
	return all, nil
}

// meshConfig returns the mesh configuration of the cluster: that of the revision, or Istio's.
func meshConfig(ctx context.Context, cluster *apply.Cluster, s *spec.Spec) (*corev1.ConfigMap, error) {
	client, _, err := cluster.GetClientFor("v1", "ConfigMap")
	if err != nil {
		return nil, err
	}
	for _, name := range []string{s.Names().MeshConfig, "istio"} {
		o, err := client.Namespace(s.Root()).Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		config := &corev1.ConfigMap{}
		return config, runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, config)
	}
	return nil, nil
}

func (f *precheckFlags) table(out *terminal.Writer, verdicts []precheck.Verdict) {
	table := terminal.Table{Header: []string{"OBJECT", "VERDICT", "FIELD", "WHY"}}
	for i := range verdicts {
		v := &verdicts[i]
		if v.Go() && len(v.Differences) == 0 && f.all {
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
		rows("differs", v.Differences)
	}
	if len(table.Rows) > 0 {
		out.Table(table)
	}
}
