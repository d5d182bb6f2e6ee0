package status

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"mime"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/lateen-mesh/lateen/internal/agent/meshstats"
	"github.com/lateen-mesh/lateen/internal/agent/metrics"
	"github.com/lateen-mesh/lateen/internal/agent/settings"
)

const (
	// scrapeTime is how long others have to answer when Prometheus does not say how long it waits.
	scrapeTime    = 10 * time.Second
	maxScrapeTime = time.Minute
	// Others have to begin an answer within shareOfTime of what Prometheus waits, and to end it
	// within shareOfReading: a target that hangs does not cost the metrics of all.
	shareOfTime    = 0.8
	shareOfReading = 0.95

	maxTargetBytes = 10 << 20
	maxEnvoyBytes  = 64 << 20
	maxLine        = 64 << 10

	textFormat      = "text/plain; version=0.0.4; charset=utf-8"
	openMetrics     = "application/openmetrics-text"
	acceptText      = "text/plain;version=0.0.4"
	acceptOpen      = "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,"
	timeoutHeader   = "X-Prometheus-Scrape-Timeout-Seconds"
	endOfExposition = "# EOF"
)

// scraper answers Prometheus with the metrics of the agent, of Envoy and of the application, one
// after the other. It passes lines on as they come, and keeps nothing but one of Istio's metrics at
// a time, while Envoy's are rewritten.
type scraper struct {
	envoy    string       // a URL
	admin    *http.Client // of Envoy's socket
	merges   bool         // Envoy's metrics go with the others
	self     meshstats.Self
	targets  []settings.ScrapeTarget
	registry *metrics.Registry
	log      *slog.Logger
	client   http.Client

	scrapes                   *metrics.Counter
	failedEnvoy, failedTarget *metrics.Counter
	dropped                   *metrics.Counter
}

func newScraper(o Options) *scraper {
	const help = "Scrapes of others that failed, or were cut off."
	s := &scraper{
		envoy:        "http://admin/stats/prometheus",
		admin:        &http.Client{Transport: transportTo(o.EnvoyAdmin), CheckRedirect: stay},
		merges:       o.Settings.MergeEnvoy,
		self:         o.Self,
		targets:      o.Settings.Scrape,
		registry:     o.Registry,
		log:          o.Log,
		scrapes:      o.Registry.Counter("istio_agent_scrapes_total", "Requests for merged metrics."),
		failedEnvoy:  o.Registry.Counter("istio_agent_scrape_failures_total", help, "type", "envoy"),
		failedTarget: o.Registry.Counter("istio_agent_scrape_failures_total", help, "type", "application"),
		dropped: o.Registry.Counter("lateen_agent_stats_dropped_total",
			"Lines of Envoy's statistics that did not become one of Istio's metrics."),
		// Compressed, a body of a megabyte could have a gigabyte.
		client: http.Client{
			Transport:     &http.Transport{DisableKeepAlives: true, DisableCompression: true, Proxy: nil},
			CheckRedirect: stay,
		},
	}
	return s
}

// stay follows no redirect: an application would have the agent ask what the application cannot
// reach, as the agent's connections are not intercepted.
func stay(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

func transportTo(socket string) *http.Transport {
	return &http.Transport{
		DisableKeepAlives: true, DisableCompression: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", socket)
		},
	}
}

// answer is what a target has begun to answer.
type answer struct {
	response *http.Response
	err      error
}

func (s *scraper) serve(w http.ResponseWriter, r *http.Request) {
	s.scrapes.Inc()
	begin := patience(r)
	late, cancelLate := context.WithTimeout(r.Context(), begin)
	defer cancelLate()
	read := time.Duration(float64(begin) / shareOfTime * shareOfReading)
	ctx, cancel := context.WithTimeout(r.Context(), min(read, maxScrapeTime))
	defer cancel()
	accept := acceptText
	if strings.Contains(r.Header.Get("Accept"), openMetrics) {
		accept = acceptOpen + acceptText + ";q=0.5"
	}
	var envoy chan answer
	if s.merges {
		envoy = s.askEnvoy(ctx, r)
	}
	var asked []chan answer
	for _, t := range s.targets {
		url := "http://" + net.JoinHostPort("localhost", strconv.Itoa(int(t.Port))) + t.Path
		asked = append(asked, s.ask(ctx, &s.client, url, accept, r))
	}
	var answers []answer
	for _, a := range asked {
		answers = append(answers, begun(late, a))
	}
	format := formatOf(answers)
	w.Header().Set("Content-Type", format)
	_ = s.registry.Write(w) // a client that is gone has no use for the rest either
	if envoy != nil {
		s.passEnvoy(w, begun(late, envoy))
	}
	for _, a := range answers { // the last may end in a mark
		s.pass(w, a, maxTargetBytes, s.failedTarget)
	}
	if strings.HasPrefix(format, openMetrics) {
		_, _ = io.WriteString(w, endOfExposition+"\n")
	}
}

// serveEnvoy answers with the metrics of Envoy alone.
func (s *scraper) serveEnvoy(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), patience(r))
	defer cancel()
	a := <-s.askEnvoy(ctx, r)
	if a.err != nil {
		s.failedEnvoy.Inc()
		http.Error(w, a.err.Error(), http.StatusBadGateway)
		return
	}
	w.Header().Set("Content-Type", textFormat)
	s.passEnvoy(w, a)
}

func (s *scraper) askEnvoy(ctx context.Context, r *http.Request) chan answer {
	url := s.envoy
	if r.URL.RawQuery != "" {
		url += "?" + r.URL.RawQuery
	}
	return s.ask(ctx, s.admin, url, acceptText, r)
}

// patience is how long others have.
func patience(r *http.Request) time.Duration {
	seconds, err := strconv.ParseFloat(r.Header.Get(timeoutHeader), 64)
	if err != nil || !(seconds > 0) {
		return scrapeTime
	}
	if seconds > maxScrapeTime.Seconds() {
		return maxScrapeTime
	}
	return time.Duration(seconds * shareOfTime * float64(time.Second))
}

// ask sends a request, and delivers the answer's beginning.
func (s *scraper) ask(
	ctx context.Context, client *http.Client, url, accept string, from *http.Request,
) chan answer {
	result := make(chan answer, 1)
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		result <- answer{err: err}
		return result
	}
	request.Header.Set("Accept", accept)
	for _, name := range []string{"User-Agent", timeoutHeader} {
		if v := from.Header.Get(name); v != "" {
			request.Header.Set(name, v)
		}
	}
	go func() {
		response, err := client.Do(request)
		if err == nil && response.StatusCode != http.StatusOK {
			_ = response.Body.Close()
			response, err = nil, fmt.Errorf("%s: %s", url, response.Status)
		}
		result <- answer{response, err}
	}()
	return result
}

var errLate = errors.New("the target did not answer in time")

// begun waits for the beginning of an answer. If late ends first, that is an error.
func begun(late context.Context, a <-chan answer) answer {
	select {
	case b := <-a: // also if late has ended
		return b
	default:
	}
	select {
	case b := <-a:
		return b
	case <-late.Done():
		return answer{err: errLate} // what comes yet ends with its request
	}
}

// formatOf is the format of all answers together: that of OpenMetrics if all are in the same
// version of it.
func formatOf(answers []answer) string {
	format := ""
	for _, a := range answers {
		if a.err != nil {
			continue
		}
		f := textFormat
		kind, parameters, err := mime.ParseMediaType(a.response.Header.Get("Content-Type"))
		if err == nil && kind == openMetrics {
			f = openMetrics + "; version=" + openVersion(parameters["version"]) + "; charset=utf-8"
		}
		if format != "" && format != f {
			return textFormat
		}
		format = f
	}
	if format == "" {
		return textFormat
	}
	return format
}

func openVersion(v string) string {
	if v == "1.0.0" {
		return v
	}
	return "0.0.1"
}

// passEnvoy passes Envoy's metrics on, Istio's standard metrics among them.
func (s *scraper) passEnvoy(w io.Writer, a answer) {
	istio := meshstats.NewWriter(w, s.self)
	s.pass(istio, a, maxEnvoyBytes, s.failedEnvoy)
	_ = istio.Close() // a client that is gone has no use for the rest either
	if n := istio.Dropped(); n > 0 {
		s.dropped.Add(uint64(n))
		s.log.Warn("Envoy has statistics that are none of Istio's metrics, or too many", "lines", n)
	}
}

func (s *scraper) pass(w io.Writer, a answer, limit int, failed *metrics.Counter) {
	err := a.err
	if err == nil {
		err = copyLines(w, a.response.Body, limit)
		_ = a.response.Body.Close()
	}
	if err != nil {
		failed.Inc()
		s.log.Warn("metrics are missing", "err", err)
	}
}

var errTooLarge = errors.New("the metrics are too large; the rest is left out")

// copyLines copies whole lines, since half a line is another value, and leaves out marks of the
// end. A last line without an end counts only when nothing has failed.
func copyLines(w io.Writer, from io.Reader, limit int) error {
	in := bufio.NewReaderSize(from, maxLine)
	for last := false; !last; {
		line, err := in.ReadSlice('\n')
		last = errors.Is(err, io.EOF)
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			return fmt.Errorf("a line has more than %d bytes: %w", maxLine, errTooLarge)
		case err != nil && !last:
			return err
		}
		if limit -= len(line); limit < 0 {
			return errTooLarge
		}
		text := bytes.TrimRight(line, "\r\n")
		if len(text) == 0 || string(text) == endOfExposition {
			continue
		}
		if _, err := w.Write(text); err != nil {
			return err
		}
		if _, err := io.WriteString(w, "\n"); err != nil {
			return err
		}
	}
	return nil
}
