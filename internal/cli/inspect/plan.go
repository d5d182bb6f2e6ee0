package inspect

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lateen-mesh/lateen/internal/admin/page"
	"github.com/lateen-mesh/lateen/internal/cli/command"
	"github.com/lateen-mesh/lateen/internal/cli/remote"
	"github.com/lateen-mesh/lateen/internal/cli/terminal"
)

// planFlags say what is planned.
type planFlags struct {
	remote remote.Remote
	files  []string
	delete bool
	output string
}

// Plan returns the command plan.
func Plan(out *terminal.Writer) *cobra.Command { return planCommand(out, &remote.Remote{}) }

func planCommand(out *terminal.Writer, r *remote.Remote) *cobra.Command {
	f := planFlags{remote: *r}
	cmd := &cobra.Command{
		Use:   "plan -f FILE|DIR|-",
		Short: "What applying manifests would do to the connected proxies",
		Long: `Asks the control plane what applying manifests would do: which proxies would get something, the fields
of their configuration that would differ, bytes, listeners whose connections would be drained, and problems
that would appear or go. Nothing is applied and nothing is sent to a proxy.

The exit code is 0 if no problem would appear, 3 if warnings would, and 4 if errors would.`,
		Example: `  lateen plan -f routes.yaml
  kustomize build overlays/production | lateen plan -f -
  lateen plan -f routes.yaml --delete -o json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd, out) },
	}
	f.remote.Bind(cmd)
	command.BindOutput(cmd, &f.output)
	cmd.Flags().StringSliceVarP(&f.files, "filename", "f", nil, "file, directory, or - for standard input")
	cmd.Flags().BoolVar(&f.delete, "delete", false, "plan that the objects are deleted")
	_ = cmd.MarkFlagRequired("filename")
	return cmd
}

func (f *planFlags) run(cmd *cobra.Command, out *terminal.Writer) error {
	q := page.PlanQuestion{Delete: f.delete}
	for _, name := range f.files {
		files, err := readPlanFiles(name, cmd.InOrStdin())
		if err != nil {
			return err
		}
		q.Files = append(q.Files, files...)
	}
	plan, err := askForPlan(cmd.Context(), &f.remote, q)
	if err != nil {
		return err
	}
	if f.output != "table" {
		if err := command.PrintAs(cmd.OutOrStdout(), f.output, plan); err != nil {
			return err
		}
	} else {
		printPlan(out, plan)
	}
	return exitOfPlan(plan)
}

// readPlanFiles reads a file, the manifests of a directory, or standard input.
func readPlanFiles(name string, in io.Reader) ([]page.PlanFile, error) {
	if name == "-" {
		content, err := io.ReadAll(io.LimitReader(in, page.MaxPlanQuestion+1))
		return []page.PlanFile{{Name: "stdin", Content: string(content)}}, err
	}
	var files []page.PlanFile
	err := filepath.WalkDir(name, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		if path != name && !slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(path)) {
			return nil
		}
		content, err := os.ReadFile(path)
		files = append(files, page.PlanFile{Name: path, Content: string(content)})
		return err
	})
	if err == nil && len(files) == 0 {
		err = fmt.Errorf("%s: there are no manifests; want files that end with .yaml, .yml or .json", name)
	}
	return files, err
}

// askForPlan asks all replicas: each knows what would become of the proxies that are connected to
// it.
func askForPlan(ctx context.Context, r *remote.Remote, q page.PlanQuestion) (*page.Plan, error) {
	endpoints, err := r.Endpoints(ctx)
	if err != nil {
		return nil, err
	}
	plans, errs := remote.EachOf(endpoints, func(e remote.Endpoint) (page.Plan, error) {
		return remote.Ask[page.Plan](ctx, e, page.Planning, q)
	})
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	all := plans[0]
	for _, p := range plans[1:] {
		addPlan(&all, &p)
	}
	return &all, nil
}

// addPlan adds what another replica says of its proxies.
func addPlan(all, p *page.Plan) {
	all.Proxies += p.Proxies
	all.Drained += p.Drained
	all.Bytes += p.Bytes
	all.Left += p.Left
	all.Classes = max(all.Classes, p.Classes)
	for namespace, n := range p.Namespaces {
		if all.Namespaces == nil {
			all.Namespaces = map[string]int{}
		}
		all.Namespaces[namespace] += n
	}
	all.Effects = append(all.Effects, p.Effects...)
	all.Appeared = withProblems(all.Appeared, p.Appeared)
	all.Mended = withProblems(all.Mended, p.Mended)
	all.Notes = withProblems(all.Notes, p.Notes)
}

// withProblems adds those that are not there yet.
func withProblems(all, more []page.Problem) []page.Problem {
	for _, p := range more {
		if !slices.Contains(all, p) {
			all = append(all, p)
		}
	}
	return all
}

func printPlan(out *terminal.Writer, p *page.Plan) {
	objects := terminal.Table{Header: []string{"OBJECT", "WOULD BE"}}
	for _, o := range p.Objects {
		objects.Row(strings.TrimPrefix(o.Kind+" "+o.Namespace+"/"+o.Name, " "), o.Verb)
	}
	if len(p.Objects) > 0 {
		out.Table(objects)
	}
	for _, problem := range p.Appeared {
		style := terminal.Warn
		if problem.Severity == "error" {
			style = terminal.Bad
		}
		out.Paragraph("", style, "new: "+problem.Text)
	}
	for _, problem := range p.Mended {
		out.Paragraph("", terminal.Good, "mended: "+problem.Text)
	}
	for _, note := range p.Notes {
		out.Paragraph("", terminal.Plain, "note: "+note.Text)
	}
	out.Line("")
	if p.Proxies == 0 {
		out.Line("no connected proxy would get anything")
		return
	}
	out.Line("%s would get %d bytes in all%s", proxiesText(p.Proxies), p.Bytes, drainedText(p.Drained))
	for _, namespace := range slices.Sorted(maps.Keys(p.Namespaces)) {
		out.Line("  %s: %s", namespace, proxiesText(p.Namespaces[namespace]))
	}
	for _, e := range p.Effects {
		out.Line("")
		out.Line("%s, as %s: %d bytes to each", proxiesText(e.Proxies), e.Proxy, e.Bytes)
		for _, c := range e.Changes {
			printPlannedChange(out, c)
		}
		if e.Left > 0 {
			out.Line("  and %d more resources", e.Left)
		}
	}
	if p.Left > 0 {
		out.Line("and %d more groups of proxies", p.Left)
	}
}

func drainedText(n int) string {
	if n == 0 {
		return ", and no connection would be drained"
	}
	return fmt.Sprintf("; %s would drain connections of a listener", proxiesText(n))
}

func printPlannedChange(out *terminal.Writer, c page.PlannedChange) {
	style := map[string]terminal.Style{page.Created: terminal.Good, page.Deleted: terminal.Bad}
	line := fmt.Sprintf("  %s %s: %s", c.Type, c.Name, c.Verb)
	if s, painted := style[c.Verb]; painted {
		line = out.Paint(s, line)
	}
	out.Line("%s", line)
	printFields(out, "    ", c.Fields, c.Left)
}

func exitOfPlan(p *page.Plan) error {
	for _, problem := range p.Appeared {
		if problem.Severity == "error" {
			return command.ExitCode(exitErrors)
		}
	}
	if len(p.Appeared) > 0 {
		return command.ExitCode(exitWarnings)
	}
	return nil
}
