package local

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"net/http/httputil"
	"net/netip"
	"net/url"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/lateen-mesh/lateen/internal/local/sample"
	"github.com/lateen-mesh/lateen/internal/source"
	"github.com/lateen-mesh/lateen/internal/source/memory"
	"github.com/lateen-mesh/lateen/internal/testkit/leak"
)

// TestMain plays the programs that the runtime starts: the lateen binary with its sample server,
// and an Envoy.
func TestMain(m *testing.M) {
	if len(os.Args) > 2 {
		switch os.Args[1] {
		case "sample":
			exit(playSample(os.Args[2:]))
		case "doomed":
			exit(playDoomed(os.Args[2]))
		case "--config-path":
			exit(playEnvoy(os.Args[2]))
		}
	}
	leak.Main(m)
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

func playSample(args []string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	var o sample.Options
	fs := flag.NewFlagSet("sample", flag.ContinueOnError)
	o.Bind(fs, os.Getenv)
	if err := fs.Parse(args); err != nil {
		return err
	}
	return sample.Run(ctx, o, nil)
}

// playDoomed is a lateen that will be killed: it runs a pod that writes its process id to a file.
func playDoomed(dir string) error {
	script := "echo $$$$ >" + filepath.Join(dir, "pid") + "; exec sleep 1000"
	r, err := New(memory.New(bare("orphan", script)), Options{
		Envoy:    "/bin/false",
		Self:     "/bin/false",
		StateDir: filepath.Join(dir, "state"),
		WorkDir:  dir,
		Environ:  os.Environ(),
		XDS:      netip.MustParseAddrPort("127.0.0.1:15010"),
	})
	if err != nil {
		return err
	}
	return r.Run(context.Background(), func(source.Event) {})
}

// playEnvoy forwards the pod's port (label "port") from the pod's address to the app's, and answers
// on its admin interface. It listens for the app's own calls too, and answers none of them. It cuts
// what is in flight on SIGTERM, as Envoy does. With a file holdFile beside its bootstrap it opens
// the pod's port only when that has gone.
func playEnvoy(file string) error {
	content, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var b struct {
		Node struct {
			Metadata struct {
				IP     string            `json:"INSTANCE_IPS"`
				Labels map[string]string `json:"LABELS"`
			}
		}
	}
	if err := json.Unmarshal(content, &b); err != nil {
		return err
	}
	pod := netip.MustParseAddr(b.Node.Metadata.IP).As4()
	at := func(second byte, port string) string {
		return netip.AddrFrom4([4]byte{127, second, pod[2], pod[3]}).String() + ":" + port
	}
	ended := make(chan error, 3)
	if port := b.Node.Metadata.Labels["port"]; port != "" {
		proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: at(appRange, port)})
		go func() {
			awaitNoFile(filepath.Join(filepath.Dir(file), holdFile))
			ended <- http.ListenAndServe(at(podRange, port), proxy)
		}()
	}
	admin := http.NewServeMux()
	admin.HandleFunc("/ready", func(http.ResponseWriter, *http.Request) {})
	admin.HandleFunc("/healthcheck/fail", func(http.ResponseWriter, *http.Request) {})
	admin.HandleFunc("/stats", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprintln(w, "http.inbound.downstream_rq_active: 0")
	})
	go func() { ended <- http.ListenAndServe(at(outboundRange, fmt.Sprint(AdminPort)), admin) }()
	go func() {
		ended <- http.ListenAndServe(at(outboundRange, fmt.Sprint(HTTPProxyPort)), http.NotFoundHandler())
	}()
	return <-ended
}

// holdFile keeps an Envoy that starts from listening at its pod's port.
const holdFile = "hold"

func awaitNoFile(path string) {
	again := time.NewTicker(10 * time.Millisecond)
	defer again.Stop()
	for {
		if _, err := os.Stat(path); err != nil {
			return
		}
		<-again.C
	}
}
