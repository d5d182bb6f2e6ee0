package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/spdy"
)

// kubelet does what istioctl asks of one through the API server: it forwards ports of Pods, and
// runs programs in their containers. A Pod's port is an address of this machine.
type kubelet struct {
	// ports are addresses by "namespace/pod:port", and programs what runs a container's program, by
	// "namespace/pod".
	ports, programs pairs
}

// pairs are flags of the form key=value.
type pairs map[string]string

func (p pairs) String() string { return fmt.Sprint(map[string]string(p)) }

func (p pairs) Set(text string) error {
	key, value, ok := strings.Cut(text, "=")
	if !ok {
		return errors.New("want key=value")
	}
	p[key] = value
	return nil
}

// runKubelet serves until standard input ends, and prints its address first.
func runKubelet(args []string) error {
	k := kubelet{ports: pairs{}, programs: pairs{}}
	flags := flag.NewFlagSet("kubelet", flag.ContinueOnError)
	flags.Var(k.ports, "port", "namespace/pod:port=address; may be repeated")
	flags.Var(k.programs, "program", "namespace/pod=what stands in front of the arguments of a command run in it")
	if err := flags.Parse(args); err != nil {
		return err
	}
	certificate, err := selfSigned()
	if err != nil {
		return err
	}
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{certificate}})
	if err != nil {
		return err
	}
	fmt.Println(l.Addr())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	mux := http.NewServeMux()
	mux.HandleFunc("/portForward/{namespace}/{pod}", k.forward)
	mux.HandleFunc("/exec/{namespace}/{pod}/{container}", k.exec)
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	return server.Serve(l)
}

func selfSigned() (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(24 * time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, err
}

// upgrade turns a request into streams, which are told apart by their headers.
func upgrade(
	w http.ResponseWriter, r *http.Request, protocols ...string,
) (<-chan httpstream.Stream, httpstream.Connection) {
	if _, err := httpstream.Handshake(r, w, protocols); err != nil {
		return nil, nil
	}
	streams := make(chan httpstream.Stream, 16)
	connection := spdy.NewResponseUpgrader().UpgradeResponse(w, r, func(s httpstream.Stream, _ <-chan struct{}) error {
		streams <- s
		return nil
	})
	return streams, connection
}

// forward answers a port-forward: of each connection of the client there are two streams.
func (k kubelet) forward(w http.ResponseWriter, r *http.Request) {
	pod := r.PathValue("namespace") + "/" + r.PathValue("pod")
	streams, connection := upgrade(w, r, "portforward.k8s.io")
	if connection == nil {
		return
	}
	defer func() { _ = connection.Close() }()
	failed := map[string]httpstream.Stream{}
	data := map[string]httpstream.Stream{}
	for {
		select {
		case <-connection.CloseChan():
			return
		case s := <-streams:
			id := s.Headers().Get(corev1.PortForwardRequestIDHeader)
			if s.Headers().Get(corev1.StreamType) == corev1.StreamTypeError {
				failed[id] = s
			} else {
				data[id] = s
			}
			if failed[id] != nil && data[id] != nil {
				go k.connect(pod+":"+s.Headers().Get(corev1.PortHeader), data[id], failed[id])
				delete(failed, id)
				delete(data, id)
			}
		}
	}
}

func (k kubelet) connect(port string, data, failed httpstream.Stream) {
	defer func() {
		_ = data.Close()
		_ = failed.Close()
	}()
	conn, err := net.Dial("tcp", k.ports[port])
	if err != nil {
		_, _ = fmt.Fprintf(failed, "%s: %v", port, err)
		return
	}
	defer func() { _ = conn.Close() }()
	var there sync.WaitGroup
	there.Go(func() {
		_, _ = io.Copy(conn, data)
		if half, ok := conn.(*net.TCPConn); ok {
			_ = half.CloseWrite()
		}
	})
	_, _ = io.Copy(data, conn)
	_ = data.Close()
	there.Wait()
}

// exec runs a command: standard output and errors go back, and how it ended.
func (k kubelet) exec(w http.ResponseWriter, r *http.Request) {
	program, ok := k.programs[r.PathValue("namespace")+"/"+r.PathValue("pod")]
	if !ok {
		http.Error(w, "the Pod has no program", http.StatusNotFound)
		return
	}
	wanted := 1 // the stream of errors
	for _, q := range []string{"input", "output", "error"} {
		if r.URL.Query().Get(q) == "1" || r.URL.Query().Get(q) == "true" {
			wanted++
		}
	}
	streams, connection := upgrade(w, r, "v4.channel.k8s.io")
	if connection == nil {
		return
	}
	defer func() { _ = connection.Close() }()
	byType := map[string]httpstream.Stream{}
	for len(byType) < wanted {
		select {
		case <-connection.CloseChan():
			return
		case s := <-streams:
			byType[s.Headers().Get(corev1.StreamType)] = s
		}
	}
	line := append(strings.Fields(program), r.URL.Query()["command"]...)
	command := exec.Command(line[0], line[1:]...)
	if out := byType[corev1.StreamTypeStdout]; out != nil {
		command.Stdout = out
	}
	if out := byType[corev1.StreamTypeStderr]; out != nil {
		command.Stderr = out
	}
	result := `{"metadata":{},"status":"Success"}`
	if err := command.Run(); err != nil {
		result = fmt.Sprintf(`{"metadata":{},"status":"Failure","message":%q}`, err)
	}
	_, _ = io.WriteString(byType[corev1.StreamTypeError], result)
	for _, s := range byType {
		_ = s.Close()
	}
}
