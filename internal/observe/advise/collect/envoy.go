package collect

import (
	"bufio"
	"io"
	"strconv"
	"strings"

	"github.com/lateen-mesh/lateen/internal/api/model"
)

// mostLine bounds a line of Envoy's /clusters, in bytes.
const mostLine = 1 << 20

// CalledHosts reads the page /clusters of an Envoy's admin port and returns the hosts that it has
// sent requests or connections to, by Istio's names of clusters. The page counts from the start of
// the Envoy, whatever statistics it keeps.
//
//	outbound|9080||reviews.default.svc.cluster.local::10.0.0.7:9080::rq_total::12
func CalledHosts(page io.Reader) (map[model.Host]float64, error) {
	called := map[model.Host]float64{}
	lines := bufio.NewScanner(page)
	lines.Buffer(nil, mostLine)
	for lines.Scan() {
		parts := strings.Split(lines.Text(), "::")
		if len(parts) < 4 {
			continue
		}
		// HTTP clusters count requests, others connections alone; a connection without a request is
		// a call too.
		counter := parts[len(parts)-2]
		if counter != "rq_total" && counter != "cx_total" {
			continue
		}
		n, err := strconv.ParseFloat(parts[len(parts)-1], 64)
		host, ok := hostOf(parts[0])
		if err == nil && ok && n > 0 {
			called[host] += n
		}
	}
	return called, lines.Err()
}

// hostOf returns the host in the name of an outbound cluster.
func hostOf(cluster string) (model.Host, bool) {
	parts := strings.Split(cluster, "|")
	if len(parts) != 4 || parts[0] != "outbound" || parts[3] == "" {
		return "", false
	}
	return model.Host(parts[3]), true
}
