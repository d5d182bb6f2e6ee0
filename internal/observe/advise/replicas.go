package advise

import (
	"fmt"
)

// A replica is overloaded if it has this many times the mean of proxies, among so many at least.
const (
	unbalanced       = 1.5
	proxiesToBalance = 20
)

// minReplicas is how many replicas a control plane has at least, so that one may be away.
const minReplicas = 2

// balance advises to end connections where one replica has most of them.
func (d *diagnosis) balance() []Finding {
	all, most := d.gauge(metricProxies), d.fullest(func(r *Replica) float64 { return r.Gauges[metricProxies] })
	if len(d.Replicas) < 2 || all < proxiesToBalance {
		return nil
	}
	mean := all / float64(len(d.Replicas))
	if most <= unbalanced*mean {
		return nil
	}
	return []Finding{{
		Summary:  "one replica serves most proxies: connections stay where they are when replicas are added",
		Evidence: []Evidence{above("proxies of the fullest replica", most, unbalanced*mean, "")},
		Effects:  []Effect{{What: "proxies of the fullest replica", Before: most, After: mean}},
		Remedy: Remedy{
			Values: map[string]string{"pilot.keepaliveMaxServerConnectionAge": "10m"},
			Text:   "or at once: kubectl rollout restart deployment/istiod",
		},
	}}
}

// autoscaler advises other bounds.
func (d *diagnosis) autoscaler() []Finding {
	a := d.Autoscaler
	if a == nil {
		return d.single()
	}
	var found []Finding
	least, most := d.wantedBounds()
	if a.Min < minReplicas {
		found = append(found, Finding{
			Summary: "the HorizontalPodAutoscaler may leave one replica, without which nothing changes any more",
			Evidence: []Evidence{
				{Metric: "spec.minReplicas", Value: float64(a.Min), Threshold: minReplicas, Off: true},
			},
			Effects: []Effect{{What: "replicas at least", Before: float64(a.Min), After: least}},
			Remedy:  Remedy{Values: map[string]string{"pilot.autoscaleMin": fmt.Sprintf("%.0f", least)}},
		})
	}
	if cpu := d.fullest((*Replica).cpuShare); a.Current >= a.Max && d.scalesOut() {
		found = append(found, Finding{
			Summary: "the HorizontalPodAutoscaler is at its upper bound, and the CPUs are full",
			Evidence: []Evidence{
				{Metric: "spec.maxReplicas", Value: float64(a.Max), Threshold: most, Off: true},
				above("CPU of the fullest replica", cpu, fullShare, "of its CPUs"),
			},
			Effects: []Effect{{What: "replicas at most", Before: float64(a.Max), After: most}},
			Remedy:  Remedy{Values: map[string]string{"pilot.autoscaleMax": fmt.Sprintf("%.0f", most)}},
		})
	}
	return found
}

// single advises a second replica in a cluster.
func (d *diagnosis) single() []Finding {
	if !d.InCluster || len(d.Replicas) != 1 {
		return nil
	}
	return []Finding{{
		Summary: "there is one replica, without which nothing changes any more",
		Evidence: []Evidence{
			{Metric: "replicas", Value: 1, Threshold: minReplicas, Off: true},
		},
		Effects: []Effect{{What: "replicas at least", Before: 1, After: minReplicas}},
		Remedy: Remedy{Values: map[string]string{
			"pilot.autoscaleEnabled": "true", "pilot.autoscaleMin": fmt.Sprint(minReplicas),
		}},
	}}
}
