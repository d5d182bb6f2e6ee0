package sample

import (
	"cmp"
	"flag"
	"fmt"
	"io"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// The parts that the program plays.
const (
	Echo        = "echo"
	ProductPage = "productpage"
	Details     = "details"
	Reviews     = "reviews"
	Ratings     = "ratings"
)

// Options say which part to play, and where.
type Options struct {
	// Role is one of the constants above.
	Role string
	// Version is shown in every answer ("v1"). Reviews show no stars as v1, black ones as v2 and
	// red ones from v3 on.
	Version string
	// Hostname is shown in every answer; in a mesh it is the pod's name.
	Hostname string
	// Address is where to listen; in a mesh it must be the pod's app address.
	Address string
	// Ports are for HTTP, TCP for the line echo. At least one port is needed.
	Ports, TCP []int
	// Calls are made, in order, when their path is requested. The echo shows their results.
	Calls []Call
	// Proxy is the HTTP proxy for all calls; empty: they are made directly.
	Proxy string
	// ReviewsURL, DetailsURL and RatingsURL are where the bookshop's parts are found, each without
	// a path.
	ReviewsURL, DetailsURL, RatingsURL string
	// Log gets a line for each start, stop and error. Nil: none.
	Log io.Writer

	// finish is how long requests in flight may take after the context has ended; linger is how
	// long a client may take to close a connection after it was told. Zero stands for the defaults.
	finish, linger time.Duration
}

const (
	defaultFinish = 4 * time.Second
	defaultLinger = time.Second
)

// Call is one request that the program makes when it is asked for a path.
type Call struct {
	Path, URL string
}

// Bind makes flags for the options on fs. Their defaults come from the environment that a container
// has.
func (o *Options) Bind(fs *flag.FlagSet, getenv func(string) string) {
	orElse := func(name, fallback string) string {
		if v := getenv(name); v != "" {
			return v
		}
		return fallback
	}
	fs.StringVar(&o.Role, "role", orElse("SAMPLE_ROLE", Echo),
		"what to be: echo, productpage, details, reviews or ratings")
	fs.StringVar(&o.Version, "version", orElse("SAMPLE_VERSION", "v1"), "version to show")
	fs.StringVar(&o.Hostname, "hostname", orElse("HOSTNAME", "localhost"), "name to show")
	fs.StringVar(&o.Address, "address", orElse("LATEEN_APP_ADDRESS", "127.0.0.1"), "address to listen at")
	fs.StringVar(&o.Proxy, "proxy", getenv("HTTP_PROXY"), "HTTP proxy for calls to others")
	fs.StringVar(&o.ReviewsURL, "reviews", "http://reviews:9080", "where reviews are")
	fs.StringVar(&o.DetailsURL, "details", "http://details:9080", "where details are")
	fs.StringVar(&o.RatingsURL, "ratings", "http://ratings:9080", "where ratings are")
	fs.Func("port", "port for HTTP; may be repeated", ports(&o.Ports))
	fs.Func("tcp", "port for a line echo over TCP; may be repeated", ports(&o.TCP))
	fs.Func("call", "`PATH=URL[,URL…]` to call when PATH is asked for; may be repeated", func(s string) error {
		path, urls, ok := strings.Cut(s, "=")
		if !ok || !strings.HasPrefix(path, "/") {
			return fmt.Errorf("%q, want PATH=URL with a path that begins with a slash", s)
		}
		for u := range strings.SplitSeq(urls, ",") {
			o.Calls = append(o.Calls, Call{Path: path, URL: u})
		}
		return nil
	})
}

func ports(list *[]int) func(string) error {
	return func(s string) error {
		n, err := strconv.Atoi(s)
		if err != nil || n < 0 || n >= 1<<16 {
			return fmt.Errorf("%q, want a number from 0 to 65535", s)
		}
		*list = append(*list, n)
		return nil
	}
}

func (o *Options) validate() error {
	switch o.Role {
	case Echo, ProductPage, Details, Reviews, Ratings:
	default:
		return fmt.Errorf("role %q, want one of echo, productpage, details, reviews, ratings", o.Role)
	}
	if _, err := netip.ParseAddr(o.Address); err != nil {
		return fmt.Errorf("address %q, want an IP address", o.Address)
	}
	if len(o.Ports)+len(o.TCP) == 0 {
		return fmt.Errorf("no port, want at least one --port or --tcp")
	}
	urls := []string{o.Proxy, o.ReviewsURL, o.DetailsURL, o.RatingsURL}
	for _, c := range o.Calls {
		urls = append(urls, c.URL)
	}
	for _, u := range urls {
		if _, err := url.Parse(u); err != nil {
			return fmt.Errorf("URL %q: %w", u, err)
		}
	}
	if o.Log == nil {
		o.Log = io.Discard
	}
	o.finish, o.linger = cmp.Or(o.finish, defaultFinish), cmp.Or(o.linger, defaultLinger)
	return nil
}
