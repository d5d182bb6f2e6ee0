package inject

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	reference "istio.io/api/annotation"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/lateen-mesh/lateen/internal/cluster/unions"
)

// injected is a Pod as the injection of one configuration leaves it, with what it warns of.
type injected struct {
	corev1.Pod
	warning string
}

// injectYAML injects a Pod. What comes out has one member of each union, and is left as it is by a
// second injection.
func injectYAML(t *testing.T, o Options, texts Texts, pod string) injected {
	t.Helper()
	o.Namespace = "istio-system"
	injector, err := New(o, texts)
	require.NoError(t, err)
	raw, err := yaml.YAMLToJSON([]byte(pod))
	require.NoError(t, err)
	result, err := injector.Inject(Pod{JSON: raw, Namespace: "shop"})
	require.NoError(t, err)
	require.True(t, result.Inject, result.Reason)
	requireOneMember(t, result.JSON)
	again, err := injector.Inject(Pod{JSON: result.JSON, Namespace: "shop"})
	require.NoError(t, err)
	require.Equal(t, "[]", string(again.Patch), "injected again")
	out := injected{warning: result.Warning}
	require.NoError(t, json.Unmarshal(result.JSON, &out.Pod))
	return out
}

// requireOneMember fails if an object has two members of a union, as the API server does, or if a
// container is there twice.
func requireOneMember(t *testing.T, pod []byte) {
	t.Helper()
	var o object
	require.NoError(t, json.Unmarshal(pod, &o))
	for _, v := range containers(o, "volumes") {
		require.LessOrEqual(t, len(v), 2, "volume %v", v)
	}
	seen := map[any]bool{}
	one := func(of object, members []string) {
		count := 0
		for _, member := range members {
			if of[member] != nil {
				count++
			}
		}
		require.LessOrEqual(t, count, 1, "%v", of)
	}
	for _, c := range append(containers(o, plain), containers(o, first)...) {
		require.False(t, seen[c["name"]], "container %v is there twice", c["name"])
		seen[c["name"]] = true
		for _, field := range []string{"livenessProbe", "readinessProbe", "startupProbe"} {
			one(objectIn(c, field), unions.Handlers())
		}
		for _, hook := range []string{"postStart", "preStop"} {
			one(objectIn(objectIn(c, "lifecycle"), hook), unions.Handlers())
		}
		for _, e := range objectsIn(c, "env") {
			one(e, []string{"value", "valueFrom"})
			one(objectIn(e, "valueFrom"), unions.ValueSources())
		}
		for _, m := range objectsIn(c, "volumeMounts") {
			one(m, []string{"subPath", "subPathExpr"})
		}
	}
}

func volumeOf(t *testing.T, pod corev1.Pod, name string) corev1.VolumeSource {
	t.Helper()
	at := slices.IndexFunc(pod.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == name })
	require.GreaterOrEqual(t, at, 0, "no volume %s", name)
	return pod.Spec.Volumes[at].VolumeSource
}

func mountsOf(c *corev1.Container, volume string) []corev1.VolumeMount {
	return slices.DeleteFunc(slices.Clone(c.VolumeMounts), func(m corev1.VolumeMount) bool { return m.Name != volume })
}

// quoted is a text as YAML takes it in one line.
func quoted(text string) string {
	raw, _ := json.Marshal(text)
	return string(raw)
}

// TestUserVolumesHaveBothForms: Istio's reference says "as a JSON array", and its template takes an
// object by names too.
func TestUserVolumesHaveBothForms(t *testing.T) {
	for name, annotations := range map[string][2]string{
		"lists": {
			`[{"name": "certs", "secret": {"secretName": "mine"}}]`,
			`[{"name": "certs", "mountPath": "/certs", "readOnly": true}]`,
		},
		"by name": {
			`{"certs": {"secret": {"secretName": "mine"}}}`,
			`{"certs": {"mountPath": "/certs", "readOnly": true}}`,
		},
		"names within": {
			`{"0": {"name": "certs", "secret": {"secretName": "mine"}}}`,
			`{"0": {"name": "certs", "mountPath": "/certs", "readOnly": true}}`,
		},
		"letters of another case": {
			`[{"name": "certs", "secret": {"secretname": "mine"}}]`,
			`[{"name": "certs", "mountpath": "/certs", "readonly": true}]`,
		},
	} {
		for _, native := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, native %v", name, native), func(t *testing.T) {
				got := injectYAML(t, Options{NativeSidecars: native}, Texts{}, `
metadata:
  annotations:
    sidecar.istio.io/userVolume: `+quoted(annotations[0])+`
    sidecar.istio.io/userVolumeMount: `+quoted(annotations[1])+`
spec: {containers: [{name: web, image: web}]}`)
				require.Equal(t, "mine", volumeOf(t, got.Pod, "certs").Secret.SecretName)
				require.Equal(t, []corev1.VolumeMount{{Name: "certs", MountPath: "/certs", ReadOnly: true}},
					mountsOf(proxyIn(&got.Pod), "certs"))
				require.Empty(t, got.warning)
			})
		}
	}
}

// TestUserVolumesThatAreNoneAreRefused: with what would be right.
func TestUserVolumesThatAreNoneAreRefused(t *testing.T) {
	injector, err := New(Options{Namespace: "istio-system"}, Texts{})
	require.NoError(t, err)
	for value, want := range map[string]string{
		`"certs"`:                             "want volumes in JSON",
		`null`:                                "want volumes in JSON",
		`{"name": "certs"}`:                   "want volumes in JSON",
		`[{"emptyDir": {}}]`:                  "element 0 has no name",
		`[{"name": "a", "emptyDir": "disk"}]`: "want volumes in JSON",
	} {
		pod := `{"metadata": {"annotations": {"sidecar.istio.io/userVolume": ` + quoted(value) + `}},
			"spec": {"containers": [{"name": "web"}]}}`
		_, err := injector.Inject(Pod{JSON: []byte(pod), Namespace: "shop"})
		require.ErrorContains(t, err, want, value)
	}
}

// TestUserVolumeWithAnUnknownFieldWarns: the API server would leave it out without a word.
func TestUserVolumeWithAnUnknownFieldWarns(t *testing.T) {
	got := injectYAML(t, Options{}, Texts{}, `
metadata: {annotations: {sidecar.istio.io/userVolumeMount: '[{"name": "a", "mountPath": "/a", "readWrite": true}]'}}
spec: {containers: [{name: web, image: web}]}`)
	require.Contains(t, got.warning, "readWrite")
}

// TestVolumesReplaceTheDefaults: whoever names a volume of the default template with another source
// replaces its source: a template beside it, an annotation, the Pod.
func TestVolumesReplaceTheDefaults(t *testing.T) {
	const csi = `{name: %s, csi: {driver: csi.spiffe.io, readOnly: true}}`
	for _, volume := range []string{
		"workload-socket", "credential-socket", "workload-certs", "istio-envoy", "istio-data", "istio-podinfo",
		"istio-token", "istiod-ca-cert", "istio-ca-crl",
	} {
		source := fmt.Sprintf(csi, volume)
		for name, c := range map[string]struct{ config, annotations, volumes string }{
			"a template": {
				config: "templates:\n  identity: |\n    spec: {volumes: [" + source + "]}\n" +
					"defaultTemplates: [sidecar, identity]",
			},
			"a template before it": {
				config: "templates:\n  identity: |\n    spec: {volumes: [" + source + "]}\n  later: |\n" +
					"    spec: {volumes: [" + source + "]}\ndefaultTemplates: [identity, sidecar, later]",
			},
			"an annotation": {
				annotations: `{sidecar.istio.io/userVolume: ` + quoted(`[{"name": "`+volume+
					`", "csi": {"driver": "csi.spiffe.io", "readOnly": true}}]`) + `}`,
			},
			"the Pod": {volumes: source},
		} {
			t.Run(name+"/"+volume, func(t *testing.T) {
				if c.annotations == "" {
					c.annotations = "{}"
				}
				got := injectYAML(t, Options{}, Texts{Config: c.config}, "metadata: {annotations: "+c.annotations+
					"}\nspec: {containers: [{name: web, image: web}], volumes: ["+c.volumes+"]}")
				require.Equal(t, "csi.spiffe.io", volumeOf(t, got.Pod, volume).CSI.Driver)
			})
		}
	}
}

// TestSettingsReplaceMembers: what the Pod or a template says of the proxy replaces the other
// member of each union.
func TestSettingsReplaceMembers(t *testing.T) {
	const settings = `{name: istio-proxy, image: auto,
  readinessProbe: {exec: {command: ["true"]}}, startupProbe: {tcpSocket: {port: 15021}},
  lifecycle: {postStart: {httpGet: {port: 1}}, preStop: {sleep: {seconds: 3}}},
  env: [{name: POD_NAME, value: mine}, {name: CA_ADDR, valueFrom: {configMapKeyRef: {name: a, key: b}}},
    {name: HOST_IP, valueFrom: {secretKeyRef: {name: a, key: b}}}],
  securityContext: {seccompProfile: {type: RuntimeDefault}}}`
	values := "global: {proxy: {holdApplicationUntilProxyStarts: true, " +
		"seccompProfile: {type: Localhost, localhostProfile: a.json}}}"
	for name, c := range map[string]struct{ config, pod string }{
		"the Pod": {pod: "spec: {containers: [{name: web, image: web}, " + settings + "]}"},
		"a template": {
			config: "templates:\n  more: |\n    " + strings.ReplaceAll("spec: {containers: ["+
				strings.Replace(settings, "image: auto,", "", 1)+"]}", "\n", "\n    ") +
				"\ndefaultTemplates: [sidecar, more]",
			pod: "spec: {containers: [{name: web, image: web}]}",
		},
	} {
		for _, native := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, native %v", name, native), func(t *testing.T) {
				got := injectYAML(t, Options{NativeSidecars: native}, Texts{Config: c.config, Values: values}, c.pod)
				proxy := proxyIn(&got.Pod)
				require.NotNil(t, proxy.ReadinessProbe.Exec)
				require.NotNil(t, proxy.StartupProbe.TCPSocket)
				require.NotNil(t, proxy.Lifecycle.PostStart.HTTPGet)
				require.NotNil(t, proxy.Lifecycle.PreStop.Sleep)
				require.Empty(t, proxy.SecurityContext.SeccompProfile.LocalhostProfile)
				for _, e := range proxy.Env {
					switch e.Name {
					case "POD_NAME":
						require.Equal(t, "mine", e.Value)
					case "CA_ADDR":
						require.NotNil(t, e.ValueFrom.ConfigMapKeyRef)
					case "HOST_IP":
						require.NotNil(t, e.ValueFrom.SecretKeyRef)
					}
				}
			})
		}
	}
}

// TestTheProxyIsNamedInEitherList: the examples of Istio's page on customizing injection name the
// proxy among the containers, and among the init containers where it is a native sidecar. Both
// work in both modes, in a Pod and in a template, whatever comes first.
func TestTheProxyIsNamedInEitherList(t *testing.T) {
	const proxy = "{name: istio-proxy, %senv: [{name: GREETING, value: hello-world}]}"
	for _, native := range []bool{false, true} {
		for _, list := range []string{plain, first} {
			image := "image: auto, "
			if list == first {
				image += "restartPolicy: Always, "
			}
			web := "{name: web, image: web}"
			pods := map[string]struct{ config, pod string }{
				"Pod": {pod: "spec:\n  containers: [" + web + "]\n  initContainers: [" +
					fmt.Sprintf(proxy, image) + "]"},
			}
			if list == plain {
				pods["Pod"] = struct{ config, pod string }{pod: "spec: {containers: [" + web + ", " +
					fmt.Sprintf(proxy, image) + "]}"}
			}
			template := "templates:\n  custom: |\n    spec: {" + list + ": [" + fmt.Sprintf(proxy, "") + "]}\n"
			bare := "spec: {containers: [" + web + "]}"
			for _, order := range []string{"sidecar,custom", "custom,sidecar", "custom , sidecar"} {
				pods["annotation "+order] = struct{ config, pod string }{
					template, "metadata: {annotations: {inject.istio.io/templates: " + quoted(order) + "}}\n" + bare,
				}
				pods["defaultTemplates "+order] = struct{ config, pod string }{
					template + "defaultTemplates: [" + order + "]", bare,
				}
				pods["alias "+order] = struct{ config, pod string }{
					template + "aliases: {mine: [" + order + "]}",
					"metadata: {annotations: {inject.istio.io/templates: mine}}\n" + bare,
				}
			}
			for name, c := range pods {
				t.Run(fmt.Sprintf("native %v/%s/%s", native, list, name), func(t *testing.T) {
					got := injectYAML(t, Options{NativeSidecars: native}, Texts{Config: c.config}, c.pod)
					of := got.Spec.Containers
					if native {
						of = got.Spec.InitContainers
					}
					at := slices.IndexFunc(of, func(c corev1.Container) bool { return c.Name == proxyName })
					require.GreaterOrEqual(t, at, 0, "the proxy is in the other list")
					require.Contains(t, of[at].Env, corev1.EnvVar{Name: "GREETING", Value: "hello-world"})
					require.NotEqual(t, "auto", of[at].Image)
					require.NotEmpty(t, of[at].Image)
					require.Equal(t, native, of[at].RestartPolicy != nil)
				})
			}
		}
	}
}

// TestNoDefaultTemplatesAreTheDefault: values.yaml of Istio's chart has an empty list.
func TestNoDefaultTemplatesAreTheDefault(t *testing.T) {
	got := injectYAML(t, Options{}, Texts{Config: "defaultTemplates: []\ntemplates: {}"},
		"spec: {containers: [{name: web, image: web}]}")
	require.NotNil(t, proxyIn(&got.Pod))
}

// TestInterceptionTakesSettings: a Pod may set up istio-init too.
func TestInterceptionTakesSettings(t *testing.T) {
	got := injectYAML(t, Options{}, Texts{}, `
spec:
  initContainers: [{name: istio-init, image: auto, resources: {requests: {cpu: 7m}}}]
  containers: [{name: web, image: web}]`)
	require.Len(t, got.Spec.InitContainers, 1)
	require.Equal(t, "7m", got.Spec.InitContainers[0].Resources.Requests.Cpu().String())
	require.NotEqual(t, "auto", got.Spec.InitContainers[0].Image)
}

// samples has a value of each annotation that Istio's reference has for Pods.
var samples = map[string]string{
	"ambient.istio.io/bypass-inbound-capture":               "true",
	"ambient.istio.io/dns-capture":                          "true",
	"ambient.istio.io/redirection":                          "enabled",
	"inject.istio.io/templates":                             "gateway",
	"istio.io/reroute-virtual-interfaces":                   "net1",
	"prometheus.istio.io/merge-metrics":                     "false",
	"proxy.istio.io/config":                                 "concurrency: 3",
	"readiness.status.sidecar.istio.io/applicationPorts":    "80",
	"readiness.status.sidecar.istio.io/failureThreshold":    "9",
	"readiness.status.sidecar.istio.io/initialDelaySeconds": "9",
	"readiness.status.sidecar.istio.io/periodSeconds":       "9",
	"sidecar.istio.io/agentLogLevel":                        "default:debug",
	"sidecar.istio.io/bootstrapOverride":                    "mine",
	"sidecar.istio.io/componentLogLevel":                    "http:trace",
	"sidecar.istio.io/discoveryAddress":                     "istiod:15012",
	"sidecar.istio.io/interceptionMode":                     "NONE",
	"sidecar.istio.io/logLevel":                             "trace",
	"sidecar.istio.io/nativeSidecar":                        "true",
	"sidecar.istio.io/proxyCPU":                             "7m",
	"sidecar.istio.io/proxyCPULimit":                        "7",
	"sidecar.istio.io/proxyImage":                           "example.com/proxy:1",
	"sidecar.istio.io/proxyImageType":                       "debug",
	"sidecar.istio.io/proxyMemory":                          "7Mi",
	"sidecar.istio.io/proxyMemoryLimit":                     "7Gi",
	"sidecar.istio.io/rewriteAppHTTPProbers":                "false",
	"sidecar.istio.io/statsCompression":                     "false",
	"sidecar.istio.io/statsEvictionInterval":                "1m",
	"sidecar.istio.io/statsFlushInterval":                   "1m",
	"sidecar.istio.io/statsHistogramBins":                   "{}",
	"sidecar.istio.io/statsHistogramBuckets":                "{}",
	"sidecar.istio.io/userVolume":                           `[{"name": "a", "emptyDir": {}}]`,
	"sidecar.istio.io/userVolumeMount":                      `[{"name": "a", "mountPath": "/a"}]`,
	"status.sidecar.istio.io/port":                          "0",
	"traffic.sidecar.istio.io/excludeInboundPorts":          "81",
	"traffic.sidecar.istio.io/excludeInterfaces":            "net1",
	"traffic.sidecar.istio.io/excludeOutboundIPRanges":      "10.0.0.0/8",
	"traffic.sidecar.istio.io/excludeOutboundPorts":         "81",
	"traffic.sidecar.istio.io/includeInboundPorts":          "81",
	"traffic.sidecar.istio.io/includeOutboundIPRanges":      "10.0.0.0/8",
	"traffic.sidecar.istio.io/includeOutboundPorts":         "81",
	"traffic.sidecar.istio.io/kubevirtInterfaces":           "net1",
}

// elsewhereRead are annotations that others read: the webhook's selectors, the decision whether to
// inject, the agent in the Pod; and what the injection writes itself.
var elsewhereRead = []string{
	"istio.io/rev", "sidecar.istio.io/inject", "sidecar.istio.io/status", "proxy.istio.io/overrides",
	"sidecar.istio.io/extraStatTags", "sidecar.istio.io/statsInclusionPrefixes",
	"sidecar.istio.io/statsInclusionRegexps", "sidecar.istio.io/statsInclusionSuffixes",
}

// TestEachAnnotationOfIstiosReferenceActsOrIsTold: it changes the Pod, or the answer says that it
// does not.
func TestEachAnnotationOfIstiosReferenceActsOrIsTold(t *testing.T) {
	inject := func(name, value string) (spec corev1.PodSpec, warning string) {
		got := injectYAML(t, Options{}, Texts{Values: "global: {hub: r.test, tag: v1}"}, `
metadata: {annotations: {example.com/any: "1", `+name+`: `+quoted(value)+`}}
spec: {containers: [{name: web, image: web, readinessProbe: {tcpSocket: {port: 80}}}]}`)
		spec = got.Spec
		spec.Containers = append(spec.Containers, corev1.Container{ // what Prometheus is told counts too
			Name: got.Annotations["prometheus.io/port"],
		})
		return spec, got.warning
	}
	plainly, warning := inject("example.com/other", "1")
	require.Empty(t, warning)
	for _, a := range reference.AllResourceAnnotations() {
		if !slices.Contains(a.Resources, reference.Pod) || slices.Contains(elsewhereRead, a.Name) {
			continue
		}
		t.Run(a.Name, func(t *testing.T) {
			value, ok := samples[a.Name]
			require.True(t, ok, "want a value of it in samples, or its name in elsewhereRead")
			spec, warning := inject(a.Name, value)
			if _, told := withoutEffect()[a.Name]; told {
				require.Contains(t, warning, a.Name)
				require.Equal(t, plainly, spec)
				return
			}
			require.Empty(t, warning)
			require.NotEqual(t, plainly, spec)
		})
	}
}

func objectIn(o object, field string) object {
	of, _ := o[field].(object)
	return of
}

func objectsIn(o object, field string) []object {
	return containers(object{"spec": o}, field)
}
