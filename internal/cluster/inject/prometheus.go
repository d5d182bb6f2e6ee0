package inject

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
)

// scrapeVariable tells the agent how to scrape the application.
const scrapeVariable = "ISTIO_PROMETHEUS_ANNOTATIONS"

// notInNames are the signs that Prometheus replaces in the names of annotations.
var notInNames = regexp.MustCompile(`[^a-zA-Z0-9_]`)

// reserved are ports of the proxy, which the agent must not scrape for the application.
var reserved = map[int]string{
	15000: "Envoy's admin interface", 15001: "outbound connections", 15004: "debugging",
	15006: "inbound connections", 15008: "tunnels", 15020: "the agent's metrics", 15021: "health checks",
	15053: "DNS", 15090: "Envoy's metrics",
}

// mergeMetrics points Prometheus to the agent, which adds the application's metrics to the
// proxy's, and tells the agent where the application's are.
func (i *Injector) mergeMetrics(r *request, pod, proxy object) error {
	annotations := under(under(pod, "metadata"), "annotations")
	found := map[string]string{} // by what Prometheus makes of the name
	for name := range annotations {
		text, _ := annotations[name].(string)
		found[notInNames.ReplaceAllString(name, "_")] = text
	}
	scrape := found["prometheus_io_scrape"]
	if wanted, err := strconv.ParseBool(scrape); err == nil && !wanted || !i.mergesMetrics(r) {
		return nil
	}
	agent := strconv.Itoa(int(r.proxy.StatusPort))
	if found["prometheus_io_port"] == agent {
		return nil // it is done, or the Pod's own affair
	}
	to := object{}
	for field, value := range map[string]string{
		"scrape": scrape, "path": found["prometheus_io_path"], "port": found["prometheus_io_port"],
	} {
		if value != "" {
			to[field] = value
		}
	}
	if port := found["prometheus_io_port"]; port != "" {
		if err := scraped("prometheus.io/port", port); err != nil {
			return err
		}
	}
	if len(to) > 0 {
		raw, err := json.Marshal(to)
		if err != nil {
			return err
		}
		setVariable(proxy, scrapeVariable, string(raw))
	}
	for name := range annotations {
		switch notInNames.ReplaceAllString(name, "_") {
		case "prometheus_io_scrape", "prometheus_io_port", "prometheus_io_path":
			delete(annotations, name)
		}
	}
	annotations["prometheus.io/scrape"] = "true"
	annotations["prometheus.io/port"] = agent
	annotations["prometheus.io/path"] = "/stats/prometheus"
	return nil
}

func (i *Injector) mergesMetrics(r *request) bool {
	if asked, ok := r.pod.Annotations[mergeMetricsName]; ok {
		wanted, _ := strconv.ParseBool(asked) // it has been checked
		return wanted
	}
	return i.mesh.EnablePrometheusMerge == nil || i.mesh.EnablePrometheusMerge.Value
}

// scraped returns an error if the agent cannot scrape the application there.
func scraped(annotation, port string) error {
	number, err := strconv.Atoi(port)
	if err != nil || number < 1 || number > 65535 {
		return fmt.Errorf("metadata.annotations[%s] = %q; want a port, as 9090", annotation, port)
	}
	if what, ok := reserved[number]; ok {
		return fmt.Errorf("metadata.annotations[%s] = %q is a port of the proxy (%s); "+
			`want one of the application, or %s: "false"`, annotation, port, what, mergeMetricsName)
	}
	return nil
}
