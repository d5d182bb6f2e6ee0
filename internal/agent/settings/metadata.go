package settings

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/lateen-mesh/lateen/internal/xds/proxystats"
)

const (
	metaPrefix     = "ISTIO_META_"
	metaJSONPrefix = "ISTIO_METAJSON_"
	templateHash   = "pod-template-hash"
	// istioVersion is the release of Istio whose configuration the proxy takes.
	istioVersion = "1.31.0"
)

// rawMetadata returns what ProxyConfig.proxyMetadata and the variables ISTIO_META_* and
// ISTIO_METAJSON_* add to the node. Those of JSON add the fields of an object each. In sorted order
// a later one wins, so that two starts of one Pod are equal.
func (e *environment) rawMetadata(proxyMetadata map[string]string) map[string]any {
	all := map[string]any{}
	for name, value := range proxyMetadata {
		if key, ok := strings.CutPrefix(name, metaPrefix); ok {
			all[key] = value
		}
	}
	for key, value := range e.withPrefix(metaPrefix) {
		all[key] = value
	}
	objects := e.withPrefix(metaJSONPrefix)
	for _, name := range slices.Sorted(maps.Keys(objects)) {
		var fields map[string]any
		if err := json.Unmarshal([]byte(objects[name]), &fields); err != nil {
			e.refuse(metaJSONPrefix+name, "is no JSON object: %v", err)
			continue
		}
		maps.Copy(all, fields)
	}
	return all
}

// metadata returns all that the node tells the control plane. What the agent knows itself wins over
// what a variable says under the same key.
func (e *environment) metadata(s *Settings, c proxyConfig, merged map[string]any) map[string]any {
	all := e.rawMetadata(c.ProxyMetadata)
	if _, ok := all["ISTIO_VERSION"]; !ok {
		all["ISTIO_VERSION"] = istioVersion
	}
	all["NAME"] = s.Node.Pod
	all["NAMESPACE"] = s.Node.Namespace
	all["SERVICE_ACCOUNT"] = s.Node.ServiceAccount
	all["INSTANCE_IPS"] = joinAddresses(s.Node.Addresses)
	all["ENVOY_STATUS_PORT"] = s.Envoy.StatusPort
	all["ENVOY_PROMETHEUS_PORT"] = s.Envoy.MetricsPort
	all["PROXY_CONFIG"] = merged
	all["LABELS"] = anyMap(s.Node.Labels)
	if len(s.Node.Annotations) > 0 {
		all["ANNOTATIONS"] = anyMap(s.Node.Annotations)
	}
	if s.Status.Port != 0 { // else nobody makes Istio's metrics of Envoy's
		all[proxystats.MetadataKey] = proxystats.MetadataValue
	}
	if s.Envoy.ExitOnZeroConnections {
		all["EXIT_ON_ZERO_ACTIVE_CONNECTIONS"] = "true"
	}
	if v := e.text("DNS_PROXY_ADDR", ""); v != "" {
		all["DNS_PROXY_ADDR"] = v
	}
	if s.Envoy.OutlierLogPath != "" {
		all["OUTLIER_LOG_PATH"] = s.Envoy.OutlierLogPath
	}
	return all
}

func anyMap(m map[string]string) map[string]any {
	all := make(map[string]any, len(m))
	for k, v := range m {
		all[k] = v
	}
	return all
}

func joinAddresses(addresses []netip.Addr) string {
	all := make([]string, len(addresses))
	for i, a := range addresses {
		all[i] = a.String()
	}
	return strings.Join(all, ",")
}

// labels returns those of the Pod: of the downward API, over those of ISTIO_METAJSON_LABELS. The
// hash of a ReplicaSet is left out, since it would tell the Pods of one Deployment apart.
func (e *environment) labels(fromFile map[string]string) map[string]string {
	all := map[string]string{}
	if text := e.text(metaJSONPrefix+"LABELS", ""); text != "" {
		if err := json.Unmarshal([]byte(text), &all); err != nil {
			e.refuse(metaJSONPrefix+"LABELS", "is no JSON object of strings: %v", err)
		}
	}
	maps.Copy(all, fromFile)
	delete(all, templateHash)
	return all
}

// locality reads region, zone and subzone of a label, between dots or slashes.
func locality(labels map[string]string) Locality {
	text := labels["topology.istio.io/locality"]
	if text == "" {
		text = labels["istio-locality"]
	}
	if !strings.Contains(text, "/") {
		text = strings.ReplaceAll(text, ".", "/")
	}
	parts := append(strings.SplitN(text, "/", 3), "", "")
	return Locality{Region: parts[0], Zone: parts[1], SubZone: parts[2]}
}

// serviceCluster returns Envoy's service cluster: what is set, or the application with its
// namespace.
func serviceCluster(set string, n Node, workload string) string {
	if set != "" && set != defaultCluster {
		return set
	}
	labels := []string{n.Labels["app"], n.Labels["app.kubernetes.io/name"], n.Labels["service.istio.io/canonical-name"]}
	for _, name := range append(labels, workload) {
		if name != "" {
			return name + "." + n.Namespace
		}
	}
	return defaultCluster + "." + n.Namespace
}

// addresses returns those of the proxy: that of the Pod first, then those of its interfaces. Two
// orders of interfaces give one order of addresses.
func (e *environment) addresses(sources Sources, excluded string) []netip.Addr {
	var all []netip.Addr
	if text := e.text("INSTANCE_IP", ""); text != "" {
		ip, err := netip.ParseAddr(text)
		if err != nil {
			e.refuse("INSTANCE_IP", "%q is no IP address", text)
		} else {
			all = append(all, ip.Unmap())
		}
	}
	var found []netip.Addr
	for _, i := range sources.Interfaces {
		if slices.Contains(strings.Split(excluded, ","), i.Name) {
			continue
		}
		for _, a := range i.Addresses {
			a = a.Unmap().WithZone("")
			if a.IsGlobalUnicast() && !slices.Contains(all, a) && !slices.Contains(found, a) {
				found = append(found, a)
			}
		}
	}
	slices.SortFunc(found, netip.Addr.Compare)
	if all = append(all, found...); len(all) == 0 {
		all = []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1}), netip.IPv6Loopback()}
	}
	return all
}

// portOf reads the port of an annotation.
func portOf(place, text string) (int32, error) {
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return 0, fmt.Errorf("%s: %q is no port", place, text)
	}
	return int32(n), nil
}
