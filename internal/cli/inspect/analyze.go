package inspect

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"github.com/spf13/cobra"

	"github.com/lateen-mesh/lateen/internal/admin/page"
	"github.com/lateen-mesh/lateen/internal/api/convert"
	"github.com/lateen-mesh/lateen/internal/api/differences"
	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/app"
	"github.com/lateen-mesh/lateen/internal/app/config"
	"github.com/lateen-mesh/lateen/internal/cli/build"
	"github.com/lateen-mesh/lateen/internal/cli/command"
	"github.com/lateen-mesh/lateen/internal/cli/remote"
	"github.com/lateen-mesh/lateen/internal/cli/terminal"
	"github.com/lateen-mesh/lateen/internal/compile/offline"
	"github.com/lateen-mesh/lateen/internal/install"
	"github.com/lateen-mesh/lateen/internal/install/precheck"
	"github.com/lateen-mesh/lateen/internal/observe"
	"github.com/lateen-mesh/lateen/internal/source"
	"github.com/lateen-mesh/lateen/internal/source/dir"
	"github.com/lateen-mesh/lateen/internal/source/kube"
	"github.com/lateen-mesh/lateen/internal/source/mirror"
	"github.com/lateen-mesh/lateen/internal/source/selected"
)

// The exit codes of lateen analyze, beside those of all commands.
const (
	exitWarnings = 3
	exitErrors   = 4
)

// wholeCluster is the argument that stands for a cluster.
const wholeCluster = "cluster"

// analyzeFlags say what is analyzed.
type analyzeFlags struct {
	cluster remote.Remote
	output  string
	timeout time.Duration
	envoy   string // the path of an Envoy that judges patches; empty for none
}

// Analyze returns the command analyze.
func Analyze(out *terminal.Writer) *cobra.Command {
	var f analyzeFlags
	cmd := &cobra.Command{
		Use:   "analyze DIR|cluster",
		Short: "What is wrong with the manifests of a directory, or the objects of a cluster",
		Long: `Reads manifests or objects as the control plane does, without one, and tells what is wrong: what
cannot be read, fields that are not in force, what objects say about each other, and what works otherwise
than with istiod. Nothing is changed.

The exit code is 0 if nothing is wrong, 3 if there are warnings, 4 if there are errors, 1 if the
objects could not be read or there are none, and 2 if the command line is wrong. A directory that is called cluster is
./cluster.`,
		Example: `  lateen analyze examples/bookinfo
  lateen analyze cluster --context staging
  lateen analyze manifests -o json | jq '.[] | select(.severity == "error")'`,
		Args: command.Arguments("DIR|cluster"),
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return []string{wholeCluster}, cobra.ShellCompDirectiveFilterDirs
		},
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd, out, args[0]) },
	}
	f.cluster.BindCluster(cmd)
	command.BindOutput(cmd, &f.output)
	cmd.Flags().StringVar(&f.envoy, "envoy", "",
		"path of an Envoy, which is asked whether it takes what EnvoyFilters of a directory change (--mode validate)")
	cmd.Flags().DurationVar(&f.timeout, "timeout", time.Minute, "how long reading may take")
	command.AtLeast(cmd.Flags(), "timeout", &f.timeout, time.Millisecond)
	return cmd
}

func (f *analyzeFlags) run(cmd *cobra.Command, out *terminal.Writer, what string) error {
	log := &lastLines{}
	o, err := f.options(what, log)
	if err != nil {
		return err
	}
	klog.SetSlogLogger(o.Log) // for client-go
	seen := &observed{
		Source: o.Source, templates: !o.Pods, together: differences.Together{Root: f.cluster.Namespace},
		whole: whole{root: f.cluster.Namespace, domain: o.Mesh.Domain}, mesh: o.Mesh,
	}
	o.Source = seen
	ctx, cancel := context.WithTimeout(cmd.Context(), f.timeout)
	defer cancel()
	problems, err := app.Analyze(ctx, o)
	if errors.Is(err, context.DeadlineExceeded) || err != nil && ctx.Err() != nil {
		return fmt.Errorf("%s was not read within %v%s; want another --timeout, or the rights to read it", what,
			f.timeout, log)
	}
	if err != nil {
		return err
	}
	seen.whole.lookAtUnread(problems)
	problems = append(problems, seen.differences()...)
	ofPatches, err := f.patches(ctx, seen)
	if err != nil {
		return err
	}
	problems = append(problems, ofPatches...)
	if seen.objects == 0 && len(problems) == 0 {
		return fmt.Errorf("%s: there is no object that a control plane reads; want manifests, in files that end with "+
			".yaml, .yml or .json", what)
	}
	slices.SortFunc(problems, source.Problem.Compare)
	problems = slices.Compact(problems)
	if err := f.print(cmd, out, problems); err != nil {
		return err
	}
	return exitOf(problems)
}

func (f *analyzeFlags) options(what string, log *lastLines) (app.Options, error) {
	logger := slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelWarn}))
	if what != wholeCluster {
		o, err := directoryOptions(what, f.cluster.Namespace, logger)
		if errors.Is(err, errNoDirectory) {
			err = fmt.Errorf("%w, or the word %s", err, wholeCluster)
		}
		return o, err
	}
	o, err := offlineOptions(f.cluster.Namespace, logger)
	if err != nil {
		return o, err
	}
	access, err := f.cluster.RestConfig()
	if err != nil {
		return o, err
	}
	o.MeshConfigMap = install.NamesOf(f.cluster.Namespace, f.cluster.Revision).MeshConfig
	o.Selected, o.Pods = true, true
	metrics := observe.New(observe.Build{Version: build.Version, Start: time.Now(), Now: time.Now})
	o.Source, err = kube.New(kube.Options{
		Config: access, RootNamespace: f.cluster.Namespace, ConfigMap: o.MeshConfigMap, Revision: f.cluster.Revision,
		SecretNamespaces: o.Config.SecretNamespaces, Metrics: &metrics.Source, Logger: o.Log,
	})
	return o, err
}

// offlineOptions are those of what reads objects without being a control plane.
func offlineOptions(rootNamespace string, log *slog.Logger) (app.Options, error) {
	settings, err := config.FromEnv(os.LookupEnv)
	if err != nil {
		return app.Options{}, err
	}
	o := app.Options{
		Config: settings, Mesh: model.DefaultMesh(), Version: build.Version, Log: log,
		Workers: true, // injection and lateen up start proxies so
	}
	o.Mesh.RootNamespace = rootNamespace
	return o, nil
}

// errNoDirectory is the error of a path that is no directory.
var errNoDirectory = errors.New("want a directory of manifests")

// directoryOptions are those of what reads the manifests of a directory.
func directoryOptions(path, rootNamespace string, log *slog.Logger) (app.Options, error) {
	o, err := offlineOptions(rootNamespace, log)
	if err != nil {
		return o, err
	}
	if info, err := os.Stat(path); err != nil || !info.IsDir() {
		return o, fmt.Errorf("%s: %w", path, errNoDirectory)
	}
	files := mirror.New(dir.New(dir.Options{Path: path, Logger: log}))
	o.Source, o.Selected = selected.New(files, o.Mesh.RootNamespace, ""), true
	return o, nil
}

// observed is a source, and what differs from istiod in the objects that pass.
type observed struct {
	source.Source
	objects int // that have passed
	found   []source.Problem
	// together are the objects that may work otherwise because of others.
	together differences.Together
	// templates is set if the source has Deployments in place of Pods. Then gateways are looked for
	// among their labels.
	templates bool
	whole     whole
	// mesh is the configuration of a mesh whose objects say nothing, offline is that of all objects
	// that have passed, and workloads are those that have proxies in it.
	mesh      model.MeshConfig
	offline   offline.Mesh
	workloads []templated
}

// templated is an object with a template of Pods.
type templated struct {
	source.Key
	template *corev1.PodTemplateSpec
}

// Run implements source.Source.
func (o *observed) Run(ctx context.Context, sink source.Sink) error {
	return o.Source.Run(ctx, func(e source.Event) {
		for _, c := range e.Changes {
			o.look(c)
		}
		sink(e)
	})
}

func (o *observed) look(c source.Change) {
	if c.Object == nil {
		return
	}
	o.objects++
	for _, p := range differences.Of(c.Object, c.Key) {
		p.Origin = c.Origin
		o.found = append(o.found, p)
	}
	o.together.Add(c.Object)
	o.whole.look(c)
	if o.templates { // of a cluster the control plane knows what patches match
		o.offline.Add(c)
	}
	if template := templateOf(c.Object); template != nil {
		o.together.AddWorkload(c.Key, "spec.template", template)
		o.workloads = append(o.workloads, templated{c.Key, template})
	}
	if namespace, is := c.Object.(*corev1.Namespace); is {
		for _, finding := range precheck.Labels(namespace.Labels) {
			o.found = append(o.found, source.Problem{
				Severity: source.Error, Origin: c.Origin,
				Object: source.Key{Kind: kinds.Namespace, Name: namespace.Name},
				Path:   finding.Field, Value: finding.Value, Message: finding.Why,
			})
		}
	}
}

// differences returns what was found. The source has ended.
func (o *observed) differences() []source.Problem {
	found := slices.Concat(o.found, o.whole.found(), o.together.Found())
	if o.templates {
		found = append(found, o.whole.unserved()...)
	} else {
		found = append(found, o.whole.exports.missing()...)
	}
	return found
}

// patches says what is wrong with EnvoyFilters by what the workloads of a directory would have. Of
// a cluster the control plane knows.
func (f *analyzeFlags) patches(ctx context.Context, o *observed) ([]source.Problem, error) {
	if !o.templates || !o.offline.HasFilters() {
		return nil, nil
	}
	for _, w := range o.workloads {
		o.offline.AddWorkload(w.Key, w.template, o.whole.isGateway(w.template.Labels))
	}
	converter := convert.New(convert.Options{Defaults: o.mesh, Selected: true, Workers: true})
	compiled := o.offline.Compile(converter, o.mesh)
	found := compiled.Idle()
	if f.envoy == "" {
		return found, nil
	}
	dir, err := os.MkdirTemp("", "lateen-analyze-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	judge := envoyJudge{ctx: ctx, binary: f.envoy, dir: dir}
	refused, err := judge.refused(compiled.Patched())
	return append(found, refused...), err
}

func (f *analyzeFlags) print(cmd *cobra.Command, out *terminal.Writer, problems []source.Problem) error {
	lines := []page.Problem{}
	for _, p := range problems {
		lines = append(lines, page.ProblemOf(p))
	}
	if f.output != "table" {
		return command.PrintAs(cmd.OutOrStdout(), f.output, lines)
	}
	for _, p := range problems {
		out.Paragraph("", SeverityStyle(p.Severity), p.String())
	}
	errs, warnings := severities(problems)
	out.Line("%s, %s", terminal.Count(errs, "error", "errors"), terminal.Count(warnings, "warning", "warnings"))
	return nil
}

func severities(problems []source.Problem) (errs, warnings int) {
	for _, p := range problems {
		if p.Severity == source.Error {
			errs++
		}
	}
	return errs, len(problems) - errs
}

func exitOf(problems []source.Problem) error {
	switch errs, warnings := severities(problems); {
	case errs > 0:
		return command.ExitCode(exitErrors)
	case warnings > 0:
		return command.ExitCode(exitWarnings)
	}
	return nil
}

// lastLines keeps the last line of a log, to say why something took too long.
type lastLines struct {
	mu   sync.Mutex
	last string
}

// Write implements io.Writer.
func (l *lastLines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last = string(bytes.TrimSpace(b))
	return len(b), nil
}

// String returns the line in brackets, or nothing.
func (l *lastLines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.last == "" {
		return ""
	}
	return " (" + strings.ReplaceAll(l.last, "\n", " ") + ")"
}

// SeverityStyle is how a problem of a severity is shown.
func SeverityStyle(s source.Severity) terminal.Style {
	if s == source.Error {
		return terminal.Bad
	}
	return terminal.Warn
}
