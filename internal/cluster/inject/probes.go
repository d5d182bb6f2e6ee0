package inject

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/lateen-mesh/lateen/internal/source/untrusted"
)

// probersVariable tells the agent how to probe the application.
const probersVariable = "ISTIO_KUBE_APP_PROBERS"

// rewritesProbes reports whether the kubelet's probes go to the agent, which probes the
// application. They would else be refused by a proxy that insists on mutual TLS.
func (i *Injector) rewritesProbes(r *request) bool {
	if asked, ok := r.pod.Annotations[rewriteProbesName]; ok {
		wanted, _ := strconv.ParseBool(asked) // it has been checked
		return wanted
	}
	return i.values.bool("sidecarInjectorWebhook.rewriteAppHTTPProbe")
}

// rewriteProbes points probes and hooks to the agent, and tells the agent what they were.
func (i *Injector) rewriteProbes(r *request, pod, proxy object) error {
	port := int(r.proxy.StatusPort)
	if asked, ok := r.pod.Annotations[statusPortName]; ok {
		port, _ = strconv.Atoi(strings.TrimSpace(asked)) // it has been checked
	}
	if port == 0 { // nobody answers there
		return nil
	}
	probers := object{}
	if text := variable(proxy, probersVariable); text != "" && r.before != nil {
		_ = untrusted.Annotation().JSON([]byte(text), &probers) // what is no JSON is written anew
	}
	for _, list := range []string{first, plain} {
		for _, c := range containers(pod, list) {
			if c["name"] != proxyName {
				rewriteContainer(c, port, probers)
			}
		}
	}
	if len(probers) == 0 {
		return nil
	}
	raw, err := json.Marshal(probers)
	if err != nil {
		return err
	}
	setVariable(proxy, probersVariable, string(raw))
	return nil
}

// rewriteContainer does so for the probes and hooks of one container.
func rewriteContainer(c object, port int, probers object) {
	ports := portsByName(c)
	hooks, _ := c["lifecycle"].(object)
	for _, p := range []struct {
		in          object
		field, path string
	}{
		{c, "readinessProbe", "readyz"},
		{c, "livenessProbe", "livez"},
		{c, "startupProbe", "startupz"},
		{hooks, "preStop", "prestopz"},
		{hooks, "postStart", "poststartz"},
	} {
		probe, ok := p.in[p.field].(object)
		if !ok {
			continue
		}
		path := fmt.Sprintf("/app-health/%v/%s", c["name"], p.path)
		if was := proberOf(probe, ports, port); was != nil {
			probers[path] = was
			redirect(probe, path, port)
		}
	}
}

func portsByName(c object) map[string]any {
	all := map[string]any{}
	list, _ := c["ports"].([]any)
	for _, p := range list {
		of, _ := p.(object)
		if name, ok := of["name"].(string); ok {
			all[name] = of["containerPort"]
		}
	}
	return all
}

// proberOf returns what the agent is told of a probe: nil if it asks nothing over the network, if
// its port has a name that no port has, or if it goes to the agent already.
func proberOf(probe object, ports map[string]any, agent int) object {
	for _, kind := range []string{"httpGet", "tcpSocket", "grpc"} {
		action, ok := probe[kind].(object)
		if !ok {
			continue
		}
		action = copied(action).(object)
		if name, ok := action["port"].(string); ok {
			if action["port"] = ports[name]; action["port"] == nil {
				return nil
			}
		}
		if asked, _ := action["port"].(float64); int(asked) == agent {
			return nil
		}
		was := object{kind: action}
		if timeout, ok := probe["timeoutSeconds"]; ok {
			was["timeoutSeconds"] = timeout
		}
		return was
	}
	return nil
}

// redirect makes a probe ask the agent, which speaks HTTP.
func redirect(probe object, path string, port int) {
	action, _ := probe["httpGet"].(object)
	if action == nil {
		action = object{}
	}
	delete(probe, "tcpSocket")
	delete(probe, "grpc")
	action["path"], action["port"] = path, float64(port)
	if scheme, _ := action["scheme"].(string); strings.EqualFold(scheme, "https") {
		action["scheme"] = "HTTP"
	}
	probe["httpGet"] = action
}
