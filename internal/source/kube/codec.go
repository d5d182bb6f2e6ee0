package kube

import (
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	istiometa "istio.io/api/meta/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	strictjson "sigs.k8s.io/json"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/source"
	"github.com/lateen-mesh/lateen/internal/source/istiojson"
	"github.com/lateen-mesh/lateen/internal/source/untrusted"
)

// customObject is an object of a custom resource. Each is decoded by itself, so that a bad one does
// not keep the others from being read.
type customObject struct {
	metav1.TypeMeta
	metav1.ObjectMeta
	// object has the type that source.Change documents, with its spec and without its metadata. It
	// is nil if it cannot be read.
	object  metav1.Object
	problem *specProblem
}

// specProblem says what is wrong with a spec.
type specProblem struct {
	severity      source.Severity
	message, want string
}

// DeepCopyObject implements runtime.Object. Nothing copies these objects.
func (c *customObject) DeepCopyObject() runtime.Object {
	copied := *c
	return &copied
}

// customCodec decodes lists and events of custom resources item by item.
type customCodec struct {
	serializer.CodecFactory
	kinds map[string]kinds.Kind // by the name in the API
}

func newCustomCodec(standard serializer.CodecFactory, all []*resource, gv schema.GroupVersion) customCodec {
	c := customCodec{CodecFactory: standard, kinds: map[string]kinds.Kind{}}
	for _, r := range all {
		if r.GroupVersion() == gv && !r.reported {
			c.kinds[r.kind.Name()] = r.kind
		}
	}
	return c
}

// DecoderToVersion implements runtime.NegotiatedSerializer.
func (c customCodec) DecoderToVersion(standard runtime.Decoder, _ runtime.GroupVersioner) runtime.Decoder {
	return customDecoder{standard: standard, kinds: c.kinds}
}

type customDecoder struct {
	standard runtime.Decoder
	kinds    map[string]kinds.Kind
}

// document has the fields that all answers of the API server share.
type document struct {
	metav1.TypeMeta
	Metadata json.RawMessage   `json:"metadata"`
	Spec     json.RawMessage   `json:"spec"`
	Status   json.RawMessage   `json:"status"`
	Items    []json.RawMessage `json:"items"`
}

// Decode implements runtime.Decoder. It fails only on text that is no answer of an API server.
func (d customDecoder) Decode(
	data []byte, defaults *schema.GroupVersionKind, into runtime.Object,
) (runtime.Object, *schema.GroupVersionKind, error) {
	var doc document
	if err := json.Unmarshal(data, &doc); err != nil {
		return nil, nil, fmt.Errorf("not an object of the Kubernetes API: %w", err)
	}
	if doc.Kind == "Status" {
		return d.standard.Decode(data, defaults, into)
	}
	gvk := doc.GroupVersionKind()
	item, isList := strings.CutSuffix(doc.Kind, "List")
	if !isList {
		object, err := d.decodeOne(&doc, doc.Kind)
		if err != nil {
			return nil, nil, err
		}
		return object, &gvk, nil
	}
	list := &metav1.List{TypeMeta: doc.TypeMeta}
	if err := json.Unmarshal(doc.Metadata, &list.ListMeta); err != nil {
		return nil, nil, fmt.Errorf("the metadata of a list: %w", err)
	}
	for _, raw := range doc.Items {
		var one document
		if err := json.Unmarshal(raw, &one); err != nil {
			return nil, nil, fmt.Errorf("an item of a list: %w", err)
		}
		object, err := d.decodeOne(&one, item)
		if err != nil {
			return nil, nil, err
		}
		list.Items = append(list.Items, runtime.RawExtension{Object: object})
	}
	return list, &gvk, nil
}

func (d customDecoder) decodeOne(doc *document, kind string) (*customObject, error) {
	c := &customObject{TypeMeta: doc.TypeMeta}
	if err := json.Unmarshal(doc.Metadata, &c.ObjectMeta); err != nil {
		return nil, fmt.Errorf("the metadata of a %s: %w", kind, err)
	}
	k, known := d.kinds[kind]
	if !known { // only the name is wanted
		return c, nil
	}
	c.readSpec(k, doc)
	c.readCondition(kinds.Of(k).Watch.Condition, doc.Status)
	return c, nil
}

// readSpec reads a spec strictly. If that fails, the spec of a kind that protects is replaced by
// one that refuses calls. Other kinds are read without their unknown fields; if that fails too,
// there is no object.
func (c *customObject) readSpec(k kinds.Kind, doc *document) {
	c.object = k.NewObject()
	spec := specOf(c.object)
	if spec == nil {
		c.readPlain(k, doc)
		return
	}
	err := decodeSpec(doc.Spec, spec, protojson.UnmarshalOptions{})
	if err == nil {
		return
	}
	c.problem = &specProblem{
		message: userMessage(err),
		want:    "a spec of " + doc.APIVersion + " " + k.Name() + " as in Istio " + istioAPI,
	}
	if closed := istiojson.ClosedSpec(k, doc.Spec); closed != nil {
		proto.Reset(spec)
		proto.Merge(spec, closed)
		c.problem.severity = source.Error
		c.problem.message += "; calls are refused until it can be read"
		return
	}
	proto.Reset(spec)
	if decodeSpec(doc.Spec, spec, protojson.UnmarshalOptions{DiscardUnknown: true}) != nil {
		c.object, c.problem.severity = nil, source.Error
		c.problem.message += "; the object is not in force"
		return
	}
	c.problem.message += "; it has no effect"
}

// readPlain reads a spec that is no message: of the Gateway API, and of Lateen's own kinds. Fields
// that these types do not know, as they come with experimental definitions, have no effect. What
// has a wrong type is not in force.
func (c *customObject) readPlain(k kinds.Kind, doc *document) {
	text, err := json.Marshal(map[string]json.RawMessage{"spec": doc.Spec})
	if err != nil || len(doc.Spec) == 0 {
		return // the API server lets none without a spec through
	}
	if err := untrusted.Object().Check(doc.Spec); err != nil {
		c.object = nil
		c.problem = &specProblem{
			severity: source.Error, message: err.Error() + "; the object is not in force",
			want: "a spec of " + doc.APIVersion + " " + k.Name(),
		}
		return
	}
	unknown, err := strictjson.UnmarshalStrict(text, c.object, strictjson.DisallowUnknownFields)
	if err == nil && len(unknown) == 0 {
		return
	}
	c.problem = &specProblem{want: "a spec of " + doc.APIVersion + " " + k.Name()}
	if err != nil {
		c.object, c.problem.severity = nil, source.Error
		c.problem.message = err.Error() + "; the object is not in force"
		return
	}
	c.problem.message = unknown[0].Error() + "; it has no effect"
}

// readCondition reads one condition from a status and drops the rest. A status that cannot be read
// has none.
func (c *customObject) readCondition(name string, raw json.RawMessage) {
	if name == "" || c.object == nil || len(raw) == 0 {
		return
	}
	var status istiometa.IstioStatus
	if (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(raw, &status) != nil {
		return
	}
	for _, condition := range status.GetConditions() {
		if condition.GetType() == name {
			statusOf(c.object).Conditions = []*istiometa.IstioCondition{{Type: name, Status: condition.GetStatus()}}
		}
	}
}

// istioAPI is the API level of the types that specs are decoded into.
const istioAPI = "1.31"

// specOf returns the spec of an object of istio.io/client-go, whose types are all alike; nil of any
// other object.
func specOf(o metav1.Object) proto.Message {
	spec, _ := reflect.ValueOf(o).Elem().FieldByName("Spec").Addr().Interface().(proto.Message)
	return spec
}

// statusOf returns the status of an object of istio.io/client-go.
func statusOf(o metav1.Object) *istiometa.IstioStatus {
	return reflect.ValueOf(o).Elem().FieldByName("Status").Addr().Interface().(*istiometa.IstioStatus)
}

func decodeSpec(raw json.RawMessage, spec proto.Message, o protojson.UnmarshalOptions) error {
	if len(raw) == 0 || string(raw) == "null" {
		return nil
	}
	if err := untrusted.Object().Check(raw); err != nil {
		return err
	}
	return istiojson.Unmarshal(raw, spec, o)
}

// protojsonPrefix is what protojson puts before its messages: the position in a line of JSON, with
// white space that differs from build to build.
var protojsonPrefix = regexp.MustCompile(`^proto:[\s\x{a0}]*(?:syntax error )?(?:\(line \d+:\d+\): )?`)

// userMessage returns a message of protojson for people.
func userMessage(err error) string {
	return strings.ReplaceAll(protojsonPrefix.ReplaceAllString(err.Error(), ""), "\u00a0", " ")
}
