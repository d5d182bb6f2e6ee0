package installer

import (
	"cmp"
	"context"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/lateen-mesh/lateen/internal/cli/command"
	"github.com/lateen-mesh/lateen/internal/cli/terminal"
	"github.com/lateen-mesh/lateen/internal/install"
	"github.com/lateen-mesh/lateen/internal/install/apply"
)

func newVerify(out *terminal.Writer) *cobra.Command {
	var f clusterFlags
	var revision string
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Check that what is installed is as lateen install left it, and works",
		Long: `Compares each object in the cluster with what lateen install has recorded, and looks at replicas and
webhooks. In each namespace that asks for proxies of the revision it asks the API server what a new Pod
would be, and whether its proxy is there; nothing is stored. The exit code is 1 if something is missing,
differs or does not work.`,
		Example: `  lateen verify
  lateen verify --revision canary`,
		Args: command.Arguments(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.with(cmd.Context(), func(ctx context.Context, cluster *apply.Cluster) error {
				return verify(ctx, cluster, revision, out)
			})
		},
	}
	f.bind(cmd)
	cmd.Flags().StringVar(&revision, "revision", install.DefaultRevision, "which control plane")
	command.ValidateFlag(cmd.Flags(), "revision", func() error { return dnsLabel(revision) })
	return cmd
}

func verify(ctx context.Context, cluster *apply.Cluster, revision string, out *terminal.Writer) error {
	s, err := installed(ctx, cluster, revision)
	if err != nil {
		return err
	}
	steps, err := planOf(ctx, cluster, s, apply.Options{Report: true})
	if err != nil {
		return err
	}
	table, wrong := terminal.Table{Header: []string{"OBJECT", "STATE"}}, 0
	for _, step := range steps {
		state := stateOf(step)
		if state != "" {
			wrong++
		}
		if step.Object.GetKind() == "CustomResourceDefinition" && state == "" {
			continue
		}
		table.Row(apply.Name(step.Object), cmp.Or(state, "ok"))
	}
	namespaces, err := tryInjection(ctx, cluster, s.Revision())
	if err != nil {
		return err
	}
	for _, n := range namespaces {
		if n.wrong != "" {
			wrong++
		}
		table.Row("Namespace "+n.namespace, cmp.Or(n.wrong, "ok: a new Pod gets its proxy"))
	}
	out.Table(table)
	if wrong > 0 {
		out.Line("%d of %d objects are not as they should be", wrong, len(steps)+len(namespaces))
		return command.ErrFailed
	}
	out.Line("revision %s in %s: %d objects are as installed, and Pods get their proxies", s.Revision(), s.Root(),
		len(steps))
	return nil
}

// stateOf says what is wrong with an object; empty: nothing.
func stateOf(s apply.Step) string {
	if len(s.Conflicts) > 0 {
		return "somebody else has set " + strings.Join(s.Conflicts, ", ")
	}
	switch s.Action {
	case apply.Create:
		return "is missing"
	case apply.Change:
		return "differs; lateen diff shows how"
	case apply.Remove:
		return "is left over"
	}
	if why := apply.Unready(s.Live); why != "" {
		return why
	}
	if webhooks, isWebhook, _ := unstructured.NestedSlice(s.Live.Object, "webhooks"); isWebhook {
		for _, w := range webhooks {
			of, _ := w.(map[string]any)
			if bundle, _, _ := unstructured.NestedString(of, "clientConfig", "caBundle"); bundle == "" {
				return "has no roots yet: no replica leads"
			}
		}
	}
	return ""
}
