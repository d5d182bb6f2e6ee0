package patch

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"github.com/lateen-mesh/lateen/internal/api/model"
)

// ClusterSite is what patches match of a cluster that its message does not have.
type ClusterSite struct {
	Context model.PatchContext
	// Services are those that a cluster of an inbound port is for.
	Services *model.List[model.Host]
}

// Cluster applies patches to a cluster. It returns nil for one that they remove.
func Cluster(c *clusterv3.Cluster, at ClusterSite, by Patches) (*clusterv3.Cluster, Outcome) {
	return task[*clusterv3.Cluster]{by, at.Context, func(r *run, c *clusterv3.Cluster) *clusterv3.Cluster {
		for i, p := range r.of(model.PatchCluster) {
			matches := matchesCluster(p.Cluster, c.GetName(), at.Services)
			if matches && !r.stays(i, p, func() error { return mergeCluster(p, c) }) {
				return nil
			}
		}
		return c
	}}.on(c)
}

// matchesCluster reports whether a match selects a cluster by its name:
// "outbound|80|v1|a.default.svc.cluster.local", "inbound|8080||".
func matchesCluster(m model.ClusterMatch, name string, services *model.List[model.Host]) bool {
	if m.Name != "" {
		return m.Name == name
	}
	parts := strings.Split(name, "|")
	if len(parts) != 4 {
		parts = []string{"", "", "", ""}
	}
	host := m.Service == "" || m.Service == model.Host(parts[3])
	if parts[0] == "inbound" && services.Len() > 0 {
		host = m.Service == "" || services.Contains(m.Service)
	}
	return host && (m.Subset == "" || m.Subset == parts[2]) &&
		(m.Port == 0 || strconv.Itoa(int(m.Port)) == parts[1])
}

// mergeCluster merges the value of a patch. A transport socket is merged into the one of its name,
// among those that are chosen by the endpoint too; another one takes the place of the cluster's.
func mergeCluster(p Patch, c *clusterv3.Cluster) error {
	from, err := value[*clusterv3.Cluster](p)
	if err != nil {
		return err
	}
	if with := from.GetTransportSocket(); with != nil {
		from.TransportSocket = nil
		if err := mergerOf(p).clusterSocket(c, with); err != nil {
			return err
		}
	}
	mergerOf(p).message(c.ProtoReflect(), from.ProtoReflect())
	return nil
}

func (m merger) clusterSocket(c *clusterv3.Cluster, with *corev3.TransportSocket) error {
	if matches := c.GetTransportSocketMatches(); len(matches) > 0 {
		at := slices.IndexFunc(matches, func(of *clusterv3.Cluster_TransportSocketMatch) bool {
			return of.GetTransportSocket() != nil && of.GetTransportSocket().GetName() == with.GetName()
		})
		if at < 0 { // Envoy takes no cluster with both
			return fmt.Errorf("has no transport socket %q among those that its endpoints choose", with.GetName())
		}
		return m.socket(matches[at].GetTransportSocket(), with)
	}
	if c.GetTransportSocket() == nil || c.GetTransportSocket().GetName() != with.GetName() {
		c.TransportSocket = with
		return nil
	}
	return m.socket(c.GetTransportSocket(), with)
}

// socket merges the configuration of a transport socket into that of another one.
func (m merger) socket(to, with *corev3.TransportSocket) error {
	if to.GetTypedConfig() == nil || with.GetTypedConfig() == nil {
		m.message(to.ProtoReflect(), with.ProtoReflect())
		return nil
	}
	config, err := m.packed(to.GetTypedConfig(), with.GetTypedConfig())
	if err == nil {
		to.ConfigType = &corev3.TransportSocket_TypedConfig{TypedConfig: config}
	}
	return err
}
