package convert

import (
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/wrapperspb"
	mesh "istio.io/api/mesh/v1alpha1"
	networking "istio.io/api/networking/v1alpha3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/source"
	"github.com/lateen-mesh/lateen/internal/testkit/certs"
)

// TestEveryFieldIsUsedOrReported changes each field of each message of Istio's API, in the cases of
// testdata, until the result differs: for a field that usedFields lists in the objects or by a
// problem of its own, for any other by the report that it is not supported. A field that a new
// version of the API brings fails here until one of them is done.
func TestEveryFieldIsUsedOrReported(t *testing.T) {
	_, left := provenFields(t)
	require.Empty(t, left, "fields that are set without any effect or report, or that no case of testdata leads to")
}

// provenFields returns the case that proves each field, and the fields that none does.
func provenFields(t *testing.T) (cases map[protoreflect.FullName]string, left []string) {
	cases = map[protoreflect.FullName]string{}
	open := fieldsToProve(t)
	for _, c := range specsOfTestdata(t) {
		base := resultOf(c.spec)
		for i, m := range messagesIn(c.spec.ProtoReflect()) {
			fields := m.Descriptor().Fields()
			for j := range fields.Len() {
				field := fields.Get(j)
				if open[field.FullName()] && makesADifference(c.spec, i, field, base) {
					delete(open, field.FullName())
					cases[field.FullName()] = c.name
				}
			}
		}
	}
	for name := range open {
		left = append(left, string(name))
	}
	slices.Sort(left)
	return cases, left
}

// fieldsToProve are the fields of all messages that conversions read.
func fieldsToProve(t *testing.T) map[protoreflect.FullName]bool {
	open := map[protoreflect.FullName]bool{}
	seen := map[protoreflect.FullName]bool{}
	var visit func(m protoreflect.MessageDescriptor)
	visit = func(m protoreflect.MessageDescriptor) {
		used, known := usedFields(m.FullName())
		if seen[m.FullName()] {
			return
		}
		if !known {
			require.True(
				t, isRefusedAsAWhole(m.FullName()) || m.ParentFile().Package() == "google.protobuf",
				"%s has no used fields", m.FullName(),
			)
			return
		}
		seen[m.FullName()] = true
		for word := range strings.FieldsSeq(used) {
			require.NotNil(t, m.Fields().ByName(protoreflect.Name(word)), "%s has no field %s", m.FullName(), word)
		}
		for i := range m.Fields().Len() {
			field := m.Fields().Get(i)
			open[field.FullName()] = true
			below := field.Message()
			if field.IsMap() {
				below = field.MapValue().Message()
			}
			if below != nil && hasWord(used, string(field.Name())) {
				visit(below)
			}
		}
	}
	for _, m := range specs() {
		visit(m.ProtoReflect().Descriptor())
	}
	// The detector is always there: by it the environment says whose spans they are.
	delete(open, "istio.mesh.v1alpha1.MeshConfig.ExtensionProvider.ResourceDetectors.environment")
	delete(open, "istio.mesh.v1alpha1.MeshConfig.ExtensionProvider.OpenTelemetryTracingProvider.resource_detectors")
	// Headers that tell who calls go to no others than IN_MESH names.
	delete(open, "istio.mesh.v1alpha1.ProxyConfig.ProxyHeaders.metadata_exchange_headers")
	delete(open, "istio.mesh.v1alpha1.ProxyConfig.ProxyHeaders.MetadataExchangeHeaders.mode")
	// What a group says goes into entries and into the start of machines, not into proxies:
	// cluster/machines, agent/health and cli/inspect test it.
	for name := range open {
		if slices.Contains(ofMachines, name.Parent()) {
			delete(open, name)
		}
	}
	return open
}

// ofMachines are the messages of a WorkloadGroup, but for its template.
var ofMachines = []protoreflect.FullName{
	"istio.networking.v1alpha3.WorkloadGroup", "istio.networking.v1alpha3.WorkloadGroup.ObjectMeta",
	"istio.networking.v1alpha3.ReadinessProbe", "istio.networking.v1alpha3.HTTPHealthCheckConfig",
	"istio.networking.v1alpha3.HTTPHeader", "istio.networking.v1alpha3.TCPHealthCheckConfig",
	"istio.networking.v1alpha3.ExecHealthCheckConfig", "istio.networking.v1alpha3.GrpcHealthCheckConfig",
}

// isRefusedAsAWhole knows messages that close what they stand in, whatever they hold.
func isRefusedAsAWhole(message protoreflect.FullName) bool {
	switch message {
	case "istio.type.v1beta1.PolicyTargetReference":
		return true
	}
	return false
}

type requestBody = mesh.MeshConfig_ExtensionProvider_EnvoyExternalAuthorizationRequestBody

// namedSpec is a specification, and where it stands: a file of testdata, or no name for those of
// this test.
type namedSpec struct {
	name string
	spec proto.Message
}

func specsOfTestdata(t *testing.T) []namedSpec {
	cases, err := filepath.Glob("testdata/*.yaml")
	require.NoError(t, err)
	var named []namedSpec
	for _, file := range cases {
		for _, d := range documents(t, file) {
			if spec := specOf(d.Object); spec != nil {
				named = append(named, namedSpec{strings.TrimSuffix(filepath.Base(file), ".yaml"), spec})
			}
		}
	}
	for _, spec := range meshSpecs(t) {
		named = append(named, namedSpec{"", spec})
	}
	return named
}

// meshSpecs are mesh configurations with what cases of testdata do not set.
func meshSpecs(t *testing.T) []proto.Message {
	specs := []proto.Message{&mesh.MeshConfig{
		OutboundTrafficPolicy: &mesh.MeshConfig_OutboundTrafficPolicy{
			Mode: mesh.MeshConfig_OutboundTrafficPolicy_ALLOW_ANY,
		},
		DefaultConfig: &mesh.ProxyConfig{
			ProxyMetadata: map[string]string{idleTimeoutMetadata: "9s"}, GatewayTopology: &mesh.Topology{},
		},
		DefaultHttpRetryPolicy: &networking.HTTPRetry{Attempts: 1},
		MeshMTLS:               &mesh.MeshConfig_TLSConfig{},
		PathNormalization:      &mesh.MeshConfig_ProxyPathNormalization{},
		DefaultProviders: &mesh.MeshConfig_DefaultProviders{
			AccessLogging: []string{"file", "json", "http-log", "tcp-log", "otel-log"},
		},
		ExtensionProviders: append([]*mesh.MeshConfig_ExtensionProvider{
			{Name: "other"},
			{Name: "http", Provider: &mesh.MeshConfig_ExtensionProvider_EnvoyExtAuthzHttp{
				EnvoyExtAuthzHttp: &mesh.MeshConfig_ExtensionProvider_EnvoyExternalAuthorizationHttpProvider{
					Service: "a.test", Port: 80, IncludeRequestBodyInCheck: &requestBody{MaxRequestBytes: 1},
				},
			}},
			{Name: "grpc", Provider: &mesh.MeshConfig_ExtensionProvider_EnvoyExtAuthzGrpc{
				EnvoyExtAuthzGrpc: &mesh.MeshConfig_ExtensionProvider_EnvoyExternalAuthorizationGrpcProvider{
					Service: "a.test", Port: 80, IncludeRequestBodyInCheck: &requestBody{MaxRequestBytes: 1},
				},
			}},
		}, logProviders()...),
		CaCertificates: []*mesh.MeshConfig_CertificateData{{
			CertificateData: &mesh.MeshConfig_CertificateData_Pem{Pem: certs.NewAuthority(t, "signer").PEM},
		}},
		LocalityLbSetting: &networking.LocalityLoadBalancerSetting{
			Failover: []*networking.LocalityLoadBalancerSetting_Failover{{From: "a", To: "b"}},
		},
	}}
	specs = append(specs, &mesh.MeshConfig{AccessLogFile: "/dev/stdout"})
	specs = append(specs, &mesh.MeshConfig{DefaultTrafficPolicy: &mesh.MeshConfig_DefaultTrafficPolicy{
		ConnectionPool: &networking.ConnectionPoolSettings{},
	}}, &mesh.MeshConfig{
		InboundTrafficPolicy: &mesh.MeshConfig_InboundTrafficPolicy{
			Mode: mesh.MeshConfig_InboundTrafficPolicy_LOCALHOST,
		},
		DefaultConfig: &mesh.ProxyConfig{ConnectionSettings: &mesh.ProxyConfig_ConnectionSettings{}},
	})
	specs = append(specs, headersSpec(), &mesh.MeshConfig{
		EnableEnvoyAccessLogService: true,
		DefaultConfig: &mesh.ProxyConfig{
			EnvoyAccessLogService: &mesh.RemoteService{Address: "logs.test:9000"},
		},
	})
	return append(specs, tracingSpecs()...)
}

// specOf is the spec of an object of Istio's API, and nil for all others.
func specOf(o metav1.Object) proto.Message {
	field := reflect.ValueOf(o).Elem().FieldByName("Spec")
	if !field.IsValid() {
		return nil
	}
	spec, _ := field.Addr().Interface().(proto.Message)
	return spec
}

// headersSpec sets each of the headers that proxies set.
func headersSpec() proto.Message {
	on := wrapperspb.Bool(true)
	return &mesh.MeshConfig{DefaultConfig: &mesh.ProxyConfig{ProxyHeaders: &mesh.ProxyConfig_ProxyHeaders{
		SetCurrentClientCertDetails: &mesh.ProxyConfig_ProxyHeaders_SetCurrentClientCertDetails{Cert: on, Chain: on},
		RequestId:                   &mesh.ProxyConfig_ProxyHeaders_RequestId{Disabled: on},
		Server:                      &mesh.ProxyConfig_ProxyHeaders_Server{Disabled: on},
		AttemptCount:                &mesh.ProxyConfig_ProxyHeaders_AttemptCount{Disabled: on},
		EnvoyDebugHeaders:           &mesh.ProxyConfig_ProxyHeaders_EnvoyDebugHeaders{Disabled: on},
		MetadataExchangeHeaders:     &mesh.ProxyConfig_ProxyHeaders_MetadataExchangeHeaders{},
		PreserveHttp1HeaderCase:     on,
		XForwardedHost:              &mesh.ProxyConfig_ProxyHeaders_XForwardedHost{Enabled: on},
		XForwardedPort:              &mesh.ProxyConfig_ProxyHeaders_XForwardedPort{Enabled: on},
	}}}
}

// specs are empty specifications of all kinds that have one, and a mesh configuration.
func specs() []proto.Message {
	all := []proto.Message{&mesh.MeshConfig{}}
	for _, d := range kinds.All() {
		if spec := specOf(d.New()); spec != nil {
			all = append(all, spec)
		}
	}
	return all
}

// objectOf is an object with a specification.
func objectOf(spec proto.Message) (kinds.Kind, metav1.Object) {
	for _, d := range kinds.All() {
		object := d.New()
		if own := specOf(object); own != nil && own.ProtoReflect().Descriptor() == spec.ProtoReflect().Descriptor() {
			proto.Merge(own, spec)
			return d.Kind, object
		}
	}
	return "", nil
}

// readSpec converts a specification as that of the object default/case.
func readSpec(c *Converter, spec proto.Message) Result {
	key := source.Key{Namespace: "default", Name: "case"}
	if s, ok := spec.(*mesh.MeshConfig); ok {
		out := model.DefaultMesh()
		r := &reader{report: report{object: key}, converter: c, mesh: out, pools: c.pools}
		r.meshOf("data.mesh", s, &out)
		r.reportUnused("data.mesh", s.ProtoReflect())
		return Result{Objects: []Object{&out}, Problems: r.problems}
	}
	kind, object := objectOf(spec)
	key.Kind = kind
	return c.Convert(source.Change{Key: key, Object: object}, model.DefaultMesh())
}

// outcome is a result in comparable parts.
type outcome struct {
	objects, problems string
	notYet            map[string]bool // paths
}

func resultOf(spec proto.Message) outcome {
	result := readSpec(New(Options{}), spec)
	o := outcome{notYet: map[string]bool{}}
	absent := map[string]bool{}
	for _, a := range absences() {
		absent[a.why] = true
	}
	for _, object := range result.Objects {
		o.objects += dump(object)
	}
	for _, p := range result.Problems {
		if absent[p.Message] {
			o.notYet[p.Path] = true
			continue
		}
		o.problems += p.String() + "\n"
	}
	return o
}

// makesADifference tries values for a field of the i-th message of a specification.
func makesADifference(spec proto.Message, i int, field protoreflect.FieldDescriptor, base outcome) bool {
	used, _ := usedFields(field.ContainingMessage().FullName())
	for _, try := range changesOf(field) {
		changed := proto.Clone(spec)
		try(messagesIn(changed.ProtoReflect())[i])
		now := resultOf(changed)
		if hasWord(used, string(field.Name())) {
			if now.objects != base.objects || now.problems != base.problems {
				return true
			}
			continue
		}
		for p := range now.notYet {
			if !base.notYet[p] && strings.HasSuffix(p, "."+field.JSONName()) {
				return now.objects == base.objects
			}
		}
	}
	return false
}

// messagesIn are a message and all that stand in it and that conversions may read, in a fixed
// order.
func messagesIn(m protoreflect.Message) []protoreflect.Message {
	if _, known := usedFields(m.Descriptor().FullName()); !known {
		return nil
	}
	list := []protoreflect.Message{m}
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		field := fields.Get(i)
		if !m.Has(field) {
			continue
		}
		v := m.Get(field)
		switch {
		case field.IsMap():
			if field.MapValue().Message() == nil {
				continue
			}
			entries := map[string]protoreflect.Message{}
			v.Map().Range(func(k protoreflect.MapKey, e protoreflect.Value) bool {
				entries[k.String()] = e.Message()
				return true
			})
			for _, k := range sortedKeys(entries) {
				list = append(list, messagesIn(entries[k])...)
			}
		case field.Message() == nil:
		case field.IsList():
			for j := range v.List().Len() {
				list = append(list, messagesIn(v.List().Get(j).Message())...)
			}
		default:
			list = append(list, messagesIn(v.Message())...)
		}
	}
	return list
}

type edit func(protoreflect.Message)

// changesOf are edits that each set a field to something else than most have.
func changesOf(field protoreflect.FieldDescriptor) []edit {
	clearIt := func(m protoreflect.Message) { m.Clear(field) }
	switch {
	case field.IsMap():
		return []edit{clearIt, func(m protoreflect.Message) {
			entries := m.Mutable(field).Map()
			v := entries.NewValue()
			if kind := field.MapValue(); kind.Message() == nil {
				v = scalarsOf(kind)[0]
			}
			key := protoreflect.ValueOfString("zz")
			if field.MapKey().Kind() == protoreflect.Uint32Kind {
				key = protoreflect.ValueOfUint32(7)
			}
			entries.Set(key.MapKey(), v)
		}}
	case field.IsList():
		return []edit{clearIt, func(m protoreflect.Message) {
			items := m.Mutable(field).List()
			if field.Message() != nil {
				items.AppendMutable()
				return
			}
			items.Append(scalarsOf(field)[0])
		}}
	case field.Message() != nil:
		return []edit{
			func(m protoreflect.Message) { m.Mutable(field) },
			func(m protoreflect.Message) { fill(m.Mutable(field).Message()) },
			clearIt,
		}
	}
	edits := []edit{clearIt}
	for _, v := range scalarsOf(field) {
		edits = append(edits, func(m protoreflect.Message) { m.Set(field, v) })
	}
	return edits
}

// fill sets what a wrapper or a duration holds.
func fill(m protoreflect.Message) {
	if m.Descriptor().Fields().Len() == 0 {
		return
	}
	first := m.Descriptor().Fields().Get(0)
	if first.Message() == nil && !first.IsList() && !first.IsMap() {
		m.Set(first, scalarsOf(first)[0])
	}
}

func scalarsOf(field protoreflect.FieldDescriptor) []protoreflect.Value {
	switch field.Kind() {
	case protoreflect.BoolKind:
		return []protoreflect.Value{protoreflect.ValueOfBool(true), protoreflect.ValueOfBool(false)}
	case protoreflect.EnumKind:
		var all []protoreflect.Value
		for i := field.Enum().Values().Len() - 1; i >= 0; i-- {
			all = append(all, protoreflect.ValueOfEnum(field.Enum().Values().Get(i).Number()))
		}
		return all
	case protoreflect.StringKind:
		return []protoreflect.Value{protoreflect.ValueOfString("zz"), protoreflect.ValueOfString("zz.example.com")}
	case protoreflect.BytesKind:
		return []protoreflect.Value{protoreflect.ValueOfBytes([]byte("zz"))}
	case protoreflect.DoubleKind:
		return []protoreflect.Value{protoreflect.ValueOfFloat64(77)}
	case protoreflect.Int32Kind:
		return []protoreflect.Value{protoreflect.ValueOfInt32(77)}
	case protoreflect.Int64Kind:
		return []protoreflect.Value{protoreflect.ValueOfInt64(77)}
	case protoreflect.Uint32Kind:
		return []protoreflect.Value{protoreflect.ValueOfUint32(77)}
	case protoreflect.Uint64Kind:
		return []protoreflect.Value{protoreflect.ValueOfUint64(77)}
	}
	panic("no value for a field of kind " + field.Kind().String())
}

// tracingSpecs are mesh configurations with tracers in them.
func tracingSpecs() []proto.Message {
	type provider = mesh.MeshConfig_ExtensionProvider
	headers := []*mesh.MeshConfig_ExtensionProvider_HttpHeader{{
		Name: "x-a", HeaderValue: &mesh.MeshConfig_ExtensionProvider_HttpHeader_Value{Value: "a"},
	}}
	tags := map[string]*mesh.Tracing_CustomTag{
		"literal": {Type: &mesh.Tracing_CustomTag_Literal{Literal: &mesh.Tracing_Literal{Value: "a"}}},
		"environment": {Type: &mesh.Tracing_CustomTag_Environment{
			Environment: &mesh.Tracing_Environment{Name: "A", DefaultValue: "a"},
		}},
		"header": {Type: &mesh.Tracing_CustomTag_Header{Header: &mesh.Tracing_RequestHeader{Name: "x-a"}}},
	}
	return []proto.Message{
		&mesh.MeshConfig{DefaultConfig: &mesh.ProxyConfig{Tracing: &mesh.Tracing{Sampling: 1}}},
		&mesh.MeshConfig{
			EnableTracing: true,
			DefaultConfig: &mesh.ProxyConfig{Tracing: &mesh.Tracing{CustomTags: tags, Tracer: &mesh.Tracing_Zipkin_{
				Zipkin: &mesh.Tracing_Zipkin{Address: "zipkin.a:9411"},
			}}},
		},
		&mesh.MeshConfig{EnableTracing: true, DefaultConfig: &mesh.ProxyConfig{Tracing: &mesh.Tracing{
			Tracer: &mesh.Tracing_Datadog_{Datadog: &mesh.Tracing_Datadog{Address: "dd.a:8126"}},
		}}},
		&mesh.MeshConfig{
			DefaultProviders: &mesh.MeshConfig_DefaultProviders{Tracing: []string{"zipkin"}},
			ExtensionProviders: []*provider{
				{Name: "prometheus", Provider: &mesh.MeshConfig_ExtensionProvider_Prometheus{}},
				{Name: "zipkin", Provider: &mesh.MeshConfig_ExtensionProvider_Zipkin{
					Zipkin: &mesh.MeshConfig_ExtensionProvider_ZipkinTracingProvider{
						Service: "a.test", Port: 80, Headers: headers,
					},
				}},
				{Name: "datadog", Provider: &mesh.MeshConfig_ExtensionProvider_Datadog{
					Datadog: &mesh.MeshConfig_ExtensionProvider_DatadogTracingProvider{Service: "a.test", Port: 80},
				}},
				{Name: "sky", Provider: &mesh.MeshConfig_ExtensionProvider_Skywalking{
					Skywalking: &mesh.MeshConfig_ExtensionProvider_SkyWalkingTracingProvider{
						Service: "a.test", Port: 80,
					},
				}},
				{Name: "otel", Provider: &mesh.MeshConfig_ExtensionProvider_Opentelemetry{
					Opentelemetry: &mesh.MeshConfig_ExtensionProvider_OpenTelemetryTracingProvider{
						Service: "a.test", Port: 80,
						Grpc:              &mesh.MeshConfig_ExtensionProvider_GrpcService{InitialMetadata: headers},
						ResourceDetectors: &mesh.MeshConfig_ExtensionProvider_ResourceDetectors{},
					},
				}},
				{Name: "otel-http", Provider: &mesh.MeshConfig_ExtensionProvider_Opentelemetry{
					Opentelemetry: &mesh.MeshConfig_ExtensionProvider_OpenTelemetryTracingProvider{
						Service: "a.test", Port: 80,
						Http: &mesh.MeshConfig_ExtensionProvider_HttpService{Headers: headers},
					},
				}},
			},
		},
	}
}
