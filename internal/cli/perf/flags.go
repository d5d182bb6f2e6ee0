package perf

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/lateen-mesh/lateen/internal/cli/command"
	"github.com/lateen-mesh/lateen/internal/cli/results"
	"github.com/lateen-mesh/lateen/internal/cli/terminal"
	"github.com/lateen-mesh/lateen/internal/perf"
	"github.com/lateen-mesh/lateen/internal/perf/controlplane"
	"github.com/lateen-mesh/lateen/internal/perf/load"
)

// perfFlags are the flags of all scenarios.
type perfFlags struct {
	mesh              load.Shape
	sidecars, changes int
	churn             int
	connectRate, rate float64
	patience, calm    time.Duration
	protocol          string
	ask               []string
	profile           string
	output            string
	singly, tls       bool
	plane             planeFlags
	search            searchFlags
}

func (f *perfFlags) bind(cmd *cobra.Command, d perfDefaults) {
	f.bindMeasuring(cmd, d)
	f.plane.bind(cmd)
	cmd.Flags().BoolVar(&f.tls, "tls", false,
		"sidecars connect over TLS, each with a token of its own (Lateen with a mesh in memory)")
	cmd.MarkFlagsMutuallyExclusive("tls", "kubeconfig")
	cmd.Flags().BoolVar(&f.singly, "singly", false, "make a change only when all sidecars have the one before")
}

// bindMeasuring binds the flags that do not select the control plane.
func (f *perfFlags) bindMeasuring(cmd *cobra.Command, d perfDefaults) {
	flags := cmd.Flags()
	flags.IntVar(&f.sidecars, "sidecars", d.sidecars, "how many pods have a sidecar that connects")
	flags.IntVar(&f.mesh.Services, "services", d.mesh.Services, "how many services there are")
	flags.IntVar(
		&f.mesh.Namespaces,
		"namespaces",
		d.mesh.Namespaces,
		"how many namespaces they are in (as many as services at most)",
	)
	pods := "how many pods the services have together"
	if d.mesh.Pods == 0 {
		pods += " (default: as many as sidecars, one for each service at least)"
	}
	flags.IntVar(&f.mesh.Pods, "pods", d.mesh.Pods, pods)
	flags.IntVar(
		&f.mesh.VirtualServices, "virtual-services", d.mesh.VirtualServices, "how many services have a VirtualService",
	)
	flags.IntVar(&f.changes, "changes", d.changes, "how many changes are made of each kind")
	flags.Float64Var(&f.rate, "rate", d.rate, "how many changes are made each second (0: one upon the other)")
	flags.Float64Var(
		&f.connectRate, "connect-rate", 1000, "how many sidecars begin to connect each second (0: all at once)",
	)
	flags.StringVar(&f.protocol, "protocol", "delta", "what sidecars speak: delta, or sotw (state of the world)")
	flags.StringSliceVar(
		&f.ask,
		"ask",
		nil,
		"what sidecars ask for besides: nds (the names of an agent's DNS proxy), sds (the secrets default and "+
			"ROOTCA), sds=NAME (another)",
	)
	flags.DurationVar(&f.patience, "patience", 2*time.Minute, "fail when nothing has moved for so long")
	flags.StringVar(
		&f.profile,
		"profile",
		"",
		"write a CPU profile of the control plane for each phase into this directory (.pprof), and its flame "+
			"graph (.svg)",
	)
	flags.DurationVar(
		&f.calm, "calm", 300*time.Millisecond, "a phase is over when nothing has come or gone for so long",
	)
	_ = flags.MarkHidden("calm")
	command.BindOutput(cmd, &f.output)
	results.Bind(cmd)
	_ = cmd.MarkFlagDirname("profile")
	f.restrict(cmd)
}

// restrict makes the flags of bindMeasuring reject invalid values.
func (f *perfFlags) restrict(cmd *cobra.Command) {
	flags := cmd.Flags()
	for name, number := range map[string]*int{
		"sidecars": &f.sidecars, "services": &f.mesh.Services, "namespaces": &f.mesh.Namespaces, "changes": &f.changes,
	} {
		command.AtLeast(flags, name, number, 1)
	}
	command.AtLeast(flags, "pods", &f.mesh.Pods, 0)
	command.AtLeast(flags, "virtual-services", &f.mesh.VirtualServices, 0)
	command.AtLeast(flags, "rate", &f.rate, 0)
	command.AtLeast(flags, "connect-rate", &f.connectRate, 0)
	command.AtLeast(flags, "patience", &f.patience, time.Second)
	command.OneOf(cmd, "protocol", &f.protocol, "delta", "sotw")
}

// options returns the options of a scenario, with Lateen in memory as the control plane.
func (f *perfFlags) options(cmd *cobra.Command, progress *terminal.Writer) (perf.Options, error) {
	line := command.Line(cmd)
	o := perf.Options{
		Mesh:         f.mesh,
		Sidecars:     f.sidecars,
		ConnectRate:  f.connectRate,
		Changes:      f.changes,
		Rate:         f.rate,
		OneAtATime:   f.singly,
		StallTimeout: f.patience,
		IdleTime:     f.calm, Progress: progress.Bar,
	}
	for name, number := range map[string]*int{
		"namespaces": &o.Mesh.Namespaces, "virtual-services": &o.Mesh.VirtualServices,
	} {
		if !cmd.Flags().Changed(name) { // a default may be too large for a small mesh
			*number = min(*number, o.Mesh.Services)
		}
	}
	o.Mesh.Pods = cmp.Or(o.Mesh.Pods, max(o.Sidecars, o.Mesh.Services))
	self, err := os.Executable()
	if err != nil {
		return o, err
	}
	fleet := perf.Simulated{
		StateOfTheWorld: f.protocol == "sotw", MisbehavingCommand: []string{self,
			perfApart}, Log: slog.New(slog.DiscardHandler),
	}
	err = f.setRequestedTypes(&fleet)
	if err := errors.Join(err, f.plane.check(), o.Validate()); err != nil {
		return o, err
	}
	var security *controlplane.Security
	if f.tls {
		if security, err = secure(&fleet); err != nil {
			return o, err
		}
	}
	o.Fleet = fleet.Fleet
	if f.profile != "" {
		if err := os.MkdirAll(f.profile, 0o755); err != nil {
			return o, err
		}
		o.Profile = func(phase string, profile []byte) error { return saveProfile(f.profile, phase, line, profile) }
	}
	o.Plane, err = lateenInMemory(security)
	return o, err
}

// secure has the sidecars of a fleet connect over TLS with tokens.
func secure(fleet *perf.Simulated) (*controlplane.Security, error) {
	s, err := controlplane.NewSecurity()
	if err != nil {
		return nil, err
	}
	fleet.Token = s.Token
	fleet.TLS, err = s.Client()
	return s, err
}

// setRequestedTypes makes a fleet subscribe to the types of --ask.
func (f *perfFlags) setRequestedTypes(fleet *perf.Simulated) error {
	for _, what := range f.ask {
		name, named := strings.CutPrefix(what, "sds=")
		switch {
		case what == "nds":
			fleet.NameTable = true
		case what == "sds":
			fleet.Secrets = append(fleet.Secrets, "default", "ROOTCA")
		case named && name != "":
			fleet.Secrets = append(fleet.Secrets, name)
		default:
			return fmt.Errorf("--ask %q: want nds, sds or sds=NAME", what)
		}
	}
	return nil
}
