package sample

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"
)

const (
	callTimeout = 10 * time.Second
	maxBody     = 1 << 20
)

// forwarded are the headers that an application must pass on, so that traces are complete and
// routes see the user.
var forwarded = []string{
	"x-request-id", "traceparent", "tracestate", "baggage", "b3", "x-b3-traceid", "x-b3-spanid", "x-b3-parentspanid",
	"x-b3-sampled", "x-b3-flags", "x-ot-span-context", "sw8", "sw8-correlation",
	"x-datadog-trace-id", "x-datadog-parent-id", "x-datadog-sampling-priority", "x-datadog-origin", "x-datadog-tags",
	"end-user", "user-agent", "authorization",
}

// client calls other services by name, through the proxy if there is one.
type client struct {
	http *http.Client
}

func newClient(proxy string) *client {
	transport := &http.Transport{MaxIdleConnsPerHost: 16, IdleConnTimeout: 30 * time.Second}
	if u, err := url.Parse(proxy); err == nil && proxy != "" {
		transport.Proxy = http.ProxyURL(u)
	}
	return &client{http: &http.Client{Transport: transport, Timeout: callTimeout}}
}

// get calls a URL on behalf of a request. A status of 400 or above is no error.
func (c *client) get(on *http.Request, target string) (status int, body []byte, err error) {
	req, err := http.NewRequestWithContext(on.Context(), http.MethodGet, target, nil)
	if err != nil {
		return 0, nil, err
	}
	for _, name := range forwarded {
		if v := on.Header.Get(name); v != "" {
			req.Header.Set(name, v)
		}
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err = io.ReadAll(io.LimitReader(resp.Body, maxBody))
	return resp.StatusCode, body, err
}

// getJSON reads a JSON document. Any status but 200 is an error.
func (c *client) getJSON(on *http.Request, target string, v any) error {
	status, body, err := c.get(on, target)
	if err != nil {
		return err
	}
	if status != http.StatusOK {
		return fmt.Errorf("%s answered %d: %.200s", target, status, body)
	}
	if err := json.Unmarshal(body, v); err != nil {
		return fmt.Errorf("%s answered no JSON: %w", target, err)
	}
	return nil
}

func (c *client) result(on *http.Request, target string) Result {
	status, body, err := c.get(on, target)
	r := Result{URL: target, Status: status}
	switch {
	case err != nil:
		r.Error = err.Error()
	case json.Valid(body):
		r.Body = body
	default:
		r.Body, _ = json.Marshal(string(body)) // a string always encodes
	}
	return r
}
