package spec

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/reflect/protoreflect"
	mesh "istio.io/api/mesh/v1alpha1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/cluster/inject"
	"github.com/lateen-mesh/lateen/internal/install/render"
)

// installation is what is installed with some settings.
type installation struct {
	objects map[string]*unstructured.Unstructured // by kind and name
	notes   []Note
	pods    [2]string // what a Pod and a gateway become
}

// installed installs with settings of the form path=value. It fails for what is refused.
func installed(t *testing.T, sets ...string) installation {
	t.Helper()
	i, err := installation{}.with(sets...)
	require.NoError(t, err, "%v", sets)
	return i
}

func (i installation) with(sets ...string) (installation, error) {
	s, notes, err := Read(Input{Image: "r.test/lateen:v1", Sets: sets, SkipKinds: true})
	if err != nil {
		return i, err
	}
	objects, err := s.Objects(nil)
	if err != nil {
		return i, err
	}
	i.notes, i.objects = notes, map[string]*unstructured.Unstructured{}
	var texts inject.Texts
	for _, o := range objects {
		i.objects[o.GetKind()+" "+o.GetName()] = o
		data, _, _ := unstructured.NestedStringMap(o.Object, "data")
		switch o.GetKind() + " " + o.GetName() {
		case "ConfigMap istio-sidecar-injector":
			texts.Config, texts.Values = data[inject.ConfigKey], data[inject.ValuesKey]
		case "ConfigMap istio":
			texts.Mesh = data["mesh"]
		}
	}
	injector, err := inject.New(inject.Options{Namespace: s.Root()}, texts)
	if err != nil {
		return i, err
	}
	for n, pod := range []string{
		`{"spec": {"containers": [{"name": "web", "image": "web", "readinessProbe": {"tcpSocket": {"port": 80}}}]}}`,
		`{"metadata": {"annotations": {"inject.istio.io/templates": "gateway"}},
		  "spec": {"containers": [{"name": "istio-proxy", "image": "auto"}]}}`,
	} {
		result, err := injector.Inject(inject.Pod{JSON: []byte(pod), Namespace: "shop"})
		if err != nil {
			return i, err
		}
		i.pods[n] = string(result.JSON)
	}
	return i, nil
}

func (i installation) field(object string, path ...string) any {
	value, _, _ := unstructured.NestedFieldNoCopy(i.objects[object].Object, path...)
	return value
}

// facts has, for each message of the table, whether it is true. A new message needs a line.
func facts() map[string]func(t *testing.T, i installation) {
	always := func(*testing.T, installation) {} // it says only that the value is not read
	has := func(object string) func(*testing.T, installation) {
		return func(t *testing.T, i installation) { require.Contains(t, i.objects, object) }
	}
	pod := []string{"spec", "template", "spec"}
	return map[string]func(*testing.T, installation){
		notRead: always,
		ambient: func(t *testing.T, i installation) { require.NotContains(t, fmt.Sprint(i.objects), "ztunnel") },
		ofPlugin: func(t *testing.T, i installation) {
			require.NotContains(t, fmt.Sprint(i.objects), "DaemonSet")
			require.Contains(t, i.pods[0], "NET_ADMIN")
		},
		"without effect: taints of nodes are left to others": func(t *testing.T, i installation) {
			require.NotContains(t, fmt.Sprint(i.objects), "taint")
		},
		"without effect: the control plane is what is installed":         has("Deployment istiod"),
		"without effect: it names istiod's images; want --image":         has("Deployment istiod"),
		"without effect: it names istiod's images":                       has("Deployment istiod"),
		"without effect; want meshConfig.defaultConfig.tracing.sampling": always, // below
		"without effect; want meshConfig.protocolDetectionTimeout":       always,
		"without effect: meshConfig makes the ConfigMap": func(t *testing.T, i installation) {
			require.NotContains(t, i.objects, "ConfigMap istio")
			require.Contains(t, installed(t, "meshConfig.accessLogFile=/dev/stdout").objects, "ConfigMap istio")
		},
		"without effect: it is RuntimeDefault": func(t *testing.T, i installation) {
			require.Equal(t, "RuntimeDefault",
				i.field("Deployment istiod", append(pod, "securityContext", "seccompProfile", "type")...))
		},
		"without effect: it is the most restricted": func(t *testing.T, i installation) {
			containers := i.field("Deployment istiod", append(pod, "containers")...)
			require.Contains(t, fmt.Sprint(containers), "drop:[ALL]")
			require.Contains(t, fmt.Sprint(containers), "runAsNonRoot:true")
		},
		"without effect: it is always autoscaling/v2": func(t *testing.T, i installation) {
			require.Equal(t, "autoscaling/v2", i.objects["HorizontalPodAutoscaler istiod"].GetAPIVersion())
		},
		"without effect: the root namespace is that of the control plane": func(t *testing.T, i installation) {
			require.Equal(t, "istio-system", i.objects["Deployment istiod"].GetNamespace())
		},
		"without effect: the webhook validates": has(
			"ValidatingWebhookConfiguration lateen-validator-istio-system"),
		"without effect; want pilot.nodeSelector":                         always, // below
		"without effect; want pilot.tolerations":                          always,
		"without effect; want pilot.resources and global.proxy.resources": always,
		"without effect; want networkPolicy.enabled":                      always,
		allKinds: always,
		"without effect: the control plane makes its certificate": has("Secret lateen-serving-cert"),
		"without effect: it is of the chart base":                 always, // TestExcludedKindsAreNotInstalled
		"without effect: Lateen has one behaviour":                always,
		// two revisions: test/incluster
		"without effect; want a PeerAuthentication": isServed("PeerAuthentication"),
		metrics: isServed("Telemetry"),
		"without effect: tokens are always third-party tokens": func(t *testing.T, i installation) {
			require.Contains(t, i.pods[0], `"serviceAccountToken":{"audience":"istio-ca"`)
		},
		"without effect: Lateen installs no addons": func(t *testing.T, i installation) {
			for object := range i.objects {
				require.NotRegexp(t, "(?i)prometheus|grafana|kiali|jaeger", object)
			}
		},
	}
}

// isServed is the fact that objects of a kind are read.
func isServed(kind kinds.Kind) func(*testing.T, installation) {
	return func(t *testing.T, _ installation) {
		require.True(t, slices.ContainsFunc(kinds.All(), func(d *kinds.Descriptor) bool { return d.Kind == kind }))
	}
}

// wanted are the values that a message points to.
var wanted = regexp.MustCompile(`(?:want|and) ((?:pilot|global|meshConfig|networkPolicy)(?:\.\w+)+)`)

// TestMessagesOfTheInstallTableAreTrue: each is compared with what is installed, and the values
// that they point to are in force. What the chart takes has no message.
func TestMessagesOfTheInstallTableAreTrue(t *testing.T) {
	schema, err := render.SchemaOf(render.Lateen)
	require.NoError(t, err)
	plainly, known := installed(t), facts()
	for path, message := range elsewhere() {
		require.False(t, schema.Names(strings.Split(path, ".")...), "%s is a value of the chart", path)
		check, ok := known[message]
		require.True(t, ok, "%s: want a fact for %q", path, message)
		check(t, plainly)
		for _, found := range wanted.FindAllStringSubmatch(message, -1) {
			if strings.HasPrefix(found[1], "meshConfig.") {
				value := "=1"
				if strings.HasSuffix(found[1], "Timeout") {
					value += "s"
				}
				require.Empty(t, installed(t, found[1]+value).notes, found[1])
				continue
			}
			require.True(t, schema.Names(strings.Split(found[1], ".")...), "%s: there is no value %s", path, found[1])
		}
	}
	require.NotContains(t, fmt.Sprint(elsewhere()), "Gateway API is not served")
}

// TestWhatActsInInjectionIsNotToldAsWithoutEffect: the mesh configuration is read by the control
// plane, which reports what it does not use, and by the injection.
func TestWhatActsInInjectionIsNotToldAsWithoutEffect(t *testing.T) {
	plainly := installed(t)
	plainly.pods = withoutStart(t, plainly.pods)
	fields := (&mesh.MeshConfig{}).ProtoReflect().Descriptor().Fields()
	acting := 0
	for n := range fields.Len() {
		f := fields.Get(n)
		for _, value := range sampleValues(f) {
			set := "meshConfig." + f.JSONName() + "=" + value
			i, err := installation{}.with(set)
			if err != nil {
				continue // it is refused
			}
			if withoutStart(t, i.pods) == plainly.pods {
				continue
			}
			acting++
			for _, note := range i.notes {
				require.NotContains(t, note.Outcome, "has no effect", "%s acts in injection", set)
			}
		}
	}
	require.Positive(t, acting, "nothing acts")
}

// sampleValues are values of a field that has one value.
func sampleValues(f protoreflect.FieldDescriptor) []string {
	switch {
	case f.IsList() || f.IsMap():
		return nil
	case f.Message() != nil && f.Message().FullName() == "google.protobuf.BoolValue", f.Kind() == protoreflect.BoolKind:
		return []string{"true", "false"}
	case f.Kind() == protoreflect.Int32Kind, f.Kind() == protoreflect.Int64Kind:
		return []string{"15999"}
	case f.Kind() == protoreflect.StringKind:
		return []string{"example.com"}
	}
	return nil
}

// withoutStart leaves out what proxies read when they start: the variable has all of it, whether
// the agent reads it or not.
func withoutStart(t *testing.T, pods [2]string) (out [2]string) {
	t.Helper()
	for n := range pods {
		var pod map[string]any
		require.NoError(t, json.Unmarshal([]byte(pods[n]), &pod))
		text, err := yaml.Marshal(pod)
		require.NoError(t, err)
		out[n] = regexp.MustCompile(`(?m)name: PROXY_CONFIG\n\s+value: .*$`).ReplaceAllString(string(text), "")
	}
	return out
}

// actingSamples have a value of each value of the chart below global that injection or the control
// plane reads, beside what stands for its type.
var actingSamples = map[string]string{
	"global.pilotCertProvider": "", "global.caName": "", "global.caAddress": "", // refused alone: authority.go
	"global.istioNamespace":                     "", // has to be that of the release
	"global.defaultPodDisruptionBudget.enabled": "false", "global.logging.level": "default:debug",
	"global.proxy.autoInject": "disabled", "global.proxy.startupProbe.enabled": "false",
	"global.imagePullPolicy": "Always", "global.variant": "debug", "global.proxy.capNetBindService": "true",
	"global.certSigners": "", // with EXTERNAL_CA alone: render.TestGolden/signers
}

// TestEachGlobalValueActsOrSaysThatItDoesNot: a value that the chart takes changes an object or an
// injected Pod, or its description says that it has no effect.
func TestEachGlobalValueActsOrSaysThatItDoesNot(t *testing.T) {
	text, err := render.Text(render.Lateen, "values.schema.json")
	require.NoError(t, err)
	var schema struct {
		Properties map[string]node `json:"properties"`
	}
	require.NoError(t, json.Unmarshal(text, &schema))
	plainly := installed(t, "global.hub=r.test", "global.tag=v1")
	visit(schema.Properties["global"], "global", func(path string, n node) {
		value, listed := actingSamples[path]
		switch {
		case listed && value == "", strings.Contains(n.Description, "without effect"), isOfTemplates(path):
			return
		case listed:
		case n.is("boolean"):
			value = "true"
		case n.is("integer"):
			value = "77"
		case n.is("array"):
			value = "{a}"
		case n.is("object"):
			path, value = path+".type", "Localhost"
		default:
			value = "x7"
		}
		i, err := installation{}.with("global.hub=r.test", "global.tag=v1", path+"="+value)
		if err != nil {
			return // it is refused, with a reason
		}
		same := i.pods == plainly.pods
		for name, o := range i.objects {
			if name != "ConfigMap istio-sidecar-injector" {
				same = same && fmt.Sprint(o) == fmt.Sprint(plainly.objects[name])
			}
		}
		if config := "ConfigMap istio-sidecar-injector"; strings.Contains(path, "autoInject") {
			same = fmt.Sprint(i.objects[config]) == fmt.Sprint(plainly.objects[config])
		}
		if len(i.objects) != len(plainly.objects) {
			same = false
		}
		require.False(t, same, "%s=%s changes nothing", path, value)
	})
}

// isOfTemplates reports whether the table says that templates of users alone read a value.
func isOfTemplates(path string) bool {
	return slices.ContainsFunc(ofTemplates(), func(of string) bool { return strings.HasPrefix(path+".", of+".") })
}

// node is a part of a schema.
type node struct {
	Type        any             `json:"type"`
	Description string          `json:"description"`
	Properties  map[string]node `json:"properties"`
}

func (n node) is(kind string) bool { return strings.Contains(fmt.Sprint(n.Type), kind) }

func visit(n node, path string, leaf func(path string, n node)) {
	if len(n.Properties) == 0 {
		leaf(path, n)
		return
	}
	for name, below := range n.Properties {
		visit(below, path+"."+name, leaf)
	}
}
