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
	"time"

	"github.com/lateen-mesh/lateen/internal/local"
	"github.com/lateen-mesh/lateen/internal/local/link"
	"github.com/lateen-mesh/lateen/internal/perf/measure"
	"github.com/lateen-mesh/lateen/internal/perf/port"
	"github.com/lateen-mesh/lateen/internal/source"
)

// LinkDescriptor is the file descriptor of the child's end of the link.
const LinkDescriptor = 3

// ChildStatus is a message of the child over the link: first its addresses, then that it accepts
// proxies.
type ChildStatus struct {
	XDS        string `json:"xds"`
	Monitoring string `json:"monitoring"`
	Profiles   string `json:"profiles"`
	Open       bool   `json:"open"`
}

// InMemory is a child process that runs the pipeline. Apply and Usage are safe for concurrent use;
// other methods are called one at a time.
type InMemory struct {
	// Environment is the child's environment in the form of os.Environ. By default it is this
	// process's. It is set before Start.
	Environment []string
	// Started is told the PID of each child that has begun; its error ends the start. It may be
	// nil, and is set before Start.
	Started func(pid int) error

	argv     []string
	relay    *link.Relay
	statuses chan ChildStatus
	// xds and monitoring are the ports of each child, so that proxies find the next one at the same
	// address.
	xds, monitoring *port.Reservation
	*children

	mu sync.Mutex
	at ChildStatus
}

// NewInMemory returns a control plane that is started with argv and its addresses as flags.
func NewInMemory(argv []string, log *slog.Logger) *InMemory {
	m := &InMemory{argv: argv, statuses: make(chan ChildStatus, 2), children: newChildren()}
	m.relay = link.NewRelay(local.NewTokens(), m.receiveStatus, log)
	return m
}

// receiveStatus takes the two messages of each child. Nobody waits for further ones.
func (m *InMemory) receiveStatus(message json.RawMessage) {
	var n ChildStatus
	if err := json.Unmarshal(message, &n); err == nil {
		select {
		case m.statuses <- n:
		default:
		}
	}
}

// Start implements Plane.
func (m *InMemory) Start(ctx context.Context, mesh []source.Change) (err error) {
	if m.xds, err = port.Reserve(); err != nil {
		return err
	}
	if m.monitoring, err = port.Reserve(); err != nil {
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
	defer func() { _ = end.Close() }() // the child has its own descriptor
	cmd := exec.Command(
		m.argv[0], append(m.argv[1:], "--xds-address", m.xds.Address, "--monitoring-address", m.monitoring.Address)...,
	)
	cmd.Env, cmd.ExtraFiles = m.Environment, []*os.File{end}
	if err := m.start(cmd); err != nil || m.Started == nil {
		return err
	}
	return m.Started(cmd.Process.Pid)
}

// await waits for the child's next status. With open it waits for the one that says that it accepts
// proxies.
func (m *InMemory) await(ctx context.Context, open bool) error {
	for {
		select {
		case n := <-m.statuses:
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

// Apply implements Plane. It returns when the changes are in the child's socket or queued for it.
// The queue sends all waiting changes at once.
func (m *InMemory) Apply(_ context.Context, changes ...source.Change) error {
	m.relay.Deliver(source.Event{Changes: changes})
	return m.Err()
}

// Address implements Plane.
func (m *InMemory) Address() string { return m.where().XDS }

func (m *InMemory) where() ChildStatus {
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

// Metrics returns what the present process serves at /metrics.
func (m *InMemory) Metrics(ctx context.Context) (measure.Metrics, error) {
	return m.scrape().Metrics(ctx)
}

// patience is how long metrics may take: a child may have a hundredth of a CPU.
const patience = 5 * time.Minute

func (m *InMemory) scrape() measure.Scrape {
	return measure.Scrape{URL: "http://" + m.where().Monitoring + "/metrics", Timeout: patience}
}

// Usage implements Plane.
func (m *InMemory) Usage(ctx context.Context) (measure.Usage, error) {
	scrape := m.scrape()
	return m.usage(ctx, &scrape)
}

// Restart implements Plane.
func (m *InMemory) Restart(ctx context.Context) error {
	scrape := m.scrape()
	if err := m.endForRestart(ctx, &scrape); err != nil {
		return err
	}
	for len(m.statuses) > 0 {
		<-m.statuses
	}
	if err := m.begin(); err != nil {
		return err
	}
	return m.await(ctx, false)
}

// Warm implements Plane. It is not needed: what one proxy was sent is cached for all.
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
