package installer

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	networkingv1 "istio.io/client-go/pkg/apis/networking/v1"
	"sigs.k8s.io/yaml"

	"github.com/lateen-mesh/lateen/internal/cli/command"
	"github.com/lateen-mesh/lateen/internal/cli/terminal"
	"github.com/lateen-mesh/lateen/internal/install/spec"
	"github.com/lateen-mesh/lateen/internal/install/workload"
)

func newWorkload(out *terminal.Writer) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "workload",
		Short: "Configure machines outside of Kubernetes, which join the mesh",
		Long: `A machine outside of Kubernetes runs an agent and Envoy as a Pod does. A WorkloadGroup says what its
machines have in common: each of them gets a WorkloadEntry when it connects.`,
		Example: "  lateen workload configure vms --namespace shop --output-dir vm",
	}
	cmd.AddCommand(newWorkloadConfigure(out))
	return cmd
}

// configureFlags are those of lateen workload configure.
type configureFlags struct {
	cluster               clusterFlags
	wish                  workload.Wish
	file, dir             string
	address, controlPlane string
}

func newWorkloadConfigure(out *terminal.Writer) *cobra.Command {
	f := configureFlags{}
	cmd := &cobra.Command{
		Use:   "configure [GROUP]",
		Short: "Write what a machine of a WorkloadGroup needs to join the mesh",
		Long: `Write the files that a machine of a WorkloadGroup needs to join the mesh, and say where each belongs.
The token among them proves the machine until it has its first certificate: hand it over in secret. The
files are those of istioctl x workload entry configure, and a unit for systemd.`,
		Example: `  lateen workload configure vms --namespace shop --output-dir vm
  lateen workload configure -f group.yaml --output-dir vm --ingress-ip 192.0.2.10`,
		Args: f.arguments,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.name(args); err != nil {
				return err
			}
			files, err := f.files(cmd.Context())
			if err != nil {
				return err
			}
			return f.write(out, files)
		},
	}
	f.bind(cmd)
	return cmd
}

func (f *configureFlags) bind(cmd *cobra.Command) {
	f.cluster.bind(cmd)
	flags := cmd.Flags()
	flags.StringVarP(&f.file, "file", "f", "", "a file with the WorkloadGroup, in place of GROUP")
	flags.StringVarP(&f.wish.Namespace, "namespace", "n", "default", "the namespace of the WorkloadGroup")
	flags.StringVarP(&f.dir, "output-dir", "d", "", "the directory for the files; it is made if it is not there")
	flags.StringVar(&f.wish.RootNamespace, "istio-namespace", spec.DefaultNamespace, "the root namespace")
	flags.StringVarP(&f.wish.Revision, "revision", "r", "",
		"the control plane's revision (default: that without a name)")
	flags.StringVar(&f.wish.ClusterID, "cluster-id", "Kubernetes",
		"the name of the cluster, as the control plane has it")
	flags.StringVar(&f.wish.Discovery, "discovery-address", "",
		"where the agent finds the control plane, host:port (default: what the mesh configuration says, "+
			"or its Service)")
	flags.StringVar(&f.controlPlane, "ingress-ip", "",
		"the address of that host, for /etc/hosts, where the machine's DNS does not know it")
	flags.StringVar(&f.address, "address", "",
		"the machine's own address, where it is not one of its interfaces: behind NAT, for example")
	flags.BoolVar(&f.wish.Registers, "autoregister", true,
		"have the machine register itself; false: its WorkloadEntry is written by somebody")
	flags.BoolVar(&f.wish.CaptureDNS, "capture-dns", true,
		"have the agent answer the machine's DNS for names of the mesh")
	flags.DurationVar(&f.wish.TokenLife, "token-duration", time.Hour,
		"how long the token is good, within which the machine has to get its first certificate; 10m at least")
	command.AtLeast(flags, "token-duration", &f.wish.TokenLife, 10*time.Minute)
	_ = cmd.MarkFlagRequired("output-dir")
	_ = cmd.MarkFlagDirname("output-dir")
	_ = cmd.MarkFlagFilename("file")
	for name, text := range map[string]*string{"ingress-ip": &f.controlPlane, "address": &f.address} {
		command.ValidateFlag(flags, name, func() error {
			if _, err := netip.ParseAddr(*text); *text != "" && err != nil {
				return errors.New("want an IP address")
			}
			return nil
		})
	}
}

// arguments requires a group by its name or its file.
func (f *configureFlags) arguments(cmd *cobra.Command, args []string) error {
	switch {
	case len(args) > 1:
		return fmt.Errorf("%q is one argument too many: want %s", args[1], cmd.UseLine())
	case len(args) == 1 && f.file != "":
		return errors.New("GROUP and --file name a WorkloadGroup both; want one of them")
	case len(args) == 0 && f.file == "":
		return errors.New("no WorkloadGroup is named: want lateen workload configure GROUP, or --file FILE")
	}
	return nil
}

// name takes the group's name or file.
func (f *configureFlags) name(args []string) error {
	if len(args) == 1 {
		f.wish.Name = args[0]
		return nil
	}
	text, err := os.ReadFile(f.file)
	if err != nil {
		return fmt.Errorf("--file: %w", err)
	}
	f.wish.Group = &networkingv1.WorkloadGroup{}
	if err := yaml.UnmarshalStrict(text, f.wish.Group); err != nil {
		return fmt.Errorf("--file %s: %w; want one WorkloadGroup", f.file, err)
	}
	if f.wish.Group.Kind != "WorkloadGroup" {
		return fmt.Errorf("--file %s: has the kind %q; want WorkloadGroup", f.file, f.wish.Group.Kind)
	}
	if f.wish.Group.Namespace == "" {
		f.wish.Group.Namespace = f.wish.Namespace
	}
	return nil
}

func (f *configureFlags) files(ctx context.Context) ([]workload.File, error) {
	config, err := f.cluster.config()
	if err != nil {
		return nil, err
	}
	f.wish.Address, _ = netip.ParseAddr(f.address) // checked as flags
	f.wish.ControlPlane, _ = netip.ParseAddr(f.controlPlane)
	ctx, cancel := context.WithTimeout(ctx, f.cluster.timeout)
	defer cancel()
	machine, err := workload.Gather(ctx, config, f.wish)
	if err != nil {
		return nil, err
	}
	return machine.Files()
}

func (f *configureFlags) write(out *terminal.Writer, files []workload.File) error {
	if err := os.MkdirAll(f.dir, 0o750); err != nil {
		return fmt.Errorf("--output-dir: %w", err)
	}
	table := terminal.Table{Header: []string{"FILE", "ON THE MACHINE"}}
	for _, file := range files {
		path := filepath.Join(f.dir, file.Name)
		if err := os.WriteFile(path, file.Content, os.FileMode(file.Mode)); err != nil {
			return fmt.Errorf("--output-dir: %w", err)
		}
		if err := os.Chmod(path, os.FileMode(file.Mode)); err != nil { // it may have been there
			return fmt.Errorf("--output-dir: %w", err)
		}
		table.Row(strings.TrimPrefix(path, "./"), file.Place)
	}
	out.Table(table)
	return nil
}
