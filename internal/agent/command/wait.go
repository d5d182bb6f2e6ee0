package command

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/pflag"
)

// wait returns when the proxy is ready. A container's postStart runs it, so that the application
// starts after the proxy.
func wait(ctx context.Context, args []string) error {
	f := pflag.NewFlagSet("wait", pflag.ContinueOnError)
	f.SetOutput(io.Discard)
	patience := f.Int("timeoutSeconds", 60, "")
	timeout := f.Int("requestTimeoutMillis", 500, "")
	period := f.Int("periodMillis", 500, "")
	url := f.String("url", "http://localhost:15021/healthz/ready", "")
	if err := f.Parse(args); err != nil {
		return fmt.Errorf("%w: wait: %w", errUsage, err)
	}
	if *patience <= 0 || *timeout <= 0 || *period <= 0 {
		return fmt.Errorf("%w: wait: times have to be above 0", errUsage)
	}
	ctx, cancel := context.WithTimeout(ctx, time.Duration(*patience)*time.Second)
	defer cancel()
	client := &http.Client{Timeout: time.Duration(*timeout) * time.Millisecond}
	tick := time.NewTicker(time.Duration(*period) * time.Millisecond)
	defer tick.Stop()
	var last error
	for {
		err := isReady(ctx, client, *url)
		if err == nil {
			return nil
		}
		if ctx.Err() == nil || last == nil { // not that the time is up
			last = err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the proxy is not ready after %d s: %w", *patience, last)
		case <-tick.C:
		}
	}
}

func isReady(ctx context.Context, client *http.Client, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", url, response.Status)
	}
	return nil
}

// requestTimeout bounds a request; a dump of a large configuration takes some seconds.
const requestTimeout = time.Minute

// request asks Envoy's admin interface, or another port of this machine, and writes the answer out.
// It adds nothing: tools read it.
func request(ctx context.Context, args []string, out io.Writer) error {
	f := pflag.NewFlagSet("request", pflag.ContinueOnError)
	f.SetOutput(io.Discard)
	port := f.Uint16("debug-port", 15000, "")
	if err := f.Parse(args); err != nil {
		return fmt.Errorf("%w: request: %w", errUsage, err)
	}
	if f.NArg() < 2 || f.NArg() > 3 {
		return fmt.Errorf("%w: request: want METHOD PATH [BODY]", errUsage)
	}
	return ask(ctx, fmt.Sprintf("http://localhost:%d/%s", *port, strings.TrimPrefix(f.Arg(1), "/")),
		f.Arg(0), f.Arg(2), out)
}

func ask(ctx context.Context, url, method, body string, out io.Writer) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, strings.ToUpper(method), url, strings.NewReader(body))
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	if _, err := io.Copy(out, response.Body); err != nil {
		return err
	}
	if response.StatusCode < 200 || response.StatusCode > 299 {
		return fmt.Errorf("%s %s: %s", method, url, response.Status)
	}
	return nil
}
