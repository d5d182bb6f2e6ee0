package installer

import (
	"fmt"
	"strings"

	"github.com/pmezard/go-difflib/difflib"
	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/lateen-mesh/lateen/internal/cli/command"
	"github.com/lateen-mesh/lateen/internal/cli/terminal"
	"github.com/lateen-mesh/lateen/internal/install/apply"
)

func newDiff(out, notes *terminal.Writer) *cobra.Command {
	f := applyFlags{out: out, notes: notes, earlier: true}
	cmd := &cobra.Command{
		Use:   "diff",
		Short: "Show what lateen upgrade would change",
		Long: `Asks the API server what lateen upgrade with the same flags would make of each object, and prints
the differences. The exit code is 1 if there are any.`,
		Example: `  lateen diff --image registry.example.com/lateen:v2
  lateen diff -f operator.yaml`,
		Args: command.Arguments(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, cancel, cluster, err := f.cluster.connect(cmd.Context())
			if err != nil {
				return err
			}
			defer cancel()
			_, steps, err := f.plan(ctx, cmd, cluster)
			if err != nil {
				return err
			}
			if changes(steps) == 0 {
				return nil
			}
			for _, s := range steps {
				if text := difference(s); text != "" {
					out.Line("%s", text)
				}
			}
			return command.ErrFailed
		},
	}
	f.input.bind(cmd)
	f.cluster.bind(cmd)
	cmd.Flags().BoolVar(&f.reset, "reset-values", false, "start from the defaults instead of what is installed")
	cmd.Flags().BoolVar(&f.force, "force-conflicts", false, "set fields anew that somebody else has set")
	return cmd
}

// difference is a unified diff of an object, empty if it stays.
func difference(s apply.Step) string {
	if s.Action == apply.Same || s.Action == apply.Keep {
		return ""
	}
	name := apply.Name(s.Object)
	text, err := difflib.GetUnifiedDiffString(difflib.UnifiedDiff{
		A: lines(s.Live), B: lines(s.Result), FromFile: name, ToFile: name + " (" + string(s.Action) + ")", Context: 2,
	})
	if err != nil {
		return fmt.Sprintf("%s: %v", name, err)
	}
	text = strings.TrimRight(text, "\n")
	if len(s.Dropped) > 0 {
		text += fmt.Sprintf("\n%s: these go, as kubectl apply has set them and nobody asks for them: %s", name,
			strings.Join(s.Dropped, ", "))
	}
	return strings.TrimPrefix(text, "\n")
}

func lines(o *unstructured.Unstructured) []string {
	if o == nil {
		return nil
	}
	text, err := yaml.Marshal(apply.Content(o))
	if err != nil {
		return []string{err.Error()}
	}
	return difflib.SplitLines(string(text))
}
