package observe

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/perf/sidecar"
	"github.com/lateen-mesh/lateen/internal/testkit/lateenserve"
)

const dashboardDir = "../../charts/lateen/files/monitoring/dashboards"

// dataPlane is the dashboard that needs a mesh of Envoys.
const dataPlane = "data-plane.json"

// panel is a part of a dashboard.
type panel struct {
	Title   string `json:"title"`
	Targets []struct {
		Expr string `json:"expr"`
	} `json:"targets"`
}

// question is a query, and where it stands.
type question struct{ at, query string }

// withoutCluster are the panels that have no data for a control plane of a directory, which has no
// watches, authority or serving certificate. test/incluster has their metrics move
// (TestInstalledControlPlaneWorksWithItsRights).
var withoutCluster = map[string]bool{
	"Events of watches": true, "The root ends in": true, "The serving certificate ends in": true,
}

func questions(t *testing.T) (all []question) {
	t.Helper()
	var stock []struct{ Query, Elsewhere string }
	readYAML(t, "testdata/stock.yaml", &stock)
	for _, q := range stock {
		if q.Elsewhere == "" {
			all = append(all, question{"Istio's dashboards", q.Query})
		}
	}
	files, err := filepath.Glob(filepath.Join(dashboardDir, "*.json"))
	require.NoError(t, err)
	require.Len(t, files, 4)
	for _, file := range files {
		if filepath.Base(file) != dataPlane {
			all = append(all, panels(t, filepath.Base(file))...)
		}
	}
	for _, r := range readRules(t) {
		if r.Record != "" {
			all = append(all, question{"rules", r.Record})
		}
	}
	return all
}

// panels returns the queries of a dashboard, with all for what its reader may choose.
func panels(t *testing.T, file string) (all []question) {
	t.Helper()
	var dashboard struct{ Panels []panel }
	text, err := os.ReadFile(filepath.Join(dashboardDir, file))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &dashboard))
	for _, p := range dashboard.Panels {
		for _, target := range p.Targets {
			if !withoutCluster[p.Title] {
				all = append(all, question{file + ", " + p.Title, strings.ReplaceAll(target.Expr, "$namespace", ".*")})
			}
		}
	}
	require.NotEmpty(t, all)
	return all
}

// TestEachPanelHasData has Prometheus scrape a control plane while a route changes, an endpoint
// comes and goes and more sidecars come, until each query of the dashboards has a number. With
// -pictures it goes on for four minutes and draws the dashboards.
func TestEachPanelHasData(t *testing.T) {
	if testing.Short() {
		t.Skip("it runs a control plane and Prometheus")
	}
	all := questions(t)
	mesh := t.TempDir()
	p, join := startLoaded(t, mesh)
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	patient, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for round := 1; len(all) > 0 || *pictures != "" && time.Since(p.Began) < pictured; round++ {
		select {
		case <-tick.C:
		case <-t.Context().Done():
			t.Fatal(context.Cause(t.Context()))
		}
		if round%60 < 40 { // with pauses, which pictures show
			write(t, mesh, round)
		}
		if round%5 == 0 && round <= 50 {
			join()
		}
		all = slices.DeleteFunc(all, func(q question) bool {
			has, err := p.hasData(t.Context(), q.query)
			require.NoError(t, err, q.at)
			return has
		})
		if len(all) > 0 && patient.Err() != nil {
			t.Fatalf("no data: %q", all)
		}
	}
	if *pictures != "" {
		draw(t, p, "control-plane.json", "push-pipeline.json", "capacity.json")
	}
}

// startLoaded starts a control plane that reads a directory, ten sidecars, and Prometheus. One more
// sidecar comes with each call of join.
func startLoaded(t *testing.T, mesh string) (p *prometheus, join func()) {
	t.Helper()
	binary, err := lateenserve.Build(t.TempDir())
	require.NoError(t, err)
	write(t, mesh, 0)
	lateen := lateenserve.Start(t, lateenserve.Options{
		Binary: binary, Args: []string{"--config-dir", mesh, "--state-dir", t.TempDir()},
	})
	p = startPrometheus(t, lateen.Monitoring)
	fleet, err := sidecar.New(sidecar.Options{Targets: []string{lateen.XDS}})
	require.NoError(t, err)
	t.Cleanup(fleet.Close)
	pods := 0
	join = func() {
		pods++
		fleet.Start(sidecar.Identity{
			Namespace: "shop", Pod: fmt.Sprintf("web-%d", pods),
			Address: netip.AddrFrom4([4]byte{10, 0, 0, byte(pods)}),
			Labels:  map[string]string{"app": "web"},
		}, sidecar.Faults{})
	}
	for range 10 {
		join()
	}
	return p, join
}

// write writes a mesh of two services, whose route and endpoints depend on the round.
func write(t *testing.T, dir string, round int) {
	t.Helper()
	text := strings.NewReplacer("ROUND", fmt.Sprint(round), "LAST", fmt.Sprint(round%2+1)).Replace(manifests)
	temporary := filepath.Join(dir, ".mesh")
	require.NoError(t, os.WriteFile(temporary, []byte(text), 0o600))
	require.NoError(t, os.Rename(temporary, filepath.Join(dir, "mesh.yaml")))
}

const manifests = `
apiVersion: v1
kind: Service
metadata: {name: web, namespace: shop}
spec: {clusterIP: 10.1.0.1, selector: {app: web}, ports: [{name: http, port: 80}]}
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: web, namespace: shop}
spec: {hosts: [web], http: [{timeout: 1ROUNDs, route: [{destination: {host: web}}]}]}
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: far, namespace: shop}
spec:
  hosts: [far.test]
  resolution: STATIC
  ports: [{name: http, number: 80, protocol: HTTP}]
  endpoints: [{address: 10.2.0.9}, {address: 10.2.0.LAST}]
`

// TestDashboardsAreCurrent: they are what hack/dashboards writes.
func TestDashboardsAreCurrent(t *testing.T) {
	python := os.Getenv("LATEEN_DASHBOARDS")
	if python == "" {
		python = "../../.tools/dashboards/bin/python"
	}
	if _, err := os.Stat(python); err != nil {
		if os.Getenv("LATEEN_DASHBOARDS_REQUIRED") != "" {
			t.Fatal(err)
		}
		t.Skip("there is no Python with Grafana's SDK (make dashboards)")
	}
	dir := t.TempDir()
	out, err := exec.CommandContext(t.Context(), python, "../../hack/dashboards/dashboards.py", dir).CombinedOutput()
	require.NoError(t, err, "%s", out)
	names, err := filepath.Glob(filepath.Join(dir, "*.json"))
	require.NoError(t, err)
	require.NotEmpty(t, names)
	for _, name := range names {
		want, err := os.ReadFile(name)
		require.NoError(t, err)
		got, err := os.ReadFile(filepath.Join(dashboardDir, filepath.Base(name)))
		require.NoError(t, err)
		require.Equal(t, string(want), string(got), "%s is not current: make dashboards", filepath.Base(name))
	}
}
