package wire

import (
	"bufio"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"runtime/pprof"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/lateen-mesh/lateen/internal/testkit/certs"
	"github.com/lateen-mesh/lateen/internal/xds/serve"
)

// TestMain runs the tests, or plays the role that the arguments name: this binary as a server or as
// clients.
func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == "play" {
		if err := play(os.Args[2]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// order is what a process is told, one in a line; it answers each with a report, when it is done.
type order struct {
	// Open opens so many streams to the address.
	Open    int
	Address string
	Secure  bool
	// Await waits until so many streams are connected and have all they want.
	Await int
	// Push sends so many messages to each stream, each when all have answered the one before.
	Push int
	// Measure looks at the memory, after a collection.
	Measure bool
	// Profile writes what is measured from here on into a file, and what was before into that which
	// was named before.
	Profile string
}

// report is what a process has done.
type report struct {
	Address string
	CPU     time.Duration // of the process, for what was ordered
	Wall    time.Duration
	// Allocated and Objects were allocated for what was ordered.
	Allocated, Objects int64
	// Heap and Stacks are in use, Resident is all of the process, in bytes.
	Heap, Stacks, Resident int64
	Goroutines             int
	Streams                int
}

// subject is a server to measure.
type subject interface {
	serve(l net.Listener) error
	connected() int
	push()
}

// play is the life of a process with a role: it does what it is told, until its orders end.
func play(role string) error {
	var s subject
	first := report{}
	if role != "clients" {
		secure, pair := role[len(role)-1] == 's', os.Args[3:]
		var o []grpc.ServerOption
		var c credentials.TransportCredentials
		if secure {
			cert, err := tls.X509KeyPair([]byte(pair[0]), []byte(pair[1]))
			if err != nil {
				return err
			}
			c = credentials.NewTLS(&tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12})
			o = append(o, grpc.Creds(c))
		}
		switch role {
		case "bare", "bares":
			s = newBare(o...)
		default:
			s = newLateen(serve.Options{Credentials: c})
		}
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		first.Address = l.Addr().String()
		go func() { _ = s.serve(l) }() // until the process ends
	}
	out := json.NewEncoder(os.Stdout)
	if err := out.Encode(first); err != nil {
		return err
	}
	for in := json.NewDecoder(bufio.NewReader(os.Stdin)); ; {
		var o order
		if err := in.Decode(&o); err != nil {
			return nil //nolint:nilerr // the test is over
		}
		r, err := obey(s, o)
		if err != nil {
			return err
		}
		if err := out.Encode(r); err != nil {
			return err
		}
	}
}

func obey(s subject, o order) (report, error) {
	var before, after runtime.MemStats
	if o.Measure {
		runtime.GC()
		runtime.GC() // what finalizers and pools let go of
	}
	runtime.ReadMemStats(&before)
	cpu, start := cpuTime(), time.Now()
	if o.Profile != "" {
		if err := profile(o.Profile); err != nil {
			return report{}, err
		}
	}
	if err := openStreams(o); err != nil {
		return report{}, err
	}
	if o.Await > 0 { // to ask a server who is there takes it as long as to push to some of them
		await(s, o.Await)
	}
	for range o.Push {
		s.push()
	}
	r := report{CPU: cpuTime() - cpu, Wall: time.Since(start), Goroutines: runtime.NumGoroutine()}
	runtime.ReadMemStats(&after)
	r.Allocated, r.Objects = int64(after.TotalAlloc-before.TotalAlloc), int64(after.Mallocs-before.Mallocs)
	r.Heap, r.Stacks, r.Resident = int64(after.HeapAlloc), int64(after.StackInuse), resident()
	if s != nil {
		r.Streams = s.connected()
	}
	return r, nil
}

// await waits until so many streams are connected to a server and have all they want.
func await(s subject, streams int) {
	for look := time.NewTicker(10 * time.Millisecond); s.connected() < streams; {
		<-look.C
	}
}

func profile(file string) error {
	pprof.StopCPUProfile()
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	return pprof.StartCPUProfile(f)
}

// openStreams opens streams, some at a time; they ACK what they get until the process ends.
func openStreams(o order) error {
	slots := make(chan struct{}, 32)
	var all sync.WaitGroup
	failed := make(chan error, o.Open)
	for i := range o.Open {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			c, err := connect(o.Address, o.Secure, 0)
			if err == nil {
				err = c.subscribe(i)
			}
			if err != nil {
				failed <- err
				return
			}
			go func() { _ = c.run(nil) }()
		})
	}
	all.Wait()
	close(failed)
	return <-failed
}

func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func resident() int64 {
	var size, pages int64
	b, err := os.ReadFile("/proc/self/statm")
	if err == nil {
		_, err = fmt.Sscan(string(b), &size, &pages)
	}
	if err != nil {
		return 0
	}
	return pages * int64(os.Getpagesize())
}

// process is this binary in a role.
type process struct {
	t       testing.TB
	in      *json.Encoder
	out     *json.Decoder
	address string
	secure  bool
}

// start runs a role until the test ends: "bare", "lateen", each with an s behind it for TLS, or
// "clients".
func start(t testing.TB, role string) *process {
	t.Helper()
	p := &process{t: t, secure: role == "bares" || role == "lateens"}
	args := []string{"play", role}
	if p.secure {
		pair := certs.NewAuthority(t, "wire").Issue(t, "wire")
		args = append(args, pair.Certificate, pair.Key)
	}
	cmd := exec.Command(os.Args[0], args...)
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	require.NoError(t, err)
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = stdin.Close()
		_, _ = io.Copy(io.Discard, stdout)
		_ = cmd.Wait()
	})
	p.in, p.out = json.NewEncoder(stdin), json.NewDecoder(stdout)
	p.address = p.report().Address
	return p
}

func (p *process) report() report {
	p.t.Helper()
	var r report
	require.NoError(p.t, p.out.Decode(&r))
	return r
}

// do gives an order and waits until it is done.
func (p *process) do(o order) report {
	p.t.Helper()
	require.NoError(p.t, p.in.Encode(o))
	return p.report()
}
