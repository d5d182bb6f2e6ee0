package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	networkingclient "istio.io/client-go/pkg/clientset/versioned/typed/networking/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/lateen-mesh/lateen/internal/cluster/machines"
	"github.com/lateen-mesh/lateen/internal/xds/fanout"
	"github.com/lateen-mesh/lateen/internal/xds/serve"
)

// machineConns has the connections of machines that register themselves.
type machineConns struct {
	registry *machines.Registry // nil outside of a cluster
	end      func(*fanout.Conn, error)
	log      *slog.Logger

	mu    sync.Mutex
	conns map[*fanout.Conn]*machines.Connection
}

func newMachineConns(r *machines.Registry, log *slog.Logger) *machineConns {
	return &machineConns{
		registry: r, end: func(*fanout.Conn, error) {}, log: log, conns: map[*fanout.Conn]*machines.Connection{},
	}
}

// connected registers the machine of a node, if it wants that. The error is a gRPC status. One that
// shows later ends the stream.
func (m *machineConns) connected(conn *fanout.Conn, n *serve.Node, id serve.Identity) error {
	own, wants := n.Metadata.Registration()
	if !wants || n.Type != serve.Sidecar {
		return nil
	}
	if m.registry == nil {
		m.log.Warn("a machine is not registered: there is no API server that this control plane writes to",
			"proxy", n.Namespace+"/"+n.Pod)
		return nil
	}
	c, err := m.registry.Connect(machines.Machine{
		Namespace: id.Namespace, Account: id.ServiceAccount, Group: own.Group, Entry: own.Entry,
		Address: n.Address.Unmap(), Network: own.Network, Labels: n.Metadata.Labels, Locality: localityOf(n.Locality),
		Probes: own.Probes,
	}, func(err error) { m.end(conn, registrationError(err)) })
	if err != nil {
		return registrationError(err)
	}
	if c != nil {
		m.mu.Lock()
		m.conns[conn] = c
		m.mu.Unlock()
	}
	return nil
}

func registrationError(err error) error {
	code := codes.FailedPrecondition
	switch {
	case errors.Is(err, machines.ErrDenied):
		code = codes.PermissionDenied
	case errors.Is(err, machines.ErrTooMany):
		code = codes.ResourceExhausted
	}
	return status.Error(code, err.Error())
}

// localityOf returns a locality as a WorkloadEntry has it, without what is empty at its end.
func localityOf(l serve.Locality) string {
	return strings.TrimRight(l.Region+"/"+l.Zone+"/"+l.SubZone, "/")
}

func (m *machineConns) disconnected(conn *fanout.Conn) {
	m.mu.Lock()
	c := m.conns[conn]
	delete(m.conns, conn)
	m.mu.Unlock()
	c.Disconnect()
}

// report takes the health that an agent tells of its workload. It reports false if that goes
// nowhere.
func (m *machineConns) report(conn *fanout.Conn, h serve.Health) bool {
	m.mu.Lock()
	c := m.conns[conn]
	m.mu.Unlock()
	return c.Report(machines.Health{Healthy: h.Healthy, Message: h.Message})
}

// machineRequestsPerSecond is the limit on requests about machines, of which one that connects
// takes two: a thousand that come to another replica are there within a minute.
const machineRequestsPerSecond = 50

// newMachines returns what registers machines, or nil if nothing of that is wanted.
func (c *Cluster) newMachines() (*machines.Registry, error) {
	if !c.o.Writes || !c.o.Machines.Registers && !c.o.Machines.TakesHealth {
		return nil, nil
	}
	config := rest.CopyConfig(c.o.Config)
	config.QPS, config.Burst = machineRequestsPerSecond, 2*machineRequestsPerSecond
	api, err := networkingclient.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	o := machines.Options{
		API: api, Controller: c.o.Identity, Namespace: c.o.Names.Namespace, Registers: c.o.Machines.Registers,
		TakesHealth: c.o.Machines.TakesHealth, Grace: c.o.Machines.Grace, Metrics: c.o.Metrics.Machines, Log: c.o.Log,
		Now: c.o.Now,
	}
	if c.o.Pod != "" {
		o.Controller, o.Gone = c.o.Pod, c.isGone
	}
	return machines.New(o), nil
}

// isGone reports whether no Pod of a name runs beside this replica: it is not there, or has ended.
func (c *Cluster) isGone(ctx context.Context, pod string) (bool, error) {
	if strings.ContainsAny(pod, "=,!") { // not a name: the annotation may have been written by anybody
		return false, nil
	}
	all, err := c.core.Pods(c.o.Names.Namespace).List(ctx, metav1.ListOptions{
		FieldSelector: "metadata.name=" + pod, Limit: 1,
	})
	switch {
	case err != nil:
		return false, fmt.Errorf("is the Pod %s gone? %w", pod, err)
	case len(all.Items) == 0:
		return true, nil
	}
	phase := all.Items[0].Status.Phase
	return phase == corev1.PodFailed || phase == corev1.PodSucceeded, nil
}
