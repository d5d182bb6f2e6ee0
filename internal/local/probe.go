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

// fastPeriod is the period of probes until a process is ready for the first time, whatever its own
// period: on a laptop people wait for it.
const fastPeriod = 100 * time.Millisecond

// check asks a process once whether it is healthy.
type check func(ctx context.Context) error

// probe is a check and its timing.
type probe struct {
	check            check // nil: well as soon as it runs
	once             bool  // not asked again after the first success
	initiallyHealthy bool  // counts as well before the first answer
	delay            time.Duration
	period, timeout  time.Duration
	success, failure int // how many in a row change the mind
}

// probeTarget is what probes need to know of their process.
type probeTarget struct {
	app netip.Addr
	env []string
	dir string
}

// readinessOf returns the container's readiness probe. Without one it is ready when its first port
// accepts connections.
func readinessOf(c *corev1.Container, of probeTarget) (probe, []specProblem) {
	if c.ReadinessProbe == nil {
		p := probe{once: true, period: fastPeriod, timeout: time.Second, success: 1, failure: 1}
		if ports := containerPorts(&corev1.PodSpec{Containers: []corev1.Container{*c}}); len(ports) > 0 {
			p.check = tcpCheck(ports[0], of.app)
		}
		return p, nil
	}
	return probeOf(c, c.ReadinessProbe, of, "readinessProbe")
}

func livenessOf(c *corev1.Container, of probeTarget) (*probe, []specProblem) {
	if c.LivenessProbe == nil {
		return nil, nil
	}
	p, problems := probeOf(c, c.LivenessProbe, of, "livenessProbe")
	p.initiallyHealthy = true
	return &p, problems
}

func probeOf(c *corev1.Container, p *corev1.Probe, of probeTarget, path string) (probe, []specProblem) {
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
		return probe{}, []specProblem{*f}
	}
	out.check = check
	return out, nil
}

func checkOf(c *corev1.Container, p *corev1.Probe, of probeTarget) (check, *specProblem) {
	switch {
	case p.HTTPGet != nil:
		port, ok := portOf(c, p.HTTPGet.Port)
		if !ok {
			return nil, unknownPort("httpGet.port", p.HTTPGet.Port)
		}
		return httpCheck(p.HTTPGet, netip.AddrPortFrom(of.app, uint16(port))), nil
	case p.TCPSocket != nil:
		port, ok := portOf(c, p.TCPSocket.Port)
		if !ok {
			return nil, unknownPort("tcpSocket.port", p.TCPSocket.Port)
		}
		return tcpCheck(port, of.app), nil
	case p.Exec != nil && len(p.Exec.Command) > 0:
		return execCheck(p.Exec.Command, of), nil
	}
	return nil, &specProblem{message: "there is nothing to ask", want: "httpGet, tcpSocket or exec"}
}

// portOf resolves a port by its number or by a name that the container declares.
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

func unknownPort(path string, p intstr.IntOrString) *specProblem {
	return &specProblem{path: path, value: p.String(), message: "the container has no such port",
		want: "a number from 1 to 65535, or the name of one of the container's ports"}
}

func tcpCheck(port int32, at netip.Addr) check {
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

// onlyOnAppAddress adds to a check that the process does not listen on all addresses. Its Envoy
// could not bind the port then, and others could call the process without passing its Envoy.
func onlyOnAppAddress(well check, addrs addresses, ports []int32) check {
	return func(ctx context.Context) error {
		if err := well(ctx); err != nil {
			return err
		}
		for _, port := range ports {
			if tcpCheck(port, addrs.unused())(ctx) == nil {
				return fmt.Errorf("port %d is open on all addresses: the process must listen at %s alone "+
					"(LATEEN_APP_ADDRESS), since its Envoy listens at the same port of %s", port, addrs.App, addrs.Pod)
			}
		}
		return nil
	}
}

// probeClient follows no redirects, uses no proxy and keeps no connections.
var probeClient = &http.Client{
	Transport: &http.Transport{DisableKeepAlives: true},
	CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse
	},
}

func httpCheck(h *corev1.HTTPGetAction, at netip.AddrPort) check {
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

func execCheck(command []string, of probeTarget) check {
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

// watch probes until the context ends. It calls tell with each change of state, and with each new
// reason why the process is not ready yet.
func (p probe) watch(ctx context.Context, tell func(well bool, why string)) {
	if p.check == nil {
		tell(true, "")
		return
	}
	if !sleep(ctx, p.delay) {
		return
	}
	j := probeState{healthy: p.initiallyHealthy}
	var lastWhy string
	for {
		err := p.ask(ctx)
		if ctx.Err() != nil {
			return
		}
		changed := j.record(err == nil, p)
		why := ""
		if err != nil {
			why = err.Error()
		}
		if changed || (!j.healthy && !p.initiallyHealthy && why != lastWhy) {
			tell(j.healthy, why)
		}
		lastWhy = why
		if j.healthy && p.once {
			return
		}
		pause := p.period
		if !j.healthy && !p.initiallyHealthy {
			pause = min(pause, fastPeriod)
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

// probeState turns single answers into a state, by the probe's thresholds.
type probeState struct {
	healthy bool
	inRow   int // answers in a row that speak against the present state
}

// record reports whether the answer changed the state.
func (j *probeState) record(good bool, p probe) (changed bool) {
	if good == j.healthy {
		j.inRow = 0
		return false
	}
	j.inRow++
	need := p.success
	if j.healthy {
		need = p.failure
	}
	if j.inRow < need {
		return false
	}
	j.healthy, j.inRow = good, 0
	return true
}

// sleep waits. It returns false if the context ended first.
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
