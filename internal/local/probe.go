package local

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os/exec"
	"strconv"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// eager is how often a process that has not been ready yet is asked, whatever its probe's period:
// on a laptop, people wait for it.
const eager = 100 * time.Millisecond

// check asks a process once whether it is well.
type check func(ctx context.Context) error

// probe is a check and its timing.
type probe struct {
	check            check // nil: well as soon as it runs
	once             bool  // not asked again after the first success
	wellAtFirst      bool  // counts as well before the first answer
	delay            time.Duration
	period, timeout  time.Duration
	success, failure int // how many in a row change the mind
}

// probed is what probes need to know of the process that they ask.
type probed struct {
	app netip.Addr
	env []string
	dir string
}

// readinessOf is the container's readiness probe; without one it is ready when its first port
// accepts connections.
func readinessOf(c *corev1.Container, of probed) (probe, []fault) {
	if c.ReadinessProbe == nil {
		p := probe{once: true, period: eager, timeout: time.Second, success: 1, failure: 1}
		if ports := containerPorts(&corev1.PodSpec{Containers: []corev1.Container{*c}}); len(ports) > 0 {
			p.check = dials(ports[0], of.app)
		}
		return p, nil
	}
	return probeOf(c, c.ReadinessProbe, of, "readinessProbe")
}

func livenessOf(c *corev1.Container, of probed) (*probe, []fault) {
	if c.LivenessProbe == nil {
		return nil, nil
	}
	p, faults := probeOf(c, c.LivenessProbe, of, "livenessProbe")
	p.wellAtFirst = true
	return &p, faults
}

func probeOf(c *corev1.Container, p *corev1.Probe, of probed, path string) (probe, []fault) {
	seconds := func(n int32, orElse int) time.Duration {
		if n <= 0 {
			return time.Duration(orElse) * time.Second
		}
		return time.Duration(n) * time.Second
	}
	times := func(n int32, orElse int) int {
		if n <= 0 {
			return orElse
		}
		return int(n)
	}
	out := probe{
		delay:   seconds(p.InitialDelaySeconds, 0),
		period:  seconds(p.PeriodSeconds, 10),
		timeout: seconds(p.TimeoutSeconds, 1),
		success: times(p.SuccessThreshold, 1),
		failure: times(p.FailureThreshold, 3),
	}
	check, f := checkOf(c, p, of)
	if f != nil {
		f.path = path + "." + f.path
		return probe{}, []fault{*f}
	}
	out.check = check
	return out, nil
}

func checkOf(c *corev1.Container, p *corev1.Probe, of probed) (check, *fault) {
	switch {
	case p.HTTPGet != nil:
		port, ok := portOf(c, p.HTTPGet.Port)
		if !ok {
			return nil, unknownPort("httpGet.port", p.HTTPGet.Port)
		}
		return gets(p.HTTPGet, netip.AddrPortFrom(of.app, uint16(port))), nil
	case p.TCPSocket != nil:
		port, ok := portOf(c, p.TCPSocket.Port)
		if !ok {
			return nil, unknownPort("tcpSocket.port", p.TCPSocket.Port)
		}
		return dials(port, of.app), nil
	case p.Exec != nil && len(p.Exec.Command) > 0:
		return executes(p.Exec.Command, of), nil
	}
	return nil, &fault{message: "there is nothing to ask", want: "httpGet, tcpSocket or exec"}
}

// portOf resolves a port by number, or by a name that the container gives.
func portOf(c *corev1.Container, p intstr.IntOrString) (int32, bool) {
	if p.Type == intstr.Int {
		return p.IntVal, p.IntVal > 0 && p.IntVal < 1<<16
	}
	for _, cp := range c.Ports {
		if cp.Name == p.StrVal {
			return cp.ContainerPort, true
		}
	}
	return 0, false
}

func unknownPort(path string, p intstr.IntOrString) *fault {
	return &fault{path: path, value: p.String(), message: "the container has no such port",
		want: "a number from 1 to 65535, or the name of one of the container's ports"}
}

func dials(port int32, at netip.Addr) check {
	address := net.JoinHostPort(at.String(), strconv.Itoa(int(port)))
	return func(ctx context.Context) error {
		var d net.Dialer
		conn, err := d.DialContext(ctx, "tcp", address)
		if err != nil {
			return err
		}
		return conn.Close()
	}
}

// keepsToItself fails a process that listens on all addresses: its Envoy could not have the port,
// and calls from others would reach the process past its Envoy.
func keepsToItself(well check, addrs addresses, ports []int32) check {
	return func(ctx context.Context) error {
		if err := well(ctx); err != nil {
			return err
		}
		for _, port := range ports {
			if dials(port, addrs.nobody())(ctx) == nil {
				return fmt.Errorf("port %d is open on all addresses: the process must listen at %s alone "+
					"(LATEEN_APP_ADDRESS), since its Envoy listens at the same port of %s", port, addrs.App, addrs.Pod)
			}
		}
		return nil
	}
}

// probeClient follows no proxy and keeps no connection: each probe is a fresh look.
var probeClient = &http.Client{
	Transport: &http.Transport{DisableKeepAlives: true},
	CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse
	},
}

func gets(h *corev1.HTTPGetAction, at netip.AddrPort) check {
	path := h.Path
	if path == "" || path[0] != '/' {
		path = "/" + path
	}
	url := "http://" + at.String() + path
	return func(ctx context.Context) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		for _, header := range h.HTTPHeaders {
			if http.CanonicalHeaderKey(header.Name) == "Host" {
				req.Host = header.Value
				continue
			}
			req.Header.Add(header.Name, header.Value)
		}
		resp, err := probeClient.Do(req)
		if err != nil {
			return err
		}
		_ = resp.Body.Close()
		if resp.StatusCode < 200 || resp.StatusCode >= 400 {
			return fmt.Errorf("%s answered %d", url, resp.StatusCode)
		}
		return nil
	}
}

func executes(command []string, of probed) check {
	return func(ctx context.Context) error {
		cmd := exec.CommandContext(ctx, command[0], command[1:]...)
		cmd.Env, cmd.Dir = of.env, of.dir
		cmd.SysProcAttr = ownGroup()
		cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
		cmd.WaitDelay = time.Second
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("%s: %w", command[0], err)
		}
		return nil
	}
}

// watch asks until the context ends and tells each change of mind, and why the process is not well
// yet.
func (p probe) watch(ctx context.Context, tell func(well bool, why string)) {
	if p.check == nil {
		tell(true, "")
		return
	}
	if !sleep(ctx, p.delay) {
		return
	}
	j := judge{well: p.wellAtFirst}
	var lastWhy string
	for {
		err := p.ask(ctx)
		if ctx.Err() != nil {
			return
		}
		changed := j.hear(err == nil, p)
		why := ""
		if err != nil {
			why = err.Error()
		}
		if changed || (!j.well && !p.wellAtFirst && why != lastWhy) {
			tell(j.well, why)
		}
		lastWhy = why
		if j.well && p.once {
			return
		}
		pause := p.period
		if !j.well && !p.wellAtFirst {
			pause = min(pause, eager)
		}
		if !sleep(ctx, pause) {
			return
		}
	}
}

func (p probe) ask(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	err := p.check(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("no answer within %v", p.timeout)
	}
	return err
}

// judge turns single answers into a state, by the probe's thresholds.
type judge struct {
	well  bool
	inRow int // answers in a row that speak against the present state
}

// hear reports whether the answer changed the state.
func (j *judge) hear(good bool, p probe) (changed bool) {
	if good == j.well {
		j.inRow = 0
		return false
	}
	j.inRow++
	need := p.success
	if j.well {
		need = p.failure
	}
	if j.inRow < need {
		return false
	}
	j.well, j.inRow = good, 0
	return true
}

// sleep waits; it is false when the context ended first.
func sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
