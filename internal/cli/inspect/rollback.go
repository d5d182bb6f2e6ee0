package inspect

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/lateen-mesh/lateen/internal/admin/page"
	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/cli/command"
	"github.com/lateen-mesh/lateen/internal/cli/remote"
	"github.com/lateen-mesh/lateen/internal/cli/terminal"
)

// rollbackManager is the name under which an API server keeps what --apply has set.
const rollbackManager = "lateen-rollback"

type rollbackFlags struct {
	remote                remote.Remote
	to, object, namespace string
	apply, yes            bool
	output                string
}

// Rollback returns the command rollback.
func Rollback(out *terminal.Writer) *cobra.Command { return rollbackCommand(out, &remote.Remote{}) }

func rollbackCommand(out *terminal.Writer, r *remote.Remote) *cobra.Command {
	f := rollbackFlags{remote: *r}
	f.remote.AlsoCluster = true
	cmd := &cobra.Command{
		Use:   "rollback --to TIME",
		Short: "The patches that make objects what they were at an earlier time",
		Long: `Prints a kubectl command for each object that changed since a time, which makes its spec what it was
then: a patch, a deletion of what was made since, a creation of what is gone. Labels and annotations stay.
Objects of Istio, the Gateway API and Lateen are restored, and no others; of one that could not be read
whole, or may have changed while the control plane was away, the command says that it is not remembered.

With --apply it shows what that does to the proxies, as lateen plan, asks, and does it.`,
		Example: `  lateen rollback --to 14:00 --object VirtualService/shop/checkout
  lateen rollback --to 10m -n shop --apply
  lateen rollback --to 14:00 -o yaml`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd, out) },
	}
	f.remote.Bind(cmd)
	command.BindOutput(cmd, &f.output)
	flags := cmd.Flags()
	flags.StringVar(&f.to, "to", "", "a duration ago (1h), a time of the day (14:02) or RFC 3339")
	flags.StringVar(&f.object, "object", "", "only this object: KIND/NAMESPACE/NAME")
	flags.StringVarP(&f.namespace, remote.FlagNamespace, "n", "", "only objects of this namespace")
	flags.BoolVar(&f.apply, "apply", false, "do it in the cluster, after a plan and a question")
	flags.BoolVar(&f.yes, "yes", false, "do not ask")
	_ = cmd.MarkFlagRequired("to")
	cmd.MarkFlagsMutuallyExclusive("object", remote.FlagNamespace)
	return cmd
}

func (f *rollbackFlags) run(cmd *cobra.Command, out *terminal.Writer) error {
	earlier, err := f.ask(cmd.Context())
	switch {
	case err != nil:
		return err
	case f.output != "table" && !f.apply:
		return command.PrintAs(cmd.OutOrStdout(), f.output, earlier)
	case len(earlier.Objects) == 0:
		out.Line("no object that can be restored changed since %s", earlier.At.Local().Format(time.DateTime))
		return nil
	}
	for i := range earlier.Objects {
		text, err := restoring(&earlier.Objects[i])
		if err != nil {
			return err
		}
		out.Line("%s", text)
	}
	if slices.ContainsFunc(earlier.Objects, func(o page.EarlierObject) bool { return o.Verb == page.Created }) {
		out.Line("# what is created has the labels and annotations that the control plane reads, and no others")
	}
	for _, at := range earlier.Restarts {
		out.Line("# the control plane started at %s: what changed while it was away is not known",
			at.Local().Format(time.DateTime))
	}
	if !f.apply {
		return nil
	}
	return f.restore(cmd, out, earlier)
}

// ask returns what the objects were, as the replica says that remembers the most.
func (f *rollbackFlags) ask(ctx context.Context) (earlier *page.Restoration, err error) {
	q := page.HistoryQuestion{Object: page.ObjectQuestion{Namespace: f.namespace}}
	if q.Since, err = timeOf(f.to, time.Now()); err != nil {
		return nil, fmt.Errorf("--to: %w", err)
	}
	if f.object != "" {
		if q.Object, err = objectOf(f.object); err != nil {
			return nil, fmt.Errorf("--object: %w", err)
		}
		if k := kinds.Kind(q.Object.Kind); !kinds.Of(k).Custom {
			return nil, fmt.Errorf("--object: a %s is not kept whole; want a kind of Istio, the Gateway API or "+
				"Lateen", k)
		}
	}
	endpoints, err := f.remote.Endpoints(ctx)
	if err != nil {
		return nil, err
	}
	answers, errs := remote.EachOf(endpoints, func(e remote.Endpoint) (page.Restoration, error) {
		return remote.Read[page.Restoration](ctx, e, page.Restoring, q.Query())
	})
	for i := range answers {
		if errs[i] == nil && (earlier == nil || answers[i].Since.Before(earlier.Since)) {
			earlier = &answers[i]
		}
	}
	if earlier == nil {
		return nil, errors.Join(errs...)
	}
	return earlier, nil
}

// restoring is the command that makes an object what it was.
func restoring(o *page.EarlierObject) (string, error) {
	of := fmt.Sprintf("%s %s", resourceArgument(o), o.Name)
	if o.Namespace != "" {
		of += " -n " + o.Namespace
	}
	switch o.Verb {
	case page.Deleted:
		return "kubectl delete " + of, nil
	case page.Created:
		text, err := manifestOf(o)
		return "kubectl create -f - <<'EOF'\n" + text + "EOF", err
	case page.Changes:
		patch, err := patchOf(o, "")
		return "kubectl patch " + of + " --type=json -p " + quoted(string(patch)), err
	}
	return "# " + of + ": what it was is not remembered", nil
}

// resourceArgument names a kind for kubectl without doubt, as virtualservices.networking.istio.io.
func resourceArgument(o *page.EarlierObject) string {
	group, _, _ := strings.Cut(o.APIVersion, "/")
	return pluralIn(o.Kind, o.APIVersion) + "." + group
}

// pluralIn returns the name of a kind in paths.
func pluralIn(kind, apiVersion string) string {
	for _, d := range kinds.All() {
		if d.Kind.Name() == kind && len(d.Versions) > 0 && d.APIVersions()[0] == apiVersion {
			return d.Resource
		}
	}
	return strings.ToLower(kind) + "s"
}

// patchOf returns a JSON patch of an object that has a version, or any.
func patchOf(o *page.EarlierObject, version string) ([]byte, error) {
	var patch []map[string]any
	if version != "" {
		patch = append(patch, map[string]any{"op": "test", "path": "/metadata/resourceVersion", "value": version})
	}
	return json.Marshal(append(patch, map[string]any{"op": "replace", "path": "/spec", "value": o.Spec}))
}

// nameOf is an object as people read it.
func nameOf(o *page.EarlierObject) string {
	return o.Kind + " " + strings.TrimPrefix(o.Namespace+"/"+o.Name, "/")
}

// manifestOf returns an object as it was, with the labels and annotations that are known.
func manifestOf(o *page.EarlierObject) (string, error) {
	meta := map[string]any{"name": o.Name}
	if o.Namespace != "" {
		meta["namespace"] = o.Namespace
	}
	if len(o.Labels) > 0 {
		meta["labels"] = o.Labels
	}
	if len(o.Annotations) > 0 {
		meta["annotations"] = o.Annotations
	}
	text, err := yaml.Marshal(map[string]any{
		"apiVersion": o.APIVersion, "kind": o.Kind, "metadata": meta, "spec": o.Spec,
	})
	return string(text), err
}

// quoted quotes a text for a shell.
func quoted(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }

// restore shows what restoring does to the proxies, asks, and restores.
func (f *rollbackFlags) restore(cmd *cobra.Command, out *terminal.Writer, earlier *page.Restoration) error {
	access, err := f.remote.RestConfig()
	if err != nil {
		return fmt.Errorf("%w; elsewhere the commands above say what to change", err)
	}
	api, err := newRawAPI(access)
	if err != nil {
		return err
	}
	live, err := api.versionsOf(cmd.Context(), earlier)
	if err != nil {
		return err
	}
	if err := f.showPlans(cmd.Context(), out, asApplied(earlier, live)); err != nil {
		return err
	}
	if !f.yes {
		out.Line("do this? [y/N]")
		line, err := bufio.NewReader(cmd.InOrStdin()).ReadString('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if answer := strings.ToLower(strings.TrimSpace(line)); answer != "y" && answer != "yes" {
			out.Line("nothing is changed")
			return nil
		}
	}
	var failed []error
	for i := range earlier.Objects {
		o := &earlier.Objects[i]
		switch err := api.restore(cmd.Context(), o, live[i]); {
		case err != nil:
			failed = append(failed, err)
		case o.Verb != page.Unknown:
			out.Line("%s: as it was", nameOf(o))
		}
	}
	return errors.Join(failed...)
}

// showPlans shows what restoring does: what changes or comes back, and then what goes.
func (f *rollbackFlags) showPlans(ctx context.Context, out *terminal.Writer, earlier *page.Restoration) error {
	var sets, deletes strings.Builder
	for i := range earlier.Objects {
		o := &earlier.Objects[i]
		into := &sets
		switch o.Verb {
		case page.Unknown:
			continue
		case page.Deleted:
			into = &deletes
		}
		text, err := manifestOf(o)
		if err != nil {
			return err
		}
		into.WriteString("---\n" + text)
	}
	for _, part := range []struct {
		text   string
		delete bool
	}{{sets.String(), false}, {deletes.String(), true}} {
		if part.text == "" {
			continue
		}
		plan, err := askForPlan(ctx, &f.remote, page.PlanQuestion{
			Files: []page.PlanFile{{Name: "rollback.yaml", Content: part.text}}, Delete: part.delete,
		})
		if err != nil {
			return err
		}
		plan.Notes = nil // of manifests that nobody wrote
		printPlan(out, plan)
	}
	return nil
}
