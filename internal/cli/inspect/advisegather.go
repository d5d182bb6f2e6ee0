package inspect

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/lateen-mesh/lateen/internal/admin/page"
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/app"
	"github.com/lateen-mesh/lateen/internal/cli/remote"
	"github.com/lateen-mesh/lateen/internal/cli/terminal"
	"github.com/lateen-mesh/lateen/internal/mesh/census"
	"github.com/lateen-mesh/lateen/internal/observe/advise"
	"github.com/lateen-mesh/lateen/internal/observe/advise/collect"
	"github.com/lateen-mesh/lateen/internal/perf/measure"
	"github.com/lateen-mesh/lateen/internal/xds/resource"
)

// The windows without --window.
const (
	defaultWindow           = 30 * time.Second
	defaultPrometheusWindow = 10 * time.Minute
)

// gather reads what a control plane, Prometheus and proxies say; of a directory alone its objects.
// notes say what could not be read.
func (f *adviseFlags) gather(ctx context.Context, out *terminal.Writer) (*advise.Facts, []string, error) {
	facts, notes := &advise.Facts{Time: time.Now()}, []string{}
	var endpoints []remote.Endpoint
	var connected statusReport
	err := errors.New("the objects of the cluster are read")
	if f.objects != wholeCluster {
		endpoints, err = f.remote.Endpoints(ctx)
	}
	switch {
	case err == nil:
		if connected, err = f.live(ctx, out, endpoints, facts); err != nil {
			return nil, nil, err
		}
	case f.objects == "":
		return nil, nil, err
	default:
		notes = append(notes, "no control plane is looked at, only objects: "+err.Error())
		facts.Settings.Selects = f.objects == wholeCluster
		if facts.Census, err = f.readCensus(ctx); err != nil {
			return nil, nil, err
		}
	}
	if f.prometheus != "" {
		err = f.askPrometheus(ctx, facts)
	} else if len(endpoints) > 0 {
		targets := proxyTargets(endpoints[0].Cluster, connected, facts.Census.Namespaces)
		notes = append(notes, f.askProxies(ctx, targets, facts)...)
	}
	if facts.InCluster {
		scaler, err := autoscaler(ctx, f.remote)
		if err != nil {
			notes = append(notes, "the HorizontalPodAutoscaler is not known: "+err.Error())
		}
		facts.Autoscaler = scaler
	}
	return facts, notes, err
}

// readCensus counts the objects of a cluster, or in a directory, where Deployments stand for their
// Pods.
func (f *adviseFlags) readCensus(ctx context.Context) (c census.Census, err error) {
	log := &lastLines{}
	objects := analyzeFlags{cluster: *f.remote}
	o, err := objects.options(f.objects, log)
	if err != nil {
		return c, err
	}
	if f.objects != wholeCluster {
		o.Source = podsOfTemplates{o.Source}
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if c, err = app.ReadCensus(ctx, o); ctx.Err() != nil {
		return c, fmt.Errorf("%s was not read within a minute%s", f.objects, log)
	}
	return c, err
}

// live asks all replicas at both ends of the window, and returns the proxies that they serve.
func (f *adviseFlags) live(
	ctx context.Context, out *terminal.Writer, endpoints []remote.Endpoint, facts *advise.Facts,
) (r statusReport, err error) {
	var before []measure.Metrics
	var now, earlier page.Census
	if !f.sinceStart && f.prometheus == "" {
		var errs []error
		if before, errs = remote.ScrapeAll(ctx, endpoints); errors.Join(errs...) != nil {
			return r, errors.Join(errs...)
		}
		if err := firstCensus(ctx, endpoints, &earlier); err != nil {
			return r, err
		}
		if f.window == 0 {
			f.window = defaultWindow
		}
		if err := f.wait(ctx, out); err != nil {
			return r, err
		}
	}
	if f.prometheus == "" {
		after, errs := remote.ScrapeAll(ctx, endpoints)
		if err := errors.Join(errs...); err != nil {
			return r, err
		}
		for i, m := range after {
			window := collect.Window{After: m, Seconds: f.window.Seconds(), End: time.Now()}
			if before != nil {
				window.Before = before[i]
			}
			facts.Replicas = append(facts.Replicas, collect.ReplicaOf(endpoints[i].Name, window))
		}
	}
	if err := firstCensus(ctx, endpoints, &now); err != nil {
		return r, err
	}
	setCensus(facts, &now, &earlier)
	f.setCosts(ctx, endpoints, facts)
	if r, err = statusOf(ctx, endpoints); err != nil {
		return r, err
	}
	addProxies(r, facts)
	return r, nil
}

// wait lets the window pass.
func (f *adviseFlags) wait(ctx context.Context, out *terminal.Writer) error {
	defer out.Progress("")
	end := time.Now().Add(f.window)
	for left := f.window; left > 0; left = time.Until(end) {
		out.Progress(fmt.Sprintf("looking for %s more", left.Round(time.Second)))
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(min(left, time.Second)):
		}
	}
	return nil
}

// firstCensus asks the first replica that answers: all know the same objects.
func firstCensus(ctx context.Context, endpoints []remote.Endpoint, into *page.Census) (err error) {
	for _, e := range endpoints {
		if *into, err = remote.Read[page.Census](ctx, e, page.Objects, nil); err == nil {
			return nil
		}
	}
	return err
}

// setCosts takes over what changes took in the window. It is not known if a replica remembers
// nothing.
func (f *adviseFlags) setCosts(ctx context.Context, endpoints []remote.Endpoint, facts *advise.Facts) {
	if f.window <= 0 {
		return
	}
	cost, err := costOf(ctx, endpoints, page.CostQuestion{By: page.ByObject, Since: time.Now().Add(-f.window)})
	if err != nil {
		return
	}
	facts.Costs.Window = f.window.Seconds()
	for _, row := range cost.Rows {
		kind, name, _ := strings.Cut(row.Name, " ")
		of := advise.Cost{Kind: kind, Name: name, Changes: row.Changes, Seconds: row.Seconds}
		if namespace, name, has := strings.Cut(name, "/"); has {
			of.Namespace, of.Name = namespace, name
		}
		facts.Costs.Objects = append(facts.Costs.Objects, of)
	}
}

// setCensus takes over what a page says, and the events since an earlier one.
func setCensus(facts *advise.Facts, now, earlier *page.Census) {
	facts.Census, facts.InCluster = now.Census, now.Settings.InCluster
	s := now.Settings
	facts.Settings = advise.Settings{
		Known: true, DebounceAfter: s.DebounceAfter, DebounceEarly: s.DebounceEarly, DebounceMax: s.DebounceMax,
		AllClusters: s.AllClusters, Selects: s.Selects,
	}
	facts.Events = map[string]float64{}
	for namespace, n := range now.Events {
		facts.Events[namespace] = max(0, float64(n)-float64(earlier.Events[namespace]))
	}
}

// addProxies adds the proxies of all replicas.
func addProxies(report statusReport, facts *advise.Facts) {
	for _, p := range report.Proxies {
		facts.Proxies = append(facts.Proxies, advise.Proxy{
			Namespace: p.Namespace, Router: p.ProxyType == "router", ConfigBytes: p.ConfigBytes,
			Clusters: p.Resources[resource.Cluster.URL()].Resources,
		})
	}
}

// askPrometheus replaces metrics by those of a window, and learns who calls whom.
func (f *adviseFlags) askPrometheus(ctx context.Context, facts *advise.Facts) (err error) {
	if f.window == 0 {
		f.window = defaultPrometheusWindow
	}
	p := collect.Prometheus{Address: f.prometheus, Window: f.window, Client: &http.Client{Timeout: remote.FindTimeout}}
	if facts.Replicas, err = p.Replicas(ctx); err != nil {
		return err
	}
	facts.Events = nil // since the start, not of the window
	if facts.Calls, err = p.Calls(ctx); err != nil {
		return err
	}
	facts.Requests, facts.Failed, err = p.Requests(ctx)
	return err
}

// askProxies asks Envoys whom they have called: in a cluster through port-forwards, in a local mesh
// at their admin ports. If one does not answer, calls are missing and none count.
func (f *adviseFlags) askProxies(ctx context.Context, targets []proxyTarget, facts *advise.Facts) (notes []string) {
	if len(targets) == 0 || len(targets) > f.asked {
		if f.asked > 0 && len(targets) > 0 {
			notes = append(notes, fmt.Sprintf("%d proxies are too many to ask whom they have called; want --proxies %d"+
				", or --prometheus URL", len(targets), len(targets)))
		}
		return notes
	}
	all := make([]remote.Endpoint, len(targets))
	for i := range targets {
		all[i] = targets[i].Endpoint
	}
	answers, errs := remote.EachOf(all, func(e remote.Endpoint) (map[model.Host]float64, error) {
		body, err := e.Fetch(ctx, "/clusters", nil)
		if err != nil {
			return nil, err
		}
		return collect.CalledHosts(strings.NewReader(string(body)))
	})
	calls := map[string]map[model.Host]float64{}
	for i, called := range answers {
		if errs[i] != nil {
			return append(notes, fmt.Sprintf("proxy %s does not say whom it has called: %v", all[i].Name, errs[i]))
		}
		namespace := targets[i].namespace
		if calls[namespace] == nil {
			calls[namespace] = map[model.Host]float64{}
		}
		for host, n := range called {
			calls[namespace][host] += n
		}
	}
	facts.Calls = advise.Calls{Source: "the proxies' own counts since they started", ByNamespace: calls}
	return notes
}

// proxyTarget is an Envoy to ask.
type proxyTarget struct {
	remote.Endpoint
	namespace string
}

// proxyTargets returns the admin ports of all proxies that can be reached: in a cluster those that
// are connected, else those of the local mesh.
func proxyTargets(cluster remote.Pods, connected statusReport, local []census.Namespace) (targets []proxyTarget) {
	for _, n := range local {
		for _, address := range n.Admins {
			at := remote.AtAddress(net.JoinHostPort(address, strconv.Itoa(envoyAdminPort)))
			targets = append(targets, proxyTarget{at, n.Name})
		}
	}
	if cluster == nil {
		return targets
	}
	for _, p := range connected.Proxies {
		pod := strings.TrimSuffix(p.ProxyID, "."+p.Namespace)
		targets = append(targets, proxyTarget{remote.InPod(cluster, p.Namespace, pod, envoyAdminPort), p.Namespace})
	}
	return targets
}

// autoscaler returns the HorizontalPodAutoscaler of the control plane, nil if there is none.
func autoscaler(ctx context.Context, r *remote.Remote) (*advise.Autoscaler, error) {
	access, err := r.RestConfig()
	if err != nil {
		return nil, err
	}
	api, err := newRawAPI(access)
	if err != nil {
		return nil, err
	}
	body, err := api.get(ctx, "/apis/autoscaling/v2/namespaces/"+r.Namespace+"/horizontalpodautoscalers")
	if err != nil {
		return nil, err
	}
	var list struct {
		Items []struct {
			Spec struct {
				ScaleTargetRef           struct{ Name string }
				MinReplicas, MaxReplicas int
			}
			Status struct{ CurrentReplicas int }
		}
	}
	if err := json.Unmarshal(body, &list); err != nil {
		return nil, fmt.Errorf("HorizontalPodAutoscalers: %w", err)
	}
	for _, item := range list.Items {
		if strings.HasPrefix(item.Spec.ScaleTargetRef.Name, "istiod") {
			return &advise.Autoscaler{
				Min: max(item.Spec.MinReplicas, 1), Max: item.Spec.MaxReplicas, Current: item.Status.CurrentReplicas,
			}, nil
		}
	}
	return nil, nil
}
