package inspect

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/lateen-mesh/lateen/internal/cli/terminal"
)

// The kinds that are no resources of one message type.
const (
	kindSecrets   = "secrets"
	kindBootstrap = "bootstrap"
	kindAll       = "all"
)

// section is a kind of resource in a config dump: its message type, the header of its table, and
// how the rows of a resource are made.
type section struct {
	kind    string
	message proto.Message
	header  []string
	rows    func(proto.Message) []configRow
}

func sections() []section {
	return []section{
		{"clusters", &clusterv3.Cluster{}, []string{
			"SERVICE FQDN", "PORT", "SUBSET", "DIRECTION", "TYPE", "DESTINATION RULE",
		}, clusterRows},
		{"listeners", &listenerv3.Listener{}, []string{"ADDRESS", "PORT", "MATCH", "DESTINATION"}, listenerRows},
		{"routes", &routev3.RouteConfiguration{}, []string{
			"TABLE", "DOMAINS", "MATCH", "DESTINATION", "WEIGHT", "OWNER",
		}, routeRows},
		{"endpoints", &endpointv3.ClusterLoadAssignment{}, []string{
			"ENDPOINT", "STATUS", "WEIGHT", "LOCALITY", "WORKLOAD", "CLUSTER",
		}, endpointRows},
		{kindSecrets, nil, []string{"SECRET", "TYPE", "STATE", "SERIAL", "NOT BEFORE", "NOT AFTER"}, nil},
	}
}

// configKinds returns what can be asked for.
func configKinds() []string {
	kinds := []string{kindAll, kindBootstrap}
	for _, s := range sections() {
		kinds = append(kinds, s.kind)
	}
	slices.Sort(kinds)
	return kinds
}

// kindOf returns the kind that a word names, in the singular, the plural or istioctl's short form;
// empty if it names none.
func kindOf(word string) string {
	if short, ok := map[string]string{
		"c": "clusters", "l": "listeners", "r": "routes", "e": "endpoints", "ep": "endpoints", "s": kindSecrets,
		"b": kindBootstrap, "a": kindAll,
	}[word]; ok {
		return short
	}
	for _, kind := range configKinds() {
		if word == kind || word+"s" == kind {
			return kind
		}
	}
	return ""
}

// configRow is a row of a table, and what filters ask of it.
type configRow struct {
	cells     []string
	hosts     []string
	port      int
	direction string
}

// rowFilter selects rows. What is empty fits all.
type rowFilter struct {
	host, direction string
	port            int
}

func (f rowFilter) fits(r configRow) bool {
	return (f.host == "" || slices.Contains(r.hosts, f.host)) && (f.port == 0 || r.port == f.port) &&
		(f.direction == "" || r.direction == f.direction)
}

// configDump is a decoded config dump of Envoy, or of the control plane in the same form. It is
// kept as JSON: an Envoy may have types that this program does not know.
type configDump struct{ configs []any }

func readDump(body []byte) (*configDump, error) {
	var dump struct {
		Configs []any `json:"configs"`
	}
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.UseNumber()
	if err := decoder.Decode(&dump); err != nil {
		return nil, fmt.Errorf("the config dump cannot be read: %w", err)
	}
	if dump.Configs == nil {
		return nil, fmt.Errorf("the config dump has no configs; want what Envoy's admin page /config_dump says")
	}
	return &configDump{dump.Configs}, nil
}

// section returns the table of a kind, and its resources, as far as a filter lets them through.
func (d *configDump) section(kind string, f rowFilter) (table terminal.Table, resources []any) {
	resources = []any{}
	var rows []configRow
	switch kind {
	case kindBootstrap:
		table.Header = []string{"FIELD", "VALUE"}
		rows, resources = d.bootstrap()
		f = rowFilter{}
	case kindSecrets:
		rows, resources = d.secrets()
		f = rowFilter{}
	}
	for _, s := range sections() {
		if s.kind != kind {
			continue
		}
		table.Header = s.header
		if s.rows == nil {
			continue
		}
		for _, resource := range d.resources(s.message) {
			fitting := slices.DeleteFunc(s.rows(resource.message), func(r configRow) bool { return !f.fits(r) })
			if len(fitting) > 0 {
				rows, resources = append(rows, fitting...), append(resources, resource.raw)
			}
		}
		slices.SortStableFunc(rows, func(a, b configRow) int { return strings.Compare(a.cells[0], b.cells[0]) })
	}
	for _, row := range rows {
		table.Row(row.cells...)
	}
	return table, resources
}

// dumped is a resource in a dump, as it is written there and decoded.
type dumped struct {
	raw     map[string]any
	message proto.Message
}

// resources returns the resources of a type anywhere in the dump.
func (d *configDump) resources(want proto.Message) []dumped {
	typeURL := "type.googleapis.com/" + string(want.ProtoReflect().Descriptor().FullName())
	var found []dumped
	walkObjects(d.configs, func(o map[string]any) bool {
		if o["@type"] != typeURL {
			return false
		}
		message := want.ProtoReflect().New().Interface()
		if decodeObject(o, message) == nil {
			found = append(found, dumped{o, message})
		}
		return true
	})
	return found
}

// walkObjects calls f for each object in a JSON value, from outside to inside, until it returns
// true for one.
func walkObjects(v any, f func(map[string]any) (done bool)) {
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			walkObjects(e, f)
		}
	case map[string]any:
		if f(v) {
			return
		}
		for _, e := range v {
			walkObjects(e, f)
		}
	}
}

// decodeObject decodes the message in an object. It leaves out what this program does not know.
func decodeObject(o map[string]any, into proto.Message) error {
	fields := map[string]any{}
	for k, v := range o {
		if k != "@type" {
			fields[k] = v
		}
	}
	body, err := json.Marshal(fields)
	if err != nil {
		return err
	}
	return protojson.UnmarshalOptions{DiscardUnknown: true, Resolver: lenientTypes{protoregistry.GlobalTypes}}.
		Unmarshal(body, into)
}

// lenientTypes reads messages of types that are not linked as ones without fields.
type lenientTypes struct{ *protoregistry.Types }

// FindMessageByURL implements protoregistry.MessageTypeResolver.
func (l lenientTypes) FindMessageByURL(url string) (protoreflect.MessageType, error) {
	if t, err := l.Types.FindMessageByURL(url); err == nil {
		return t, nil
	}
	return (&corev3.ControlPlane{}).ProtoReflect().Type(), nil
}
