package local

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// inherited are the caller's variables that containers get: what any local program needs.
var inherited = []string{"PATH", "HOME", "USER", "SHELL", "TMPDIR", "LANG", "LC_ALL", "TZ", "GOCOVERDIR"}

// envInputs is what the environment of a pod's containers depends on.
type envInputs struct {
	pod     *corev1.Pod // with names, labels and annotations as published
	addrs   addresses
	sidecar bool
	environ []string // the caller's
	// services and configMaps are those of the pod's namespace, by name.
	services   map[string]*corev1.Service
	configMaps map[string]*corev1.ConfigMap
}

// environment is an ordered map of variables.
type environment struct {
	names  []string
	values map[string]string
}

func (e *environment) set(name, value string) {
	if _, ok := e.values[name]; !ok {
		e.names = append(e.names, name)
	}
	e.values[name] = value
}

func (e *environment) lookup(name string) (string, bool) {
	v, ok := e.values[name]
	return v, ok
}

func (e *environment) list() []string {
	out := make([]string, len(e.names))
	for i, n := range e.names {
		out[i] = n + "=" + e.values[n]
	}
	return out
}

// inherit returns the variables that every process gets of the caller's environment.
func inherit(environ []string) *environment {
	env := &environment{values: map[string]string{}}
	for _, kv := range environ {
		if name, value, ok := strings.Cut(kv, "="); ok && slices.Contains(inherited, name) {
			env.set(name, value)
		}
	}
	return env
}

// containerEnv returns the environment of one container, in Kubernetes' order: what the runtime
// sets, services, envFrom, env. Later variables win and may refer to earlier ones. The problems
// name what is missing.
func containerEnv(in envInputs, c *corev1.Container) (*environment, []specProblem) {
	env := inherit(in.environ)
	in.setPodVars(env)
	in.setServiceVars(env)
	var problems []specProblem
	for i, from := range c.EnvFrom {
		problems = append(problems, in.setFrom(env, &from, fmt.Sprintf("envFrom[%d]", i))...)
	}
	for i := range c.Env {
		if f := in.setVar(env, &c.Env[i]); f != nil {
			f.path = fmt.Sprintf("env[%d].%s", i, f.path)
			problems = append(problems, *f)
		}
	}
	return env, problems
}

// setPodVars sets what a container must know of its addresses. An app that ignores
// LATEEN_APP_ADDRESS and listens on all addresses collides with its own Envoy.
func (in envInputs) setPodVars(env *environment) {
	env.set("HOSTNAME", in.pod.Name)
	env.set("POD_IP", in.addrs.Pod.String())
	env.set("LATEEN_APP_ADDRESS", in.addrs.App.String())
	if !in.sidecar {
		return
	}
	env.set("LATEEN_OUTBOUND_ADDRESS", in.addrs.Outbound.String())
	proxy := "http://" + in.addrs.Outbound.String() + ":" + strconv.Itoa(HTTPProxyPort)
	env.set("HTTP_PROXY", proxy)
	env.set("http_proxy", proxy)
	env.set("NO_PROXY", "")
	env.set("no_proxy", "")
}

// setServiceVars sets <SERVICE>_SERVICE_HOST and _PORT for ports that are not HTTP. The app calls
// them through listeners of its Envoy on the outbound address. It calls HTTP services by name
// through the proxy.
func (in envInputs) setServiceVars(env *environment) {
	if !in.sidecar {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(in.services)) {
		s := in.services[name]
		if s.Spec.ClusterIP == corev1.ClusterIPNone || s.Spec.Type == corev1.ServiceTypeExternalName {
			continue
		}
		prefix := strings.ToUpper(strings.ReplaceAll(name, "-", "_")) + "_SERVICE_"
		first := true
		for _, p := range s.Spec.Ports {
			if isHTTP(&p) || (p.Protocol != "" && p.Protocol != corev1.ProtocolTCP) {
				continue
			}
			port := strconv.Itoa(int(p.Port))
			if first {
				env.set(prefix+"HOST", in.addrs.Outbound.String())
				env.set(prefix+"PORT", port)
				first = false
			}
			if p.Name != "" {
				env.set(prefix+"PORT_"+strings.ToUpper(strings.ReplaceAll(p.Name, "-", "_")), port)
			}
		}
	}
}

// isHTTP follows Istio's protocol selection: appProtocol, or the port's name up to the first dash.
func isHTTP(p *corev1.ServicePort) bool {
	protocol, _, _ := strings.Cut(p.Name, "-")
	if strings.HasPrefix(p.Name, "grpc-web") {
		return true
	}
	if p.AppProtocol != nil {
		protocol = *p.AppProtocol
	}
	switch strings.ToLower(protocol) {
	case "http", "http2", "grpc", "grpc-web", "kubernetes.io/h2c", "kubernetes.io/ws":
		return true
	}
	return false
}

func (in envInputs) setFrom(env *environment, from *corev1.EnvFromSource, path string) []specProblem {
	switch {
	case from.SecretRef != nil:
		return []specProblem{{path: path + ".secretRef", value: from.SecretRef.Name, message: "Secrets are not read",
			want: "configMapRef"}}
	case from.ConfigMapRef != nil:
		ref := from.ConfigMapRef
		m, ok := in.configMaps[ref.Name]
		if !ok {
			if ref.Optional != nil && *ref.Optional {
				return nil
			}
			return []specProblem{{
				path:    path + ".configMapRef.name",
				value:   ref.Name,
				message: "there is no such ConfigMap",
				want:    oneOf(in.configMaps),
			}}
		}
		for _, k := range slices.Sorted(maps.Keys(m.Data)) {
			env.set(from.Prefix+k, m.Data[k])
		}
	}
	return nil
}

func (in envInputs) setVar(env *environment, v *corev1.EnvVar) *specProblem {
	if v.ValueFrom == nil {
		env.set(v.Name, expand(v.Value, env.lookup))
		return nil
	}
	value, ok, f := in.valueFrom(v.ValueFrom)
	if f != nil {
		f.path = "valueFrom." + f.path
		return f
	}
	if ok {
		env.set(v.Name, value)
	}
	return nil
}

// valueFrom reads the source of a variable. ok is false if an optional source is absent.
func (in envInputs) valueFrom(from *corev1.EnvVarSource) (value string, ok bool, f *specProblem) {
	switch {
	case from.FieldRef != nil:
		value, ok = in.field(from.FieldRef.FieldPath)
		if !ok {
			return "", false, &specProblem{
				path:    "fieldRef.fieldPath",
				value:   from.FieldRef.FieldPath,
				message: "not a field that can be referred to",
				want: "metadata.name, metadata.namespace, metadata.uid, metadata.labels['KEY'], " +
					"metadata.annotations['KEY'], spec.nodeName, spec.serviceAccountName, status.podIP " +
					"or status.hostIP",
			}
		}
		return value, true, nil
	case from.ConfigMapKeyRef != nil:
		return in.configMapKey(from.ConfigMapKeyRef)
	}
	return "", false, &specProblem{path: "", message: "only fieldRef and configMapKeyRef are read", want: "one of them"}
}

func (in envInputs) configMapKey(ref *corev1.ConfigMapKeySelector) (string, bool, *specProblem) {
	optional := ref.Optional != nil && *ref.Optional
	m, ok := in.configMaps[ref.Name]
	if !ok {
		if optional {
			return "", false, nil
		}
		return "", false, &specProblem{
			path:    "configMapKeyRef.name",
			value:   ref.Name,
			message: "there is no such ConfigMap",
			want:    oneOf(in.configMaps),
		}
	}
	value, ok := m.Data[ref.Key]
	if !ok && !optional {
		return "", false, &specProblem{path: "configMapKeyRef.key", value: ref.Key,
			message: "ConfigMap " + ref.Name + " has no such key", want: oneOf(m.Data)}
	}
	return value, ok, nil
}

func (in envInputs) field(path string) (string, bool) {
	if key, ok := subscript(path, "metadata.labels"); ok {
		return in.pod.Labels[key], true
	}
	if key, ok := subscript(path, "metadata.annotations"); ok {
		return in.pod.Annotations[key], true
	}
	switch path {
	case "metadata.name":
		return in.pod.Name, true
	case "metadata.namespace":
		return in.pod.Namespace, true
	case "metadata.uid":
		return string(in.pod.UID), true
	case "spec.nodeName":
		return in.pod.Spec.NodeName, true
	case "spec.serviceAccountName":
		return in.pod.Spec.ServiceAccountName, true
	case "status.podIP", "status.podIPs":
		return in.addrs.Pod.String(), true
	case "status.hostIP", "status.hostIPs":
		return hostIP, true
	}
	return "", false
}

// subscript returns the KEY of PREFIX['KEY'].
func subscript(path, prefix string) (key string, ok bool) {
	key, ok = strings.CutPrefix(path, prefix+"['")
	if !ok {
		return "", false
	}
	return strings.CutSuffix(key, "']")
}

func oneOf[V any](m map[string]V) string {
	if len(m) == 0 {
		return "one that is defined; there are none"
	}
	return "one of " + strings.Join(slices.Sorted(maps.Keys(m)), ", ")
}
