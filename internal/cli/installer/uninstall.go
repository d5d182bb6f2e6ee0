package installer

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/lateen-mesh/lateen/internal/cli/command"
	"github.com/lateen-mesh/lateen/internal/cli/terminal"
	"github.com/lateen-mesh/lateen/internal/install"
	"github.com/lateen-mesh/lateen/internal/install/apply"
	"github.com/lateen-mesh/lateen/internal/install/precheck"
)

func newUninstall(out *terminal.Writer) *cobra.Command {
	var f clusterFlags
	var revision string
	var dryRun, yes bool
	cmd := &cobra.Command{
		Use:   "uninstall",
		Short: "Remove what lateen install has installed of a revision",
		Long: `Removes the objects of a revision that lateen install has applied: webhooks first, so that no Pod
waits for what is gone. Namespaces, Istio's kinds with all their objects, and the root of the mesh stay.
Namespaces that still ask for proxies of the revision are named: their new Pods would start without.`,
		Example: `  lateen uninstall
  lateen uninstall --revision canary --dry-run`,
		Args: command.Arguments(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.with(cmd.Context(), func(ctx context.Context, cluster *apply.Cluster) error {
				return uninstall(ctx, cluster, revision, dryRun, out)
			})
		},
	}
	f.bind(cmd)
	flags := cmd.Flags()
	flags.StringVar(&revision, "revision", install.DefaultRevision, "which control plane")
	flags.BoolVar(&dryRun, "dry-run", false, "say what would be removed, and remove nothing")
	flags.BoolVarP(&yes, "skip-confirmation", "y", false, "as in istioctl; nothing is asked")
	command.ValidateFlag(flags, "revision", func() error { return dnsLabel(revision) })
	return cmd
}

// warnOfAsking names the namespaces whose labels ask for proxies of a revision. Once its webhook is
// gone, nobody answers, and their new Pods are outside of the mesh.
func warnOfAsking(ctx context.Context, cluster *apply.Cluster, revision string, out *terminal.Writer) error {
	namespaces, webhooks, err := namespacesAndWebhooks(ctx, cluster)
	if err != nil {
		return err
	}
	names := precheck.NamesOf(revision, webhooks)
	for _, tag := range names {
		if tag != revision {
			out.Line("warning: the tag %s stands for revision %s: unless it goes too, new Pods that name it are "+
				"refused; want lateen tag set %[1]s --revision OTHER --overwrite, or lateen tag remove %[1]s", tag,
				revision)
		}
	}
	for i := range namespaces {
		n := &namespaces[i]
		if label := precheck.Asks(n, names); label != "" {
			out.Line("warning: namespace %s still asks for proxies of revision %s (%s): without it new Pods get none, "+
				"and proxies that run get no changes", n.GetName(), revision, label)
		}
	}
	return nil
}

func uninstall(ctx context.Context, cluster *apply.Cluster, revision string, dryRun bool, out *terminal.Writer) error {
	steps, err := cluster.Leftovers(ctx, nil, revision)
	if err != nil {
		return err
	}
	if len(steps) == 0 {
		_, err := installed(ctx, cluster, revision)
		return err
	}
	namespace := ""
	for _, s := range steps {
		if dryRun {
			out.Line("would remove %s", apply.Name(s.Object))
		}
		if s.Object.GetKind() == "Deployment" && s.Object.GetLabels()["app.kubernetes.io/name"] == "lateen" {
			namespace = s.Object.GetNamespace()
		}
	}
	if err := warnOfAsking(ctx, cluster, revision, out); err != nil || dryRun {
		return err
	}
	err = cluster.Apply(ctx, steps, false, func(s apply.Step) { out.Line("removing %s", apply.Name(s.Object)) })
	if err != nil {
		return fmt.Errorf("%w; the command may be run again", err)
	}
	if namespace != "" {
		lease := schema.GroupVersionKind{Group: "coordination.k8s.io", Version: "v1", Kind: "Lease"}
		if err := cluster.RemoveNamed(ctx, lease, namespace, install.NamesOf(namespace, revision).Lease); err != nil {
			return err
		}
	}
	out.Line("revision %s is removed; namespaces, Istio's kinds and the root of the mesh stay", revision)
	return nil
}
