package inject

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/lateen-mesh/lateen/internal/api/model"
)

// networksName is where a Pod lists networks of Multus.
const networksName = "k8s.v1.cni.cncf.io/networks"

// The values of pilot.cni.provider.
const (
	chainedPlugin = "default"
	multusPlugin  = "multus"
)

// interception is a part of how connections are redirected: a flag of istio-iptables, and the
// annotation by which Istio's CNI plugin learns of it.
type interception struct {
	flag, annotation, value string
}

// intercept notes how connections are redirected: by an init container, or by a CNI plugin whose
// work the container validates.
func (i *Injector) intercept(r *request, f *proxyFacts) error {
	f.Intercepts = f.Mode != noInterception
	all := i.interceptions(r, f.Mode)
	for n := range all {
		all[n].value = trimmed(all[n].value)
	}
	f.Arguments = []string{"istio-iptables"}
	for _, one := range all {
		f.Arguments = append(f.Arguments, one.flag, one.value)
	}
	f.Arguments = append(f.Arguments,
		"--log_output_level="+r.annotation(agentLevelName, i.values.text("global.logging.level")))
	if !i.HasPlugin() {
		return nil
	}
	if err := i.requirePluginKnows(r, f); err != nil {
		return err
	}
	f.Arguments = append(f.Arguments, "--run-validation", "--skip-rule-apply")
	f.ForPlugin = map[string]string{}
	for _, one := range all {
		if one.annotation != "" {
			f.ForPlugin[one.annotation] = one.value
		}
	}
	return i.attachNetwork(r, f)
}

// trimmed returns a list with commas without spaces around its parts, which the plugin refuses.
func trimmed(list string) string {
	parts := strings.Split(list, ",")
	for n := range parts {
		parts[n] = strings.TrimSpace(parts[n])
	}
	return strings.Join(parts, ",")
}

// HasPlugin reports whether Pods are injected for Istio's CNI plugin.
func (i *Injector) HasPlugin() bool { return i.values.bool("pilot.cni.enabled") }

// requirePluginKnows refuses what nobody can tell Istio's CNI plugin: it fails at a Pod without
// interception, redirects to ports of its own, and of a proxy that is root knows no other user.
func (i *Injector) requirePluginKnows(r *request, f *proxyFacts) error {
	switch {
	case !f.Intercepts:
		return errors.New("the interception mode is NONE, which Istio's CNI plugin refuses; want REDIRECT, or " +
			"pilot.cni.enabled=false")
	case f.Mode == transparent:
		return errors.New("the interception mode is TPROXY, whose rules cannot be validated where Istio's CNI plugin " +
			"sets them; want REDIRECT, or pilot.cni.enabled=false")
	case i.mesh.ProxyListenPort != model.StandardOutboundPort ||
		i.mesh.ProxyInboundListenPort != model.StandardInboundPort:
		return fmt.Errorf("the mesh configuration has proxyListenPort = %d and proxyInboundListenPort = %d; want %d "+
			"and %d, to which Istio's CNI plugin redirects", i.mesh.ProxyListenPort, i.mesh.ProxyInboundListenPort,
			model.StandardOutboundPort, model.StandardInboundPort)
	case r.apart && f.LowPorts:
		return fmt.Errorf("the application has the user or group %d, and %s has the proxy run as root: Istio's CNI "+
			"plugin would except the application's connections; want another user for the application",
			proxyUser, bindServiceName)
	}
	return nil
}

// attachNetwork has Multus call the plugin, where that is how it is called.
func (i *Injector) attachNetwork(r *request, f *proxyFacts) error {
	if i.values.text("pilot.cni.provider") != multusPlugin {
		return nil
	}
	list, err := appendNetwork(r.pod.Annotations[networksName], "default/istio-cni")
	if err != nil {
		return fmt.Errorf("metadata.annotations[%s]: %w", networksName, err)
	}
	f.ForPlugin[networksName] = list
	return nil
}

// interceptions returns all that is said of how connections are redirected.
func (i *Injector) interceptions(r *request, mode string) []interception {
	value := func(annotation, path string) string { return r.annotation(annotation, i.values.text(path)) }
	all := []interception{
		{"-p", "", fmt.Sprint(i.mesh.ProxyListenPort)},
		{"-z", "", fmt.Sprint(i.mesh.ProxyInboundListenPort)},
		{"-u", "", fmt.Sprint(r.user)},
		{"-m", interceptionModeName, mode},
		{"-i", includeRangesName, value(includeRangesName, "global.proxy.includeIPRanges")},
		{"-x", excludeRangesName, value(excludeRangesName, "global.proxy.excludeIPRanges")},
		{"-b", includeInboundName, value(includeInboundName, "global.proxy.includeInboundPorts")},
		{"-d", excludeInboundName, i.excludedInbound(r)},
	}
	for _, of := range []struct{ flag, annotation, path string }{
		{"-q", includeOutboundPortsName, "global.proxy.includeOutboundPorts"},
		{"-o", excludeOutboundPortsName, "global.proxy.excludeOutboundPorts"},
		{"-c", excludeInterfacesName, ""},
	} {
		if ports := value(of.annotation, of.path); ports != "" {
			all = append(all, interception{of.flag, of.annotation, ports})
		}
	}
	if virtual := r.annotation(rerouteName, r.pod.Annotations[kubevirtName]); virtual != "" {
		all = append(all, interception{"-k", "", virtual})
	}
	return all
}

// excludedInbound returns the ports that keep their connections: those of the proxy itself, and
// those that the Pod names.
func (i *Injector) excludedInbound(r *request) string {
	all := []string{"15090", "15021"}
	named := r.annotation(excludeInboundName, i.values.text("global.proxy.excludeInboundPorts"))
	for _, port := range append([]string{i.statusPort(r)}, strings.Split(named, ",")...) {
		if port = strings.TrimSpace(port); port != "" && port != "0" && !slices.Contains(all, port) {
			all = append(all, port)
		}
	}
	return strings.Join(all, ",")
}
