package conformance

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"strings"

	"github.com/lateen-mesh/lateen/test/cluster/kubelet"
)

// Commands of the test binary: what stands in for the images of Istio's samples.
const (
	answerCommand = "answer" // answer PORT NAME [OTHERS]: HTTP
	echoCommand   = "echo"   // echo PORTS PREFIX: lines of TCP
)

// samplePrograms are what the images of Istio's samples run: servers of HTTP at their ports that
// answer with their names, and the TCP server. The page of bookinfo calls the other services.
func samplePrograms(self string) map[string]kubelet.Program {
	const istio, book = "registry.istio.io/release/", "registry.istio.io/release/examples-bookinfo-"
	answers := func(port, name string, others ...string) kubelet.Program {
		return kubelet.Program{Args: append([]string{self, answerCommand, port, name}, others...)}
	}
	return map[string]kubelet.Program{
		"docker.io/mccutchen/go-httpbin": answers("8080", "httpbin"),
		istio + "examples-helloworld-v1": answers("5000", "helloworld-v1"),
		istio + "examples-helloworld-v2": answers("5000", "helloworld-v2"),
		istio + "tcp-echo-server":        {Args: []string{self, echoCommand}},
		book + "details-v1":              answers("9080", "details"),
		book + "ratings-v1":              answers("9080", "ratings"),
		book + "reviews-v1":              answers("9080", "reviews-v1"),
		book + "reviews-v2":              answers("9080", "reviews-v2"),
		book + "reviews-v3":              answers("9080", "reviews-v3"),
		book + "productpage-v1":          answers("9080", "productpage", "details", "ratings", "reviews"),
	}
}

// answer serves HTTP: its name, and what the other services at the same port answer.
func answer(args []string) error {
	port, name, others := args[0], args[1], args[2:]
	return http.ListenAndServe(":"+port, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		all := []string{name}
		for _, other := range others {
			text, err := get(other + ":" + port + "/")
			if err != nil {
				http.Error(w, other+": "+err.Error(), http.StatusBadGateway)
				return
			}
			all = append(all, text)
		}
		_, _ = fmt.Fprint(w, strings.Join(all, " "))
	}))
}

// echo sends each line back behind a prefix.
func echo(args []string) error {
	ports, prefix := strings.Split(args[0], ","), args[1]
	failed := make(chan error, len(ports))
	for _, port := range ports {
		listener, err := net.Listen("tcp", ":"+port)
		if err != nil {
			return err
		}
		go func() {
			for {
				connection, err := listener.Accept()
				if err != nil {
					failed <- err
					return
				}
				go func() {
					defer func() { _ = connection.Close() }()
					for lines := bufio.NewScanner(connection); lines.Scan(); {
						if _, err := fmt.Fprintln(connection, prefix, lines.Text()); err != nil {
							return
						}
					}
				}()
			}
		}()
	}
	return <-failed
}
