package spec

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"

	"helm.sh/helm/v4/pkg/strvals"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"github.com/lateen-mesh/lateen/internal/install/render"
	"github.com/lateen-mesh/lateen/internal/source/untrusted"
)

// Document is a file that says what to install: values of the chart lateen, an IstioOperator, a
// ServiceMeshControlPlane or a ServiceMeshMemberRoll, or several of them.
type Document struct {
	Name, Text string
}

// Input is all that a user says. What comes later in this list stands above what comes earlier.
type Input struct {
	// Earlier is what was installed before; nil: nothing is taken over.
	Earlier   *Spec
	Documents []Document
	// Sets are path=value, with paths of Helm (pilot.env.X) or of istioctl (values.pilot.env.X).
	Sets []string
	// Flags stand above all.
	Namespace, Revision, Image, ProxyImage string
	Replicas                               int32
	SkipKinds                              bool
}

// Reader reads an Input. It collects what is wrong, and what is without effect.
type Reader struct {
	schema  render.Schema
	spec    Spec
	values  map[string]any
	profile string
	// pilot and base are whether the control plane and Istio's kinds are installed.
	pilot, base enabled
	gateways    []*gateway
	members     *members
	file        string // that is being read
	notes       []Note
	problems    []error
}

// Read returns what to install, and what becomes of fields that are not simply honoured. The error
// says everything that is wrong.
func Read(in Input) (*Spec, []Note, error) {
	schema, err := render.SchemaOf(render.Lateen)
	if err != nil {
		return nil, nil, err
	}
	r := &Reader{schema: schema, values: map[string]any{}}
	if in.Earlier != nil {
		r.take(*in.Earlier)
	}
	for _, d := range in.Documents {
		r.file = d.Name
		if err := r.documents(d); err != nil {
			r.fail("%w", err)
		}
	}
	r.file = ""
	r.sets(in.Sets)
	r.flags(in)
	r.finish()
	if err := errors.Join(r.problems...); err != nil {
		return nil, nil, err
	}
	return &r.spec, r.notes, nil
}

// take begins with what was installed.
func (r *Reader) take(s Spec) {
	r.spec.Namespace, r.spec.SkipKinds, r.spec.MembersSelect = s.Namespace, s.SkipKinds, s.MembersSelect
	r.spec.Name, r.spec.ExcludedKinds = s.Name, s.ExcludedKinds
	if s.GatewaysOnly {
		r.pilot = no
	}
	r.values = merge(r.values, s.Values)
	for _, g := range s.Gateways {
		now := r.gateway(g.Name, g.Namespace)
		now.Values, now.enabled = merge(nil, g.Values), yes
	}
}

// documents reads a file.
func (r *Reader) documents(d Document) error {
	if err := untrusted.CheckFile([]byte(d.Text)); err != nil {
		return err
	}
	for reader := utilyaml.NewYAMLReader(bufio.NewReader(strings.NewReader(d.Text))); ; {
		text, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		var object map[string]any
		if err := yaml.UnmarshalStrict(text, &object, useNumber); err != nil {
			return err
		}
		if len(object) > 0 {
			r.document(object)
		}
	}
}

func useNumber(d *json.Decoder) *json.Decoder {
	d.UseNumber()
	return d
}

// document reads an object by its kind. What has no kind is values.
func (r *Reader) document(object map[string]any) {
	kind, _ := object["kind"].(string)
	api, _ := object["apiVersion"].(string)
	group, _, _ := strings.Cut(api, "/")
	switch {
	case kind == "" && api == "":
		r.plain(object)
	case kind == "IstioOperator" && group == "install.istio.io":
		r.operator(object)
	case kind == "ServiceMeshControlPlane" && group == "maistra.io":
		r.controlPlane(object)
	case kind == "ServiceMeshMemberRoll" && group == "maistra.io":
		r.memberRoll(object)
	default:
		r.fail("%s %s is not what says what to install; want an IstioOperator, a ServiceMeshControlPlane, "+
			"a ServiceMeshMemberRoll, or values without a kind", api, kind)
	}
}

// operatorKeys are the fields of an IstioOperator's spec that are no values of a chart.
var operatorKeys = []string{
	"values", "unvalidatedValues", "components", "profile", "hub", "tag", "namespace", "compatibilityVersion",
	"installPackagePath", "addonComponents",
}

// plain reads values, among which there may be fields of an IstioOperator, as istioctl's --set has
// them.
func (r *Reader) plain(object map[string]any) {
	object = unwrapped(object)
	of := map[string]any{}
	for _, key := range operatorKeys {
		if value, ok := object[key]; ok {
			of[key] = value
			delete(object, key)
		}
	}
	if len(of) > 0 {
		r.operatorSpec(r.fieldsOf("", of))
	}
	r.valuesOf("", object)
}

// sets reads path=value.
func (r *Reader) sets(all []string) {
	object := map[string]any{}
	for _, set := range all {
		set = strings.TrimPrefix(set, "spec.")
		if err := strvals.ParseInto(set, object); err != nil {
			r.fail("--set %s: %w; want path=value", set, err)
		}
	}
	if len(object) > 0 {
		r.plain(object)
	}
}

func (r *Reader) flags(in Input) {
	if in.Namespace != "" {
		r.spec.Namespace = in.Namespace
	}
	if in.Revision != "" {
		r.values["revision"] = in.Revision
	}
	if in.Image != "" {
		put(r.values, "pilot.image", in.Image)
	}
	if in.ProxyImage != "" {
		put(r.values, "global.proxy.image", in.ProxyImage)
		put(r.values, "global.proxy_init.image", in.ProxyImage)
	}
	if in.Replicas > 0 {
		put(r.values, "pilot.autoscaleEnabled", false)
		put(r.values, "pilot.replicaCount", int64(in.Replicas))
	}
	r.spec.SkipKinds = r.spec.SkipKinds || in.SkipKinds
}

// finish puts the profile beneath what is given, and checks the result.
func (r *Reader) finish() {
	r.applyProfile()
	r.applyPilot()
	r.applyMembers()
	r.checkImage()
	r.checkSettings()
	r.checkDiscovery()
	r.checkMesh()
	r.checkAuthority()
	r.spec.Values = r.values
	for _, g := range r.gateways {
		if g.enabled == yes {
			r.spec.Gateways = append(r.spec.Gateways, g.Gateway)
		}
	}
	r.notes = slices.Compact(r.notes)
}
