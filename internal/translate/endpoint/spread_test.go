package endpoint_test

import (
	"fmt"
	"slices"
	"testing"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/translate/endpoint"
	"github.com/lateen-mesh/lateen/internal/translate/translatetest"
)

func siteAt(text string, marks ...string) endpoint.Site {
	m := map[string]string{}
	for i := 0; i+1 < len(marks); i += 2 {
		m[marks[i]] = marks[i+1]
	}
	return endpoint.Site{Locality: model.ParseLocality(text), Marks: model.LabelsOf(m), Weight: 10}
}

func nearby(text string, more ...string) model.Labels {
	l := model.ParseLocality(text)
	m := map[string]string{model.RegionLabel: l.Region, model.ZoneLabel: l.Zone, model.SubzoneLabel: l.Subzone}
	for i := 0; i+1 < len(more); i += 2 {
		m[more[i]] = more[i+1]
	}
	return model.LabelsOf(m)
}

func pattern(text string) model.LocalityPattern {
	return model.LocalityPattern(model.ParseLocality(text))
}

func TestSpreadGivesPrioritiesAndWeights(t *testing.T) {
	places := []endpoint.Site{siteAt("eu/1/a"), siteAt("eu/1/b"), siteAt("eu/2/a"), siteAt("us/1/a"), siteAt("")}
	nodes := []endpoint.Site{
		siteAt("eu/1/a", model.HostnameLabel, "n1"), siteAt("eu/1/a", model.HostnameLabel, "n2"), siteAt("eu/1/a"),
	}
	versions := []endpoint.Site{siteAt("eu/1/a", "v", "1"), siteAt("eu/2/a", "v", "1"), siteAt("eu/1/a", "v", "2")}
	hints := []endpoint.Site{siteAt(
		"eu/1", model.HintsMark, "1",
	), siteAt("eu/1", model.HintsMark, "1,2"), siteAt("eu/2", model.HintsMark, "2")}
	some := append(slices.Clone(hints), siteAt("eu/2"))
	by := func(labels ...model.PriorityLabel) *model.LocalityLB {
		return &model.LocalityLB{FailoverPriority: labels}
	}
	for name, c := range map[string]struct {
		prefer endpoint.Preference
		sites  []endpoint.Site
		near   model.Labels
		want   string // of each site: its priority, a weight behind ×, - when left out
	}{
		"nothing preferred": {endpoint.Preference{}, places, nearby("eu/1/a"), "0 0 0 0 0"},
		"by place": {endpoint.Preference{
			Locality: &model.LocalityLB{},
		}, places, nearby("eu/1/a"), "0 1 2 3 3"},
		"by place, no gaps": {endpoint.Preference{
			Locality: &model.LocalityLB{},
		}, places, nearby("us/9/z"), "1 1 1 0 1"},
		"by place, far from all": {endpoint.Preference{
			Locality: &model.LocalityLB{},
		}, places[:4], nearby("ap/1/a"), "0 0 0 0"},
		"by place, of unknown ones": {endpoint.Preference{
			Locality: &model.LocalityLB{},
		}, places, model.Labels{}, "1 1 1 1 0"},
		"a region fails over": {
			endpoint.Preference{Locality: &model.LocalityLB{Failover: []model.Failover{{From: "eu", To: "us"}}}},
			places, nearby("eu/2/a"), "1 1 0 2 3",
		},
		"another region fails over": {
			endpoint.Preference{Locality: &model.LocalityLB{Failover: []model.Failover{{From: "ap", To: "us"}}}},
			places, nearby("eu/2/a"), "1 1 0 2 2",
		},
		"by labels": {
			endpoint.Preference{Locality: by(model.PriorityLabel{Key: "v"}, model.PriorityLabel{Key: model.ZoneLabel})},
			versions, nearby("eu/1/a", "v", "1"), "0 1 2",
		},
		"by a label of one value": {
			endpoint.Preference{Locality: by(model.PriorityLabel{Key: "v", Value: "2", Fixed: true})}, versions,
			nearby("eu/1/a", "v", "1"), "1 1 0",
		},
		"by labels, then a region's failover": {
			endpoint.Preference{Locality: &model.LocalityLB{
				FailoverPriority: []model.PriorityLabel{{Key: "v"}}, Failover: []model.Failover{{From: "eu", To: "us"}},
			}}, versions, nearby("eu/1/a", "v", "1"), "0 1 2",
		},
		"on the node": {
			endpoint.Preference{NodeLocal: true}, nodes, nearby("", model.HostnameLabel, "n1"), "0 - -",
		},
		"on a node not known": {endpoint.Preference{NodeLocal: true}, nodes, model.Labels{}, "- - 0"},
		"on the node, by place": {endpoint.Preference{
			NodeLocal: true,
			Locality:  &model.LocalityLB{},
		}, nodes, nearby("us/1/a", model.HostnameLabel, "n2"), "- 0 -"},
		"hinted":                     {endpoint.Preference{Hinted: true}, hints, nearby("eu/1/a"), "0 0 1"},
		"hinted, elsewhere":          {endpoint.Preference{Hinted: true}, hints, nearby("eu/2/a"), "1 0 0"},
		"none hinted for the zone":   {endpoint.Preference{Hinted: true}, hints, nearby("eu/3/a"), "0 0 0"},
		"hinted, the zone not known": {endpoint.Preference{Hinted: true}, hints, model.Labels{}, "0 0 0"},
		"not all are hinted":         {endpoint.Preference{Hinted: true}, some, nearby("eu/1/a"), "0 0 0 0"},
		"not all are hinted, by place": {
			endpoint.Preference{Hinted: true, Locality: &model.LocalityLB{}}, some, nearby("eu/2"), "1 1 0 0",
		},
		"hinted, on the node": {
			endpoint.Preference{Hinted: true, NodeLocal: true}, []endpoint.Site{
				siteAt("eu/1", model.HostnameLabel, "n1", model.HintsMark, "1"),
				siteAt("eu/1", model.HostnameLabel, "n1", model.HintsMark, "2"),
			}, nearby("eu/1", model.HostnameLabel, "n1"), "0 0",
		},
		"regions, whose zones are left to the proxy": {
			endpoint.Preference{Locality: &model.LocalityLB{ZoneAware: true}}, places, nearby("eu/2/a"), "0 0 0 1 1",
		},
		"regions, one of which fails over": {
			endpoint.Preference{Locality: &model.LocalityLB{
				ZoneAware: true, Failover: []model.Failover{{From: "eu", To: "us"}},
			}}, places, nearby("eu/2/a"), "0 0 0 1 2",
		},
		"regions, another of which fails over": {
			endpoint.Preference{Locality: &model.LocalityLB{
				ZoneAware: true, Failover: []model.Failover{{From: "ap", To: "us"}},
			}}, places, nearby("eu/2/a"), "0 0 0 1 1",
		},
		"labels, and then regions": {
			endpoint.Preference{Locality: &model.LocalityLB{
				ZoneAware: true, FailoverPriority: []model.PriorityLabel{{Key: "v"}},
			}}, append(slices.Clone(versions), siteAt("us/1/a", "v", "1")), nearby("eu/1/a", "v", "1"), "0 0 2 1",
		},
		"shared out": {
			endpoint.Preference{Locality: &model.LocalityLB{Distribute: []model.Distribute{{
				From: pattern("eu/*"), To: []model.LocalityShare{
					{To: pattern("eu/1"), Percent: 80}, {To: pattern("us/1/a"), Percent: 20},
				}}}}}, places, nearby("eu/1/a"), "0×40000 0×40000 - 0×20000 -",
		},
		"shared out from elsewhere": {
			endpoint.Preference{Locality: &model.LocalityLB{Distribute: []model.Distribute{{From: pattern("us")}}}},
			places, nearby("eu/1/a"), "0×10 0×10 0×10 0×10 0×10",
		},
	} {
		t.Run(name, func(t *testing.T) {
			var got []byte
			for i, s := range c.prefer.Spread(c.sites, c.near.Only(slices.Values(c.prefer.Keys()))) {
				if i > 0 {
					got = append(got, ' ')
				}
				switch {
				case s.LeftOut:
					got = append(got, '-')
				case s.Weight > 0:
					got = fmt.Appendf(got, "%d×%d", s.Priority, s.Weight)
				default:
					got = fmt.Append(got, s.Priority)
				}
			}
			require.Equal(t, c.want, string(got))
		})
	}
}

// Whatever is preferred, priorities begin at 0 and have no gaps, which Envoy demands.
func TestPrioritiesHaveNoGaps(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		place := rapid.SampledFrom([]string{"", "eu", "eu/1", "eu/1/a", "eu/2", "us/1"})
		var sites []endpoint.Site
		for range rapid.IntRange(0, 6).Draw(t, "sites") {
			marks := []string{"v", rapid.SampledFrom([]string{"1", "2"}).Draw(t, "v"), model.HostnameLabel, "n1"}
			if rapid.Bool().Draw(t, "has hints") {
				marks = append(marks, model.HintsMark, rapid.SampledFrom([]string{"1", "2"}).Draw(t, "hints"))
			}
			sites = append(sites, siteAt(place.Draw(t, "at"), marks...))
		}
		prefer := endpoint.Preference{
			NodeLocal: rapid.Bool().Draw(t, "node"),
			Hinted:    rapid.Bool().Draw(t, "hinted"),
			Locality:  &model.LocalityLB{},
		}
		for _, key := range rapid.SliceOfN(
			rapid.SampledFrom([]string{"v", model.ZoneLabel, model.HostnameLabel}), 0, 3,
		).Draw(t, "labels") {
			prefer.Locality.FailoverPriority = append(prefer.Locality.FailoverPriority, model.PriorityLabel{Key: key})
		}
		if rapid.Bool().Draw(t, "failover") {
			prefer.Locality.Failover = []model.Failover{{From: "eu", To: "us"}}
		}
		found := map[uint32]bool{}
		highest := uint32(0)
		near := nearby(
			place.Draw(t, "near"), "v", "1", model.HostnameLabel, rapid.SampledFrom([]string{"n1", "n2"}).Draw(t, "on"),
		)
		for _, s := range prefer.Spread(sites, near) {
			if !s.LeftOut {
				found[s.Priority], highest = true, max(highest, s.Priority)
			}
		}
		require.True(t, len(found) == 0 || len(found) == int(highest)+1, "%v", found)
	})
}

// TestEnvoyTakesSitesThatDifferInLabelsAlone has Envoy load groups of one locality and priority,
// and one locality at two.
func TestEnvoyTakesSitesThatDifferInLabelsAlone(t *testing.T) {
	assignment := endpoint.Assignment(endpoint.AssignmentInput{Cluster: "all"})
	for i, priority := range []uint32{1, 0, 0, 2, 1} {
		group := endpoint.Group(endpoint.GroupInput{Locality: model.Locality{Region: "r"}, Priority: priority})
		e, err := endpoint.Endpoint(endpoint.Input{Address: fmt.Sprintf("127.0.0.%d", i+1), Port: 80})
		require.NoError(t, err)
		group.LbEndpoints = []*endpointv3.LbEndpoint{e}
		assignment.Endpoints = append(assignment.Endpoints, group)
	}
	translatetest.RequireValid(t, &bootstrapv3.Bootstrap_StaticResources{Clusters: []*clusterv3.Cluster{{
		Name:                 "all",
		LoadAssignment:       assignment,
		ClusterDiscoveryType: &clusterv3.Cluster_Type{Type: clusterv3.Cluster_STATIC},
	}}})
}
