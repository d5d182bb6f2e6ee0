package installer

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/lateen-mesh/lateen/internal/cli/command"
	"github.com/lateen-mesh/lateen/internal/cli/terminal"
	"github.com/lateen-mesh/lateen/internal/install/spec"
)

// inputFlags say what to install.
type inputFlags struct {
	in    spec.Input
	files []string
	kinds bool
}

func (f *inputFlags) bind(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringArrayVarP(&f.files, "file", "f", nil,
		"values of the chart, an IstioOperator, or Maistra's ServiceMeshControlPlane and ServiceMeshMemberRoll; - is "+
			"the standard input; may be repeated")
	flags.StringArrayVarP(&f.in.Sets, "set", "s", nil,
		"path=value, as pilot.replicaCount=3; also istioctl's, as values.pilot.replicaCount=3 or profile=demo; may be "+
			"repeated")
	flags.StringVar(&f.in.Namespace, "namespace", "", "the root namespace (default istio-system)")
	flags.StringVar(&f.in.Revision, "revision", "",
		"tells this control plane from others in the same cluster; it serves Istio objects with the label "+
			"istio.io/rev accordingly, and those without")
	flags.StringVar(&f.in.Image, "image", "", "the image of the control plane (the value pilot.image)")
	flags.StringVar(&f.in.ProxyImage, "proxy-image", "",
		"the image of injected proxies (default: registry/lateen-proxy:tag for --image registry/lateen:tag)")
	flags.Int32Var(&f.in.Replicas, "replicas", 0,
		"how many run, in place of an autoscaler (default: 2 to 5, by their CPU)")
	flags.BoolVar(&f.kinds, "crds", true, "install the definitions of Istio's kinds too")
	command.ValidateFlag(flags, "namespace", func() error { return dnsLabel(f.in.Namespace) })
	command.ValidateFlag(flags, "revision", func() error { return dnsLabel(f.in.Revision) })
	command.ValidateFlag(flags, "image", func() error { return image(f.in.Image) })
	command.ValidateFlag(flags, "proxy-image", func() error {
		if !strings.Contains(f.in.ProxyImage, "/") {
			return errors.New("want an image with its registry, as registry.example.com/lateen-proxy:v1")
		}
		return image(f.in.ProxyImage)
	})
	command.ValidateFlag(flags, "replicas", func() error {
		if f.in.Replicas < 1 {
			return errors.New("want 1 or more")
		}
		return nil
	})
	_ = cmd.MarkFlagFilename("file")
}

func image(name string) error {
	if name == "" || strings.ContainsFunc(name, unicode.IsSpace) {
		return errors.New("want the image of the control plane, as registry.example.com/lateen:v1")
	}
	return nil
}

// dnsLabel reports whether a name is invalid as a part of object names (RFC 1123).
func dnsLabel(name string) error {
	if len(validation.IsDNS1123Label(name)) > 0 {
		return errors.New("want a name of small letters, digits and dashes, 63 at most, that begins and ends with a " +
			"letter or a digit")
	}
	return nil
}

// read returns what to install, and tells what becomes of fields that are not simply honoured.
func (f *inputFlags) read(cmd *cobra.Command, notes *terminal.Writer) (*spec.Spec, error) {
	for _, name := range f.files {
		text, err := readFile(cmd, name)
		if err != nil {
			return nil, err
		}
		f.in.Documents = append(f.in.Documents, spec.Document{Name: name, Text: string(text)})
	}
	f.in.SkipKinds = !f.kinds
	s, all, err := spec.Read(f.in)
	if err != nil {
		return nil, fmt.Errorf("nothing is installed:\n%w", err)
	}
	tell(notes, all)
	return s, nil
}

func readFile(cmd *cobra.Command, name string) ([]byte, error) {
	if name == "-" {
		return io.ReadAll(cmd.InOrStdin())
	}
	return os.ReadFile(name)
}

// tell prints a table of what is without effect or done otherwise.
func tell(notes *terminal.Writer, all []spec.Note) {
	if len(all) == 0 {
		return
	}
	table := terminal.Table{Header: []string{"FIELD", "VALUE", "WHAT BECOMES OF IT"}}
	for _, n := range all {
		table.Row(n.Field, n.Value, n.Outcome)
	}
	notes.Table(table)
}
