package inspect

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/spf13/cobra"

	"github.com/lateen-mesh/lateen/internal/admin/page"
	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/app"
	"github.com/lateen-mesh/lateen/internal/cli/command"
	"github.com/lateen-mesh/lateen/internal/cli/remote"
	"github.com/lateen-mesh/lateen/internal/cli/terminal"
	"github.com/lateen-mesh/lateen/internal/mesh/policy"
	"github.com/lateen-mesh/lateen/internal/source"
)

// The exit codes of lateen authz check, beside those of all commands.
const (
	exitDenied = 3
	exitAsks   = 4
)

// authzFlags say which workload is called, and how.
type authzFlags struct {
	remote    *remote.Remote
	output    string
	directory string
	proxy     string
	call      callFlags
}

// Authz returns the command authz, with those below it.
func Authz(out *terminal.Writer) *cobra.Command { return authzCommand(out, &remote.Remote{}) }

func authzCommand(out *terminal.Writer, r *remote.Remote) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "authz",
		Short:   "What policies do with a call",
		Example: `  lateen authz check web.shop --from ops/tool --path /admin`,
	}
	cmd.AddCommand(authzCheck(out, r))
	return cmd
}

func authzCheck(out *terminal.Writer, r *remote.Remote) *cobra.Command {
	f := authzFlags{remote: r}
	cmd := &cobra.Command{
		Use:   "check WORKLOAD",
		Short: "Whether a call is allowed, by which policy and rule, and why the others do not match",
		Long: `Says what the policies of a workload do with a call: allowed, denied, or left to an external
authorizer; by which AuthorizationPolicy, RequestAuthentication or PeerAuthentication, and by which of its
rules; and of every other rule the first condition that the call does not meet. WORKLOAD is NAME[.NAMESPACE]
of a Pod, or of a Deployment or StatefulSet, the Pods of which have the same policies. Nothing is sent to
the workload.

With -f the manifests of a directory are read; otherwise the control plane is asked. With --proxy the filters
of a connected proxy decide, as the control plane serves them, in place of the policies. A token is described
by its claims, and its signature is taken for right. What the call does not say is listed, if a condition is
about it.

The exit code is 0 if the call is allowed, 3 if it is denied, 4 if an external authorizer decides, 1 if
there is no such workload, and 2 if the command line is wrong.`,
		Example: `  lateen authz check web.shop --from ops/tool --method POST --path /admin
  lateen authz check web.shop -f manifests --from plaintext --port 8080
  lateen authz check api.shop --request-principal https://issuer.test/ann --claim groups='["staff"]'
  lateen authz check --proxy web-7c9d8f6b5-x2x4q.shop --from ops/tool --port 8080 --path /admin
  lateen authz check db.shop --tcp --from shop/web --port 5432 -o json`,
		Args: func(cmd *cobra.Command, args []string) error {
			if f.proxy != "" {
				return command.Arguments()(cmd, args)
			}
			return command.Arguments("WORKLOAD")(cmd, args)
		},
		ValidArgsFunction: func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return connected(r, cmd), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd, out, args) },
	}
	r.Bind(cmd)
	command.BindOutput(cmd, &f.output)
	cmd.Flags().StringVarP(&f.directory, "file", "f", "", "a directory of manifests, in place of a control plane")
	cmd.Flags().StringVar(&f.proxy, "proxy", "",
		"decide by the configuration of this proxy: POD.NAMESPACE, or a part of it that fits one proxy")
	_ = cmd.MarkFlagDirname("file")
	_ = cmd.RegisterFlagCompletionFunc("proxy",
		func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
			return connected(r, cmd), cobra.ShellCompDirectiveNoFileComp
		})
	cmd.MarkFlagsMutuallyExclusive("file", "proxy")
	for _, name := range []string{
		remote.FlagMonitoring, remote.FlagKubeconfig, remote.FlagContext, remote.FlagRevision,
	} {
		cmd.MarkFlagsMutuallyExclusive("file", name)
	}
	f.call.bind(cmd)
	return cmd
}

func (f *authzFlags) run(cmd *cobra.Command, out *terminal.Writer, args []string) error {
	call, err := f.call.call()
	if err != nil {
		return err
	}
	var answer *page.AuthzAnswer
	if f.proxy != "" {
		answer, err = authorizeBy(cmd.Context(), f.remote, f.proxy, call)
	} else {
		answer, err = f.ask(cmd.Context(), questionOf(args[0], call))
	}
	if err != nil {
		return err
	}
	if f.output == "table" {
		printAuthz(out, answer)
	} else if err := command.PrintAs(cmd.OutOrStdout(), f.output, answer); err != nil {
		return err
	}
	switch answer.Outcome {
	case policy.Denied:
		return command.ExitCode(exitDenied)
	case policy.Asks:
		return command.ExitCode(exitAsks)
	}
	return nil
}

// questionOf asks about a call to NAME[.NAMESPACE].
func questionOf(workload string, call policy.Call) page.AuthzQuestion {
	name, namespace := splitName(workload)
	return page.AuthzQuestion{Workload: name, Namespace: namespace, Call: call}
}

func (f *authzFlags) ask(ctx context.Context, q page.AuthzQuestion) (*page.AuthzAnswer, error) {
	if f.directory == "" {
		return authorize(ctx, f.remote, q)
	}
	log := &lastLines{}
	o, err := directoryOptions(f.directory, f.remote.Namespace,
		slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelWarn})))
	if err != nil {
		return nil, err
	}
	o.Source = podsOfTemplates{o.Source}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	answer, err := app.Authorize(ctx, o, q)
	if ctx.Err() != nil {
		return nil, fmt.Errorf("%s was not read within a minute%s", f.directory, log)
	}
	return answer, err
}

// authorize asks the first replica that answers: all know the same policies.
func authorize(ctx context.Context, r *remote.Remote, q page.AuthzQuestion) (*page.AuthzAnswer, error) {
	endpoints, err := r.Endpoints(ctx)
	if err != nil {
		return nil, err
	}
	query, err := q.Query()
	if err != nil {
		return nil, err
	}
	err = errors.New("no control plane is found")
	for _, e := range endpoints {
		var answer page.AuthzAnswer
		if answer, err = remote.Read[page.AuthzAnswer](ctx, e, page.Authorize, query); err == nil {
			return &answer, nil
		}
	}
	return nil, err
}

// podsOfTemplates is a source that also has a Pod for the template of each Deployment and
// StatefulSet, by its name.
type podsOfTemplates struct{ source.Source }

// Run implements source.Source.
func (s podsOfTemplates) Run(ctx context.Context, sink source.Sink) error {
	return s.Source.Run(ctx, func(e source.Event) {
		var pods []source.Change
		for _, c := range e.Changes {
			t := templateOf(c.Object)
			if t == nil {
				continue
			}
			pod := &corev1.Pod{ObjectMeta: *t.ObjectMeta.DeepCopy(), Spec: t.Spec}
			pod.Name, pod.Namespace = c.Key.Name, c.Key.Namespace
			key := source.Key{Kind: kinds.Pod, Namespace: c.Key.Namespace, Name: c.Key.Name}
			pods = append(pods, source.Change{Key: key, Object: pod, Origin: c.Origin})
		}
		e.Changes = append(e.Changes, pods...)
		sink(e)
	})
}

// templateOf returns the template of an object's Pods; nil for one that makes none.
func templateOf(object metav1.Object) *corev1.PodTemplateSpec {
	switch o := object.(type) {
	case *appsv1.Deployment:
		return &o.Spec.Template
	case *appsv1.StatefulSet:
		return &o.Spec.Template
	case *appsv1.DaemonSet:
		return &o.Spec.Template
	case *batchv1.Job:
		return &o.Spec.Template
	}
	return nil
}

func printAuthz(out *terminal.Writer, answer *page.AuthzAnswer) {
	style := map[policy.Outcome]terminal.Style{
		policy.Allowed: terminal.Good, policy.Denied: terminal.Bad, policy.Asks: terminal.Warn,
	}[answer.Outcome]
	out.Paragraph("", style, answer.String())
	table := terminal.Table{Header: []string{"POLICY", "ACTION", "RULE", "RESULT"}}
	for _, p := range answer.Policies {
		policyRows(&table, p)
	}
	if len(table.Rows) > 0 {
		out.Table(table)
	}
	if len(answer.NotGiven) > 0 {
		out.Paragraph("not given, so no value matches: ", terminal.Warn, strings.Join(answer.NotGiven, ", "))
	}
	for _, note := range answer.Notes {
		out.Paragraph("", terminal.Plain, note)
	}
	for _, problem := range answer.Problems {
		out.Paragraph("", terminal.Warn, problem)
	}
}

// policyRows adds a row for each rule of a policy.
func policyRows(table *terminal.Table, p policy.PolicyResult) {
	action := p.Action
	if p.Provider != "" {
		action += " " + p.Provider
	}
	matches := "matches"
	switch {
	case p.DryRun:
		action += ", dry run"
		matches += ", and decides nothing"
	case p.Action == "AUDIT":
		matches += ", and decides nothing"
	}
	name := p.Namespace + "/" + p.Name
	switch {
	case p.NotFor != "":
		table.Row(name, action, "-", "is for other workloads ("+p.NotFor+")")
	case len(p.Rules) == 0:
		table.Row(name, action, "-", "has no rule that a call can match")
	}
	for _, r := range p.Rules {
		index := fmt.Sprint(r.Index)
		if r.Matches {
			table.Row(name, action, index, matches)
		}
		for _, failed := range r.Failed {
			table.Row(name, action, index, failed.String())
		}
	}
}
