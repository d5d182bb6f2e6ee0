package inspect

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lateen-mesh/lateen/internal/cli/command"
	"github.com/lateen-mesh/lateen/internal/cluster/inject"
)

// injectFlags say what is injected, and by which configuration.
type injectFlags struct {
	file, output, namespace       string
	config, values, mesh          string
	root, revision, proxy         string
	native                        bool
	standardInput                 io.Reader
	standardOutput, standardError io.Writer
}

// Inject returns the command inject.
func Inject() *cobra.Command {
	var f injectFlags
	cmd := &cobra.Command{
		Use:   "inject -f FILE",
		Short: "Add proxies to the workloads of a file, without a cluster",
		Long: `Adds a proxy to each Pod, Deployment, ReplicaSet, StatefulSet, DaemonSet, Job and CronJob, also
within Lists, as the control plane does when their Pods are created. All other documents stay as they
are. If one workload is wrong, nothing is written.`,
		Example: `  lateen inject -f deployment.yaml | kubectl apply -f -
  kubectl get deployment -n shop -o yaml | lateen inject -f - --output injected.yaml`,
		Args: command.Arguments(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			f.standardInput, f.standardOutput, f.standardError = cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr()
			return f.run()
		},
	}
	flags := cmd.Flags()
	flags.StringVarP(&f.file, "file", "f", "", "the file; - is the standard input")
	flags.StringVarP(&f.output, "output", "o", "", "where to write (default: the standard output)")
	flags.StringVarP(&f.namespace, "namespace", "n", "default", "the namespace of what names none")
	flags.StringVar(&f.config, "inject-config", "",
		"a file with the text under config of the ConfigMap istio-sidecar-injector (default: the built-in one)")
	flags.StringVar(&f.values, "values", "", "a file with the text under values of it, over the built-in values")
	flags.StringVar(&f.mesh, "mesh-config", "", "a file with the mesh configuration (default: Istio's defaults)")
	flags.StringVar(&f.root, "root-namespace", "istio-system", "the namespace of the control plane")
	flags.StringVar(&f.revision, "revision", "", "the control plane's revision")
	flags.StringVar(&f.proxy, "proxy-image", "", "the image of proxies, in place of that of the values")
	flags.BoolVar(&f.native, "native-sidecars", false, "make proxies init containers that keep running")
	_ = cmd.MarkFlagRequired("file")
	for _, name := range []string{"file", "output", "inject-config", "values", "mesh-config"} {
		_ = cmd.MarkFlagFilename(name)
	}
	command.ValidateFlag(flags, "proxy-image", func() error { return registryImage(f.proxy) })
	return cmd
}

func (f *injectFlags) run() error {
	injector, err := f.injector()
	if err != nil {
		return err
	}
	in, err := f.read()
	if err != nil {
		return err
	}
	out, notes, err := injector.Documents(in, f.namespace)
	for _, n := range notes {
		switch {
		case n.Warning != "":
			_, _ = fmt.Fprintf(f.standardError, "%s: warning: %s\n", n.Workload, n.Warning)
		case !n.Inject:
			_, _ = fmt.Fprintf(f.standardError, "%s gets no proxy: %s\n", n.Workload, n.Reason)
		}
	}
	if err != nil {
		return fmt.Errorf("%s: nothing is written:\n%w", f.file, err)
	}
	if f.output == "" {
		_, err = f.standardOutput.Write(out)
		return err
	}
	return os.WriteFile(f.output, out, 0o644) //nolint:gosec // as other manifests
}

func (f *injectFlags) read() ([]byte, error) {
	if f.file == "-" {
		return io.ReadAll(f.standardInput)
	}
	return os.ReadFile(f.file)
}

// injector returns the injector that the flags describe.
func (f *injectFlags) injector() (*inject.Injector, error) {
	var t inject.Texts
	var problems []error
	for file, into := range map[string]*string{f.config: &t.Config, f.values: &t.Values, f.mesh: &t.Mesh} {
		if file == "" {
			continue
		}
		text, err := os.ReadFile(file)
		*into = string(text)
		problems = append(problems, err)
	}
	if err := errors.Join(problems...); err != nil {
		return nil, err
	}
	return inject.New(inject.Options{
		Namespace: f.root, Revision: f.revision, NativeSidecars: f.native, ProxyImage: f.proxy,
	}, t)
}

// registryImage returns an error of what is no image with its registry.
func registryImage(image string) error {
	if image != "" && (!strings.Contains(image, "/") || strings.ContainsAny(image, " \t\n")) {
		return errors.New("want an image with its registry, as registry.example.com/lateen-proxy:v1")
	}
	return nil
}
