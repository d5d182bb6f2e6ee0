package installer

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/lateen-mesh/lateen/internal/cli/command"
	"github.com/lateen-mesh/lateen/internal/cli/terminal"
	"github.com/lateen-mesh/lateen/internal/install"
	"github.com/lateen-mesh/lateen/internal/install/apply"
	"github.com/lateen-mesh/lateen/internal/install/spec"
)

// applyFlags are those of commands that change a cluster.
type applyFlags struct {
	input   inputFlags
	cluster clusterFlags
	// earlier is set if what is installed is where to start from, and reset if only that it is
	// installed counts.
	earlier, reset           bool
	dryRun, wait, force, yes bool
	out, notes               *terminal.Writer
}

func (f *applyFlags) bind(cmd *cobra.Command) {
	f.input.bind(cmd)
	f.cluster.bind(cmd)
	flags := cmd.Flags()
	flags.BoolVar(&f.dryRun, "dry-run", false, "ask what would become of each object, and change nothing")
	flags.BoolVar(&f.wait, "wait", true, "wait until all replicas are ready")
	flags.BoolVar(&f.force, "force-conflicts", false, "set fields anew that somebody else has set")
	flags.BoolVarP(&f.yes, "skip-confirmation", "y", false, "as in istioctl; nothing is asked")
}

func newInstall(out, notes *terminal.Writer) *cobra.Command {
	f := applyFlags{out: out, notes: notes}
	cmd := &cobra.Command{
		Use:   "install --image IMAGE",
		Short: "Install a control plane in a cluster, and gateways",
		Long: `Installs Istio's kinds, a control plane and gateways. It asks the API server about each object
first. If one is in the way that is not Lateen's, or is refused, nothing is changed. What is there
already stays or is brought up to date, so it may be run again.`,
		Example: `  lateen install --image registry.example.com/lateen:v1
  lateen install --image registry.example.com/lateen:v1 --revision canary
  lateen install --image registry.example.com/lateen:v1 -f operator.yaml --set pilot.replicaCount=3`,
		Args: command.Arguments(),
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	f.bind(cmd)
	return cmd
}

func newUpgrade(out, notes *terminal.Writer) *cobra.Command {
	f := applyFlags{out: out, notes: notes, earlier: true}
	cmd := &cobra.Command{
		Use:   "upgrade",
		Short: "Change what lateen install has installed",
		Long: `Starts from what is installed of the revision, puts flags and files on top, and applies the result
as lateen install does. What is no longer part of it is removed.`,
		Example: `  lateen upgrade --image registry.example.com/lateen:v2
  lateen upgrade --set pilot.autoscaleMax=8`,
		Args: command.Arguments(),
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	f.bind(cmd)
	cmd.Flags().BoolVar(&f.reset, "reset-values", false, "start from the defaults instead of what is installed")
	return cmd
}

func (f *applyFlags) run(cmd *cobra.Command) error {
	ctx, cancel, cluster, err := f.cluster.connect(cmd.Context())
	if err != nil {
		return err
	}
	defer cancel()
	s, steps, err := f.plan(ctx, cmd, cluster)
	if err != nil {
		return err
	}
	if f.dryRun {
		f.table(steps)
		return nil
	}
	err = cluster.Apply(ctx, steps, f.force, func(s apply.Step) {
		f.out.Line("%s %s", present(s.Action), apply.Name(s.Object))
	})
	if err != nil {
		return fmt.Errorf("%w; what is done so far stays, and the command may be run again", err)
	}
	f.tellKept(steps)
	if f.wait {
		told := func(text string) { f.notes.Line("waiting: %s", text) }
		if err := cluster.Wait(ctx, applied(steps), told); err != nil {
			return fmt.Errorf("%w; kubectl describe says more, and --timeout waits for longer", err)
		}
	}
	f.out.Line("%s", installedText(s, changes(steps)))
	return nil
}

// plan returns what to install, and the steps to it.
func (f *applyFlags) plan(ctx context.Context, cmd *cobra.Command, cluster *apply.Cluster,
) (*spec.Spec, []apply.Step, error) {
	if f.earlier {
		revision := f.input.in.Revision
		if revision == "" {
			revision = install.DefaultRevision
		}
		now, err := installed(ctx, cluster, revision)
		if err != nil {
			return nil, nil, fmt.Errorf("%w; want lateen install, or --revision", err)
		}
		if !f.reset {
			f.input.in.Earlier = now
		}
	}
	s, err := f.input.read(cmd, f.notes)
	if err != nil {
		return nil, nil, err
	}
	steps, err := planOf(ctx, cluster, s, apply.Options{Force: f.force})
	return s, steps, err
}

// planOf returns the steps to a spec. Nothing is changed.
func planOf(ctx context.Context, cluster *apply.Cluster, s *spec.Spec, o apply.Options) ([]apply.Step, error) {
	objects, err := withRecord(s, cluster)
	if err != nil {
		return nil, fmt.Errorf("nothing is changed:\n%w", err)
	}
	o.Revision = s.Owner()
	steps, err := cluster.Plan(ctx, objects, o)
	if err != nil {
		return nil, fmt.Errorf("nothing is changed:\n%w%s", err, beside(err, s))
	}
	left, err := cluster.Leftovers(ctx, objects, s.Owner())
	return slices.Concat(steps, left), err
}

// withRecord returns the objects of a spec, and the record of it. A nil cluster stands for one that
// is not asked.
func withRecord(s *spec.Spec, cluster spec.Lookup) ([]*unstructured.Unstructured, error) {
	objects, err := s.Objects(cluster)
	if err != nil || s.GatewaysOnly { // the record is a control plane's
		return objects, err
	}
	r, err := record(s)
	return append(objects, r), err
}

// beside says how to stand beside what is in the way.
func beside(err error, s *spec.Spec) string {
	var foreign *apply.ForeignError
	if !errors.As(err, &foreign) {
		return ""
	}
	revision := "lateen"
	if s.Revision() == revision {
		revision = "lateen-2"
	}
	return fmt.Sprintf("\nTo stand beside it: lateen install --revision %s, and label a namespace istio.io/rev=%[1]s",
		revision)
}

// applied are the objects that are there after the steps.
func applied(steps []apply.Step) []*unstructured.Unstructured {
	var all []*unstructured.Unstructured
	for _, s := range steps {
		if s.Action != apply.Remove {
			all = append(all, s.Object)
		}
	}
	return all
}

func changes(steps []apply.Step) int {
	n := 0
	for _, s := range steps {
		if s.Action != apply.Same && s.Action != apply.Keep {
			n++
		}
	}
	return n
}

func present(a apply.Action) string {
	switch a {
	case apply.Create:
		return "creating"
	case apply.Remove:
		return "removing"
	}
	return "changing"
}

func installedText(s *spec.Spec, changed int) string {
	if changed == 0 && !s.GatewaysOnly {
		return fmt.Sprintf("revision %s in %s is installed already: nothing has changed", s.Revision(), s.Root())
	}
	if s.GatewaysOnly {
		return fmt.Sprintf("%d gateways are installed; lateen uninstall --revision %s removes them", len(s.Gateways),
			s.Owner())
	}
	label := "istio-injection=enabled"
	if s.Revision() != install.DefaultRevision {
		label = "istio.io/rev=" + s.Revision()
	}
	return fmt.Sprintf("revision %s in %s is installed; kubectl label namespace NAME %s gives new Pods their proxies",
		s.Revision(), s.Root(), label)
}

// tellKept says which fields stay because somebody else has set them, and what is somebody else's.
func (f *applyFlags) tellKept(steps []apply.Step) {
	kinds := 0
	for _, s := range steps {
		for _, field := range s.Kept {
			f.notes.Line("%s: %s stays as somebody else has set it", apply.Name(s.Object), field)
		}
		if s.Action != apply.Keep {
			continue
		}
		switch s.Object.GetKind() {
		case "CustomResourceDefinition":
			kinds++
		case "PeerAuthentication", "DestinationRule":
			f.notes.Line("%s stays as somebody else has made it", apply.Name(s.Object))
		}
	}
	if kinds > 0 {
		f.notes.Line("%d definitions of Istio's kinds stay: somebody else has installed them", kinds)
	}
}

// table prints what would become of each object.
func (f *applyFlags) table(steps []apply.Step) {
	table := terminal.Table{Header: []string{"OBJECT", "WOULD BE"}}
	for _, s := range steps {
		table.Row(apply.Name(s.Object), string(s.Action))
	}
	f.out.Table(table)
	f.tellKept(steps)
}
