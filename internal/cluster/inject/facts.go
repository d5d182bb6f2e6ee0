package inject

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// proxyFacts are what the templates of this package need, computed.
type proxyFacts struct {
	// Intercepts reports whether connections are redirected to the proxy, and Arguments say how.
	Intercepts bool
	Arguments  []string
	// Mode is the interception mode.
	Mode string
	// ForPlugin are annotations that tell a CNI plugin what Arguments tell the init container; none
	// without a plugin.
	ForPlugin map[string]string
	// LowPorts has the proxy run as root, to listen below 1024.
	LowPorts bool
	// Capabilities are those of the kernel that the proxy has. With any of them it runs as root.
	Capabilities []string
	// Resources are those of the proxy's containers.
	Resources map[string]any
	// Containers are the names of the Pod's own containers, and Ports theirs in JSON.
	Containers []string
	Ports      string
	// Config is the proxy's configuration in JSON.
	Config string
	// Workload names the workload, and Owner is its URL.
	Workload, Owner string
	// CanonicalName and CanonicalRevision are those of the service.
	CanonicalName, CanonicalRevision string
	// CA is the address of the certificate authority, TrustDomain and MeshID the mesh's.
	CA, TrustDomain, MeshID string
	// Hold starts the application after the proxy.
	Hold bool
	// StatusPort is the agent's port, "0" for none.
	StatusPort string
	// Levels are the arguments that set what is logged.
	Levels []string
	// Metadata are the variables of the proxy's configuration.
	Metadata map[string]string
	// Variables are the environment of an agent, without Metadata.
	Variables []object
	// VolumeList and MountList are those of an agent, OwnVolumes and OwnMounts those that the Pod
	// asks for in its annotations.
	VolumeList, MountList []object
	OwnVolumes, OwnMounts []object
	// Sysctls are those of a gateway's Pod: its own, and the one that lets it listen below 1024.
	Sysctls []corev1.Sysctl
	// Localhost is set if applications listen on loopback.
	Localhost bool
}

func (i *Injector) facts(r *request) (proxyFacts, error) {
	f := proxyFacts{
		Mode:       r.mode(),
		Resources:  i.resources(r),
		Workload:   cmp.Or(r.pod.Labels["service.istio.io/workload-name"], r.owner.Name),
		CA:         cmp.Or(i.values.text("global.caAddress"), r.proxy.DiscoveryAddress),
		StatusPort: i.statusPort(r),
		Metadata:   r.proxy.ProxyMetadata,
		LowPorts:   r.annotation(bindServiceName, i.values.text("global.proxy.capNetBindService")) == "true",
		Localhost:  i.mesh.GetInboundTrafficPolicy().GetMode().String() == "LOCALHOST",
	}
	if wrong := mode(f.Mode); wrong != "" { // an annotation has been checked before
		return f, fmt.Errorf("the mesh configuration has defaultConfig.interceptionMode = %s; want %s", f.Mode, wrong)
	}
	f.Capabilities = capabilities(r, &f)
	if err := i.intercept(r, &f); err != nil {
		return f, err
	}
	f.TrustDomain = cmp.Or(i.mesh.TrustDomain, i.values.text("global.trustDomain"))
	f.MeshID = cmp.Or(i.values.text("global.meshID"), f.TrustDomain)
	f.Hold = !r.native && i.holds(r)
	f.Levels = []string{
		"--proxyLogLevel=" + r.annotation(logLevelName, i.values.text("global.proxy.logLevel")),
		"--proxyComponentLogLevel=" + r.annotation(componentLevelName, i.values.text("global.proxy.componentLogLevel")),
		"--log_output_level=" + r.annotation(agentLevelName, i.values.text("global.logging.level")),
	}
	f.canonical(r)
	f.Sysctls = gatewaySysctls(&r.pod.Spec)
	if r.owner.Name != "" {
		f.Owner = fmt.Sprintf("kubernetes://apis/%s/namespaces/%s/%ss/%s",
			r.owner.APIVersion, r.namespace, strings.ToLower(r.owner.Kind), r.owner.Name)
	}
	var err error
	if f.Ports, err = f.own(r.pod.Spec.Containers); err != nil {
		return f, err
	}
	if f.Config, err = proxyJSON(r.proxy); err != nil {
		return f, err
	}
	f.Variables = i.variables(r, &f)
	f.VolumeList, f.MountList = listed(i.volumes(r))
	if f.OwnVolumes, err = userList[corev1.Volume](r, userVolumeName); err != nil {
		return f, err
	}
	f.OwnMounts, err = userList[corev1.VolumeMount](r, userMountName)
	return f, err
}

// mode is how connections come to the proxy: as the Pod says, else the mesh.
func (r *request) mode() string {
	return r.annotation(interceptionModeName, r.proxy.InterceptionMode.String())
}

const netAdmin = "NET_ADMIN"

// warnOfTransparent tells what a proxy costs that is transparent.
func (r *request) warnOfTransparent(proxy object) {
	security, _ := proxy["securityContext"].(object)
	capabilities, _ := security["capabilities"].(object)
	if has, _ := capabilities["add"].([]any); r.mode() == transparent && slices.Contains(has, any(netAdmin)) {
		r.warn("interception mode TPROXY: the proxy runs as root and keeps NET_ADMIN, with which it may undo what " +
			"holds the Pod in the mesh; want REDIRECT where x-forwarded-for tells the client's address")
	}
}

// capabilities returns what the proxy may do beside its own. A transparent one sets the addresses
// and marks of its connections.
func capabilities(r *request, f *proxyFacts) []string {
	var all []string
	if f.Mode == transparent {
		all = append(all, netAdmin)
	}
	if f.LowPorts {
		all = append(all, "NET_BIND_SERVICE")
	}
	return all
}

// lowPorts is the kernel's parameter that lets processes without rights listen on 80 and 443.
const lowPorts = "net.ipv4.ip_unprivileged_port_start"

// gatewaySysctls returns the Pod's own parameters of the kernel, which a template's list would
// replace, with the one that lets the proxy listen below 1024 unless the Pod sets it.
func gatewaySysctls(spec *corev1.PodSpec) []corev1.Sysctl {
	var all []corev1.Sysctl
	if s := spec.SecurityContext; s != nil {
		all = slices.Clone(s.Sysctls)
	}
	if !slices.ContainsFunc(all, func(s corev1.Sysctl) bool { return s.Name == lowPorts }) {
		all = append(all, corev1.Sysctl{Name: lowPorts, Value: "0"})
	}
	return all
}

// own notes the names of the Pod's own containers, and returns their ports in JSON.
func (f *proxyFacts) own(containers []corev1.Container) (string, error) {
	ports := []corev1.ContainerPort{}
	for n := range containers {
		ports = append(ports, containers[n].Ports...)
		if containers[n].Name != proxyName {
			f.Containers = append(f.Containers, containers[n].Name)
		}
	}
	raw, err := json.Marshal(ports)
	return string(raw), err
}

// canonical notes the service that the Pod is of, by the labels that say so, in Istio's order.
func (f *proxyFacts) canonical(r *request) {
	labels := r.pod.Labels
	name := cmp.Or(labels["service.istio.io/canonical-name"], labels["app.kubernetes.io/name"], labels["app"],
		r.owner.Name)
	f.CanonicalName = strings.Trim(name[:min(len(name), 63)], "-_.")
	f.CanonicalRevision = cmp.Or(labels["service.istio.io/canonical-revision"], labels["app.kubernetes.io/version"],
		labels["version"], "latest")
}

// holds reports whether the application starts after the proxy.
func (i *Injector) holds(r *request) bool {
	return r.proxy.GetHoldApplicationUntilProxyStarts().GetValue() ||
		i.values.bool("global.proxy.holdApplicationUntilProxyStarts")
}

func (i *Injector) statusPort(r *request) string {
	return r.annotation(statusPortName, i.values.text("global.proxy.statusPort"))
}

// resources returns those of the annotations, or those of the values if there are none.
func (i *Injector) resources(r *request) map[string]any {
	out := map[string]any{}
	for _, of := range []struct{ annotation, kind, resource string }{
		{cpuName, "requests", "cpu"},
		{memoryName, "requests", "memory"},
		{cpuLimitName, "limits", "cpu"},
		{memoryLimitName, "limits", "memory"},
	} {
		if value, ok := r.pod.Annotations[of.annotation]; ok {
			into, _ := out[of.kind].(map[string]any)
			if into == nil {
				into = map[string]any{}
			}
			into[of.resource] = value
			out[of.kind] = into
		}
	}
	if len(out) > 0 {
		return out
	}
	standard, _ := i.values.copy()["global"].(map[string]any)["proxy"].(map[string]any)["resources"].(map[string]any)
	return withoutNull(standard)
}

func withoutNull(o map[string]any) map[string]any {
	for key, value := range o {
		if value == nil {
			delete(o, key)
		} else if of, ok := value.(map[string]any); ok {
			withoutNull(of)
		}
	}
	return o
}
