package controlplane

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"sync"

	"github.com/lateen-mesh/lateen/internal/local"
	"github.com/lateen-mesh/lateen/internal/local/link"
	"github.com/lateen-mesh/lateen/internal/perf/measure"
	"github.com/lateen-mesh/lateen/internal/perf/port"
	"github.com/lateen-mesh/lateen/internal/source"
)

// LinkDescriptor is by which the child inherits its end of the link.
const LinkDescriptor = 3

// News is what the child tells over the link: first where it listens, then that it takes proxies.
type News struct {
	XDS        string `json:"xds"`
	Monitoring string `json:"monitoring"`
	Profiles   string `json:"profiles"`
	Open       bool   `json:"open"`
}

// InMemory is a child process that runs the pipeline. Its methods but Apply and Usage are called one at a time.
type InMemory struct {
	// Environment is the child's, as os.Environ has it; nil stands for this process's. It is set before Start.
	Environment []string

	argv  []string
	relay *link.Relay
	news  chan News
	// xds and monitoring are where each child listens, so that proxies find the next one where the last one was.
	xds, monitoring *port.Held
	*children

	mu sync.Mutex
	at News
}

// NewInMemory returns a control plane that is started as argv, with its addresses added.
func NewInMemory(argv []string, log *slog.Logger) *InMemory {
	m := &InMemory{argv: argv, news: make(chan News, 2), children: newChildren()}
	m.relay = link.NewRelay(local.NewTokens(), m.hear, log)
	return m
}

// hear is told twice by each child; nobody waits for what does not fit.
func (m *InMemory) hear(message json.RawMessage) {
	var n News
	if err := json.Unmarshal(message, &n); err == nil {
		select {
		case m.news <- n:
		default:
		}
	}
}

// Start implements Plane.
func (m *InMemory) Start(ctx context.Context, mesh []source.Change) (err error) {
	if m.xds, err = port.Hold(); err != nil {
		return err
	}
	if m.monitoring, err = port.Hold(); err != nil {
		return err
	}
	m.relay.Deliver(source.Event{Changes: mesh, Synced: true})
	if err := m.begin(); err != nil {
		return err
	}
	return m.await(ctx, true)
}

func (m *InMemory) begin() error {
	end, err := m.relay.Connect()
	if err != nil {
		return err
	}
	defer func() { _ = end.Close() }() // the child has its own
	cmd := exec.Command(m.argv[0], append(m.argv[1:], "--xds-address", m.xds.Address, "--monitoring-address", m.monitoring.Address)...)
	cmd.Env, cmd.ExtraFiles = m.Environment, []*os.File{end}
	return m.start(cmd)
}

// await waits for the child's next news; open, for those that it takes proxies.
func (m *InMemory) await(ctx context.Context, open bool) error {
	for {
		select {
		case n := <-m.news:
			m.mu.Lock()
			m.at = n
			m.mu.Unlock()
			if n.Open || !open {
				return nil
			}
		case <-m.Done():
			return m.Err()
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Apply implements Plane. Changes are written when they are in the child's socket or wait to be; it takes all that wait at once.
func (m *InMemory) Apply(_ context.Context, changes ...source.Change) error {
	m.relay.Deliver(source.Event{Changes: changes})
	return m.Err()
}

// Address implements Plane.
func (m *InMemory) Address() string { return m.where().XDS }

func (m *InMemory) where() News {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.at
}

// Describe implements Plane.
func (m *InMemory) Describe(ctx context.Context) Description {
	d := Description{Name: "lateen", Source: "in memory"}
	if metrics, err := m.scrape().Metrics(ctx); err == nil {
		d.Version = metrics.Label("pilot_info", "version")
	}
	return d
}

func (m *InMemory) scrape() measure.Scrape {
	return measure.Scrape{URL: "http://" + m.where().Monitoring + "/metrics"}
}

// Usage implements Plane.
func (m *InMemory) Usage(ctx context.Context) (measure.Usage, error) {
	scrape := m.scrape()
	return m.usage(ctx, &scrape)
}

// Restart implements Plane.
func (m *InMemory) Restart(ctx context.Context) error {
	scrape := m.scrape()
	if err := m.endAndKeep(ctx, &scrape); err != nil {
		return err
	}
	for len(m.news) > 0 {
		<-m.news
	}
	if err := m.begin(); err != nil {
		return err
	}
	return m.await(ctx, false)
}

// Warm implements Plane: what one proxy was sent is at hand for all.
func (m *InMemory) Warm(context.Context) (bool, error) { return false, nil }

// Profile implements Plane.
func (m *InMemory) Profile(ctx context.Context) (stop func() ([]byte, error), err error) {
	url := "http://" + m.where().Profiles + ProfilePath
	if _, err := ask(ctx, http.MethodPost, url); err != nil {
		return nil, err
	}
	return func() ([]byte, error) { return ask(ctx, http.MethodGet, url) }, nil
}

// Collect implements Plane.
func (m *InMemory) Collect(ctx context.Context) error {
	_, err := ask(ctx, http.MethodPost, "http://"+m.where().Profiles+CollectPath)
	return err
}

func ask(ctx context.Context, method, url string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, method, url, nil)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s: %s", url, response.Status, bytes.TrimSpace(body))
	}
	return body, err
}

// Close implements Plane.
func (m *InMemory) Close(ctx context.Context) error {
	err := m.end(ctx)
	m.relay.Close()
	m.xds.Release()
	m.monitoring.Release()
	http.DefaultClient.CloseIdleConnections()
	return errors.Join(err, m.Err())
}
