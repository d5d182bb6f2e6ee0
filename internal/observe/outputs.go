package observe

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// XDS are the metrics of streams.
type XDS struct {
	// Connected is the number of connected proxies, by the Istio version that they report.
	// pilot_xds.
	Connected *prometheus.GaugeVec
	// Pushes counts responses by type ("cds", …), and failed sends as "cds_senderr", ….
	// pilot_xds_pushes.
	Pushes *prometheus.CounterVec
	// Resources counts the resources in responses, by type and operation: "sent" or "removed".
	// lateen_xds_resources_total.
	Resources *prometheus.CounterVec
	// PushTime is the time from the start of handling a push or a request to the end of sending the
	// response, in seconds, by type. pilot_xds_push_time.
	PushTime *prometheus.HistogramVec
	// SendTime is how long one send takes, in seconds. pilot_xds_send_time.
	SendTime prometheus.Histogram
	// ConfigSize is the size of responses in bytes, by type. pilot_xds_config_size_bytes.
	ConfigSize *prometheus.HistogramVec
	// Rejects counts responses that a proxy refused, by type. pilot_total_xds_rejects.
	Rejects *prometheus.CounterVec
	// Refusals count refusals by node and by the gRPC code of the error. The key is the short type
	// name: "cds", "eds", "leds", "lds", "rds" or "vhds". A node's series ends with its stream.
	// pilot_xds_{cds,eds,leds,lds,rds,vhds}_reject.
	Refusals map[string]*prometheus.GaugeVec

	InternalErrors prometheus.Counter // pilot_total_xds_internal_errors
	WriteTimeouts  prometheus.Counter // pilot_xds_write_timeout
	ExpiredNonces  prometheus.Counter // pilot_xds_expired_nonce
	// ReceiveMax is the size in bytes of the largest request so far. pilot_xds_recv_max.
	ReceiveMax prometheus.Gauge
	// Refused counts streams that were not admitted, by gRPC code ("InvalidArgument",
	// "PermissionDenied", …). lateen_xds_refused_streams_total.
	Refused *prometheus.CounterVec
	// Limited counts what was refused because its owner has as much as it may, by limit:
	// "connections", "streams", "rate" (at which streams begin), "metadata", "names", "classes",
	// "calls" (of the certificate service, at a time), "call_rate" or "call_size".
	// lateen_xds_limited_total.
	Limited *prometheus.CounterVec
	// Ended counts streams that the control plane has ended, by reason: "pod_gone",
	// "token_expired", "rights_changed", "registration_refused". lateen_xds_ended_streams_total.
	Ended *prometheus.CounterVec
	// Waiting is the number of streams that wait for admission. lateen_xds_waiting_streams.
	Waiting prometheus.Gauge
	// AdmissionWait is how long an admitted stream has waited for its admission, in seconds.
	// lateen_xds_admission_wait_seconds.
	AdmissionWait prometheus.Histogram
	// Held counts requests that were delayed because their client sends too many.
	// lateen_xds_held_requests_total.
	Held prometheus.Counter
	// Queued is the number of bytes of responses, of all streams, that wait in this process until
	// clients read them. The streams add to it and subtract from it. lateen_xds_queued_bytes.
	Queued *atomic.Int64
}

func newXDS(f promauto.Factory) XDS {
	x := XDS{
		Connected: gauges(f, "pilot_xds", "Proxies connected over xDS.", "version"),
		Pushes:    counters(f, "pilot_xds_pushes", "Responses sent and send errors.", "type"),
		Resources: counters(f, "lateen_xds_resources_total", "Resources sent and removed by responses.", "type",
			"operation"),
		PushTime: histograms(f, "pilot_xds_push_time", "Seconds that a response took to be made and sent.", "type",
			.01, .1, .5, 1, 3, 5, 10, 20, 30),
		SendTime: histogram(f, "pilot_xds_send_time", "Seconds that a response took to be sent.", .01, .1, 1, 3, 5, 10,
			20, 30),
		ConfigSize: histograms(f, "pilot_xds_config_size_bytes", "Sizes of responses.", "type",
			1, 10000, 1000000, 4000000, 10000000, 40000000),
		Rejects:        counters(f, "pilot_total_xds_rejects", "Responses that proxies refused.", "type"),
		Refusals:       map[string]*prometheus.GaugeVec{},
		InternalErrors: counter(f, "pilot_total_xds_internal_errors", "Errors of our own in xDS."),
		WriteTimeouts:  counter(f, "pilot_xds_write_timeout", "Streams ended because a send took too long."),
		ExpiredNonces:  counter(f, "pilot_xds_expired_nonce", "Requests with an expired nonce."),
		ReceiveMax:     gauge(f, "pilot_xds_recv_max", "Size in bytes of the largest request."),
		Refused:        counters(f, "lateen_xds_refused_streams_total", "Streams that were not admitted.", "code"),
		Limited: counters(f, "lateen_xds_limited_total",
			"Connections, streams, calls and requests refused because of a limit of their client.", "limit"),
		Ended: counters(f, "lateen_xds_ended_streams_total", "Streams that were ended for their clients' identity.",
			"reason"),
		Waiting: gauge(f, "lateen_xds_waiting_streams", "Streams that wait for their admission."),
		AdmissionWait: histogram(f, "lateen_xds_admission_wait_seconds",
			"Seconds that a stream waited for its admission.", .001, .01, .1, .5, 1, 3, 5, 10, 30),
		Held: counter(f, "lateen_xds_held_requests_total",
			"Requests that had to wait because their client asks for too much."),
		Queued: &atomic.Int64{},
	}
	f.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "lateen_xds_queued_bytes", Help: "Bytes of responses that wait until their clients take them.",
	}, func() float64 { return float64(x.Queued.Load()) })
	for _, t := range []string{"cds", "eds", "leds", "lds", "rds", "vhds"} {
		x.Refusals[t] = gauges(f, "pilot_xds_"+t+"_reject", "Refusals of "+t+" by connected proxies.", "node", "err")
	}
	return x
}

// Push are the metrics of a change's way to the proxies.
type Push struct {
	// Convergence is the time from the publication of a generation to the end of its sends to one
	// proxy, in seconds. It does not include the debounce. pilot_proxy_convergence_time.
	Convergence prometheus.Histogram
	// Queue is how long a proxy's push waits for its turn, in seconds. pilot_proxy_queue_time.
	Queue prometheus.Histogram
	// EventToLastAck is the time from an event's arrival in this process to the ACK of the last
	// proxy that it affects, in seconds. It includes the debounce, and leaves out removals that are
	// held back on purpose.
	// lateen_event_to_last_ack_seconds.
	EventToLastAck prometheus.Histogram
	// EndpointRemoval is the time from the end of an endpoint, as it arrived in this process, to
	// the ACK of the last proxy that had it, in seconds. So long a proxy may call an endpoint that
	// is gone. lateen_endpoint_removal_seconds.
	EndpointRemoval prometheus.Histogram
	// Stale is the number of connected proxies that have left something unacknowledged for longer
	// than StaleAfter. lateen_stale_proxies.
	Stale *Reading
	// Slots is how many pushes may run at a time, and Busy how many do.
	// lateen_push_slots, lateen_push_slots_busy.
	Slots, Busy prometheus.Gauge
	// BusySeconds counts the time that slots were in use, summed over them: its rate divided by
	// Slots is the saturation. lateen_push_busy_seconds_total.
	BusySeconds prometheus.Counter
	// Empty counts pushes that found nothing to do: neither a newer state nor anything to send. Few
	// do; very many in a row mean that the pool calls a stream again and again for nothing.
	// lateen_empty_pushes_total.
	Empty prometheus.Counter
	// Coalesced counts generations that were merged into a push that was still waiting.
	// lateen_coalesced_pushes_total.
	Coalesced prometheus.Counter
}

func newPush(f promauto.Factory) Push {
	return Push{
		Convergence: histogram(f, "pilot_proxy_convergence_time",
			"Seconds between a change and a proxy having been sent all of it.", .1, .5, 1, 3, 5, 10, 20, 30),
		Queue: histogram(f, "pilot_proxy_queue_time", "Seconds that a proxy's push waited for its turn.",
			.1, .5, 1, 3, 5, 10, 20, 30),
		EventToLastAck: histogram(f, "lateen_event_to_last_ack_seconds",
			"Seconds from an event's arrival to the ACK of the last proxy that it touched.",
			.01, .025, .05, .1, .15, .2, .3, .5, 1, 2, 5, 10, 30),
		EndpointRemoval: histogram(f, "lateen_endpoint_removal_seconds",
			"Seconds from the end of an endpoint to the ACK of the last proxy that had it.",
			.01, .025, .05, .1, .15, .2, .3, .5, 1, 2, 5, 10, 30),
		Stale: reading(f, "lateen_stale_proxies", "Proxies that have long not acknowledged what they were offered."),
		Slots: gauge(f, "lateen_push_slots", "Pushes that may run at a time."),
		Busy:  gauge(f, "lateen_push_slots_busy", "Pushes that run."),
		BusySeconds: counter(f, "lateen_push_busy_seconds_total",
			"Seconds that slots of pushes were in use, summed over them."),
		Empty: counter(f, "lateen_empty_pushes_total", "Pushes that found nothing to do."),
		Coalesced: counter(f, "lateen_coalesced_pushes_total",
			"Generations merged into a push that was still waiting."),
	}
}
