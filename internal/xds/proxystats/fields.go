package proxystats

import (
	"strconv"
	"strings"
)

// Fields is what the tag of a statistic holds. Empty strings are unknown.
type Fields struct {
	Form
	Code          string // status of the response; of requests alone
	GRPC          string // status of gRPC; of requests alone, and empty for others
	Flags         string // Envoy's response flags, "-" for none
	PeerPrincipal string // the peer's URI, where the connection is in mutual TLS
	// Service is the cluster that a source calls, or the server name that a destination was called
	// by in TLS.
	Service string
	Peer    Workload
}

// ParseRequest reads the tag of a request, and ParseConnection that of a connection that is not
// HTTP. They report false for what no such format writes.
func ParseRequest(tag string) (Fields, bool) { return parse(tag, true) }

// ParseConnection is for Form.ConnectionFormat.
func ParseConnection(tag string) (Fields, bool) { return parse(tag, false) }

func parse(tag string, request bool) (Fields, bool) {
	var f Fields
	head, rest, _ := strings.Cut(tag, " ")
	if !f.read(head) {
		return f, false
	}
	if request {
		f.Code, rest, _ = strings.Cut(rest, " ")
		f.GRPC, rest, _ = strings.Cut(rest, " ")
	}
	var ok bool
	f.Flags, rest, _ = strings.Cut(rest, " ")
	f.PeerPrincipal, rest, ok = strings.Cut(rest, " ")
	f.Service, rest, _ = strings.Cut(rest, " ")
	for _, field := range []*string{&f.Code, &f.GRPC, &f.PeerPrincipal, &f.Service, &rest} {
		if *field == "-" {
			*field = ""
		}
	}
	if rest != "" {
		f.Peer = Parse(rest)
	}
	return f, ok
}

// read reads what head wrote.
func (f *Form) read(head string) bool {
	version, options, _ := strings.Cut(head, optionSign)
	switch version {
	case fromSource:
	case fromDestination:
		f.By = Destination
	default:
		return false
	}
	for option := range strings.SplitSeq(options, optionSign) {
		label, without := strings.CutPrefix(option, withoutSign)
		switch {
		case without:
			f.Without = append(f.Without, label)
		case option == uncountedOption:
			f.Uncounted = true
		case option != "":
			return false
		}
	}
	return true
}

// Messages returns how many messages of gRPC a request had that a statistic counts, by the value of
// MessagesTag; none where Envoy has seen none.
func Messages(metric, tag string) float64 {
	requests, responses, _ := strings.Cut(tag, ",")
	if metric == ResponseMessages {
		requests = responses
	}
	n, err := strconv.ParseUint(requests, 10, 53)
	if err != nil {
		return 0
	}
	return float64(n)
}

// ServiceHost returns the host in the name of a cluster ("outbound|9080|v1|reviews.default.svc…")
// or in the server name that stands for one ("outbound_.9080_.v1_.reviews.default.svc…"). It is
// empty for all others.
func ServiceHost(name string) string {
	for _, separator := range []string{"|", "_."} {
		if parts := strings.SplitN(name, separator, 4); len(parts) == 4 && parts[0] == "outbound" {
			return parts[3]
		}
	}
	return ""
}
