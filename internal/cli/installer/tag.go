package installer

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/cli/command"
	"github.com/lateen-mesh/lateen/internal/cli/terminal"
	"github.com/lateen-mesh/lateen/internal/install/apply"
	"github.com/lateen-mesh/lateen/internal/install/render"
	"github.com/lateen-mesh/lateen/internal/install/spec"
	"github.com/lateen-mesh/lateen/internal/install/tags"
)

// tagFlags are those of the commands for tags.
type tagFlags struct {
	cluster    clusterFlags
	namespace  string
	out, notes *terminal.Writer
}

func (f *tagFlags) bind(cmd *cobra.Command) {
	f.cluster.bind(cmd)
	cmd.Flags().StringVar(&f.namespace, "namespace", spec.DefaultNamespace, "the root namespace")
	command.ValidateFlag(cmd.Flags(), "namespace", func() error { return dnsLabel(f.namespace) })
}

// with does something with the cluster and what it has of tags.
func (f *tagFlags) with(cmd *cobra.Command, do func(context.Context, *apply.Cluster, *tags.State) error) error {
	return f.cluster.with(cmd.Context(), func(ctx context.Context, cluster *apply.Cluster) error {
		state, err := stateOfTags(ctx, cluster, f.namespace)
		if err != nil {
			return err
		}
		return do(ctx, cluster, state)
	})
}

func newTag(out, notes *terminal.Writer) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "tag",
		Short: "Give a revision a second name, by which namespaces and objects may name it",
		Long: `A tag is a name that stands for a revision. Namespaces, Pods, objects of Istio and Gateways name it
as they name a revision, by the label istio.io/rev. When the tag moves to another revision, they need no
other label: new Pods get the proxies of that one. Tags of istioctl and of Helm are the same objects.`,
		Example: `  lateen tag set prod --revision v2
  lateen tag list`,
	}
	cmd.AddCommand(newTagSet(out, notes), newTagList(out), newTagRemove(out), newTagGenerate())
	return cmd
}

// bindWish binds what a tag is to be.
func (f *tagFlags) bindWish(cmd *cobra.Command, w *tags.Wish) {
	f.bind(cmd)
	flags := cmd.Flags()
	flags.StringVarP(&w.Revision, "revision", "r", "", "the revision that the tag stands for")
	flags.BoolVar(&w.AllNamespaces, "auto-inject-namespaces", false,
		"with the tag default: inject Pods of namespaces without a label too")
	command.ValidateFlag(flags, "revision", func() error { return dnsLabel(w.Revision) })
	_ = cmd.MarkFlagRequired("revision")
}

// tagName checks the name of a tag. It is a part of the name of a Service.
func tagName(name string) error {
	const longest = 63 - len("istiod-revision-tag-")
	if dnsLabel(name) != nil || len(name) > longest {
		return fmt.Errorf("%q: want a name of small letters, digits and dashes, %d at most, that begins and ends with "+
			"a letter or a digit", name, longest)
	}
	return nil
}

// oneTag requires the name of a tag.
func oneTag(cmd *cobra.Command, args []string) error {
	if err := command.Arguments("NAME")(cmd, args); err != nil {
		return err
	}
	return tagName(args[0])
}

func newTagList(out *terminal.Writer) *cobra.Command {
	f := tagFlags{out: out}
	var output string
	cmd := &cobra.Command{
		Use:     "list",
		Aliases: []string{"show"},
		Short:   "List the tags, their revisions and the namespaces that name them",
		Example: `  lateen tag list
  lateen tag list -o json`,
		Args: command.Arguments(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.with(cmd, func(_ context.Context, _ *apply.Cluster, state *tags.State) error {
				if all := state.All(); output != "table" {
					return command.PrintAs(cmd.OutOrStdout(), output, all)
				} else if len(all) == 0 {
					out.Line("there are no tags")
				} else {
					out.Table(tableOf(all))
				}
				return nil
			})
		},
	}
	f.bind(cmd)
	command.BindOutput(cmd, &output)
	return cmd
}

func tableOf(all []tags.Tag) terminal.Table {
	table := terminal.Table{Header: []string{"TAG", "REVISION", "ALSO READ BY", "NAMESPACES"}}
	for _, t := range all {
		table.Row(t.Name, t.Revision, strings.Join(t.AlsoReadBy, ", "), strings.Join(t.Namespaces, ", "))
	}
	return table
}

func newTagGenerate() *cobra.Command {
	var f tagFlags
	var w tags.Wish
	cmd := &cobra.Command{
		Use:   "generate NAME --revision REVISION",
		Short: "Print the objects of a tag, as YAML for kubectl apply",
		Example: `  lateen tag generate prod --revision v2 > tag.yaml
  lateen tag generate prod --revision v2 | kubectl apply -f -`,
		Args: oneTag,
		RunE: func(cmd *cobra.Command, args []string) error {
			w.Name, w.Root, w.Overwrite = args[0], f.namespace, true
			return f.with(cmd, func(_ context.Context, _ *apply.Cluster, state *tags.State) error {
				if err := state.Check(w); err != nil {
					return err
				}
				made, err := state.Make(w)
				if err != nil {
					return err
				}
				return render.Write(cmd.OutOrStdout(), []*unstructured.Unstructured{made.Webhook, made.Service})
			})
		},
	}
	f.bindWish(cmd, &w)
	return cmd
}

func newTagRemove(out *terminal.Writer) *cobra.Command {
	f := tagFlags{out: out}
	var yes bool
	cmd := &cobra.Command{
		Use:     "remove NAME",
		Aliases: []string{"delete"},
		Short:   "Remove a tag",
		Long: `Removes the objects of a tag, whoever has made them. Namespaces that still name it are told, and
nothing is removed: their new Pods would start without a proxy, outside of the mesh. With
--skip-confirmation the tag is removed all the same.`,
		Example: `  lateen tag remove prod
  lateen tag remove prod --skip-confirmation`,
		Args: oneTag,
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.with(cmd, func(ctx context.Context, cluster *apply.Cluster, state *tags.State) error {
				return f.remove(ctx, cluster, state, removal{args[0], yes})
			})
		},
	}
	f.bind(cmd)
	cmd.Flags().BoolVarP(&yes, "skip-confirmation", "y", false, "remove the tag while namespaces name it")
	cmd.Flags().BoolVar(&yes, "yes", false, "the same")
	return cmd
}

// removal is which tag to remove, and whether namespaces may name it.
type removal struct {
	name string
	yes  bool
}

func (f *tagFlags) remove(ctx context.Context, cluster *apply.Cluster, state *tags.State, r removal) error {
	tag, exists := state.Get(r.name)
	if !exists {
		return fmt.Errorf("there is no tag %s%s", r.name, wanted(state))
	}
	if len(tag.Namespaces) > 0 && !r.yes {
		return fmt.Errorf("nothing is removed: the tag %s is named by the namespaces %s, and their new Pods would "+
			"start without a proxy; want other labels there, or --skip-confirmation", r.name,
			strings.Join(tag.Namespaces, ", "))
	}
	for _, o := range state.ObjectsOf(r.name) {
		f.out.Line("removing %s", apply.Name(o))
		if err := cluster.Remove(ctx, o); err != nil {
			return fmt.Errorf("%w; the command may be run again", err)
		}
	}
	f.out.Line("the tag %s is removed; objects that name it are not read any more", r.name)
	return nil
}

// wanted says which tags there are.
func wanted(state *tags.State) string {
	var names []string
	for _, t := range state.All() {
		names = append(names, t.Name)
	}
	if len(names) == 0 {
		return ", nor any other"
	}
	return "; want one of " + strings.Join(names, ", ")
}

// stateOfTags reads what decides about tags.
func stateOfTags(ctx context.Context, cluster *apply.Cluster, root string) (*tags.State, error) {
	namespaces, webhooks, err := namespacesAndWebhooks(ctx, cluster)
	if err != nil {
		return nil, fmt.Errorf("reading the tags: %w", err)
	}
	state := &tags.State{Webhooks: webhooks, Namespaces: namespaces}
	roots := append(state.Roots(), root)
	slices.Sort(roots)
	service := schema.GroupVersionKind{Version: "v1", Kind: "Service"}
	for _, namespace := range slices.Compact(roots) {
		services, err := cluster.ListIn(ctx, service, namespace, kinds.RevisionLabel)
		if err != nil {
			return nil, fmt.Errorf("reading the tags: %w", err)
		}
		state.Services = append(state.Services, services...)
	}
	return state, nil
}
