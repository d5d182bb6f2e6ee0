"""Writes the dashboards of the chart, with Grafana's foundation SDK: dashboards.py DIRECTORY

A dashboard is rows; a row begins with a sentence of what to do, and has panels of queries. The
queries name no job: `pilot_info` and names of metrics tell a control plane from other targets.
`$namespace` in a query is the namespace of the workloads that are called; it may be all.
"""

import pathlib
import sys

from grafana_foundation_sdk.builders import dashboard, prometheus, text, timeseries
from grafana_foundation_sdk.builders.common import VizLegendOptions
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models import dashboard as models
from grafana_foundation_sdk.models.common import LegendDisplayMode, LegendPlacement

WIDTH, HEIGHT, ADVICE_HEIGHT = 24, 7, 2


def quantiles(metric, window="1m"):
    """The quantiles of the seeds, of a histogram: of the native one where Prometheus scrapes it."""
    native = f"sum(rate({metric}[{window}]))"
    classic = f"sum by (le) (rate({metric}_bucket[{window}]))"
    return [
        (f"histogram_quantile({q}, {native}) or histogram_quantile({q}, {classic})", name)
        for q, name in ((0.5, "p50"), (0.9, "p90"), (0.99, "p99"), (0.999, "p99.9"))
    ]


def rate(metric, by, window="1m"):
    return (f"sum by ({by}) (rate({metric}[{window}]))", "{{%s}}" % by)


CPU = ("rate(process_cpu_seconds_total[1m]) and on (instance) pilot_info", "{{instance}}")
PUSHES = rate("pilot_xds_pushes", "type")
CONVERGENCE = ("lateen:proxy_convergence_seconds:p99_1m", "p99")

CONTROL_PLANE = [
    ("Latency", "Over 1 s: look at Saturation. With idle CPU raise PILOT_PUSH_THROTTLE; with many changes raise"
     " PILOT_DEBOUNCE_AFTER; else add CPU or replicas.", [
         ("Change to proxy", "s", quantiles("pilot_proxy_convergence_time")),
         ("Event to last ACK", "s", quantiles("lateen_event_to_last_ack_seconds")),
         ("Wait in the queue", "s", quantiles("pilot_proxy_queue_time")),
         ("One push", "s", quantiles("pilot_xds_push_time")),
     ]),
    ("Traffic", "Many triggers of one kind: find who changes these objects. Many proxies on one replica: let"
     " connections end by age.", [
         ("Proxies", "short", [("sum by (instance) (pilot_xds)", "{{instance}}")]),
         ("Pushes", "ops", [PUSHES]),
         ("Changes that arrive", "ops", [rate("pilot_inbound_updates", "type")]),
         ("Causes of pushes", "ops", [rate("pilot_push_triggers", "type")]),
     ]),
    ("Errors", "A refusal: lateen status names the proxy and its reason. A timeout: the proxy or its node is"
     " overloaded.", [
         ("Refused configuration", "ops", [rate("pilot_total_xds_rejects", "type")]),
         ("Write timeouts and internal errors", "ops", [
             ("sum(rate(pilot_xds_write_timeout[1m]))", "write timeouts"),
             ("sum(rate(pilot_total_xds_internal_errors[1m]))", "internal errors"),
         ]),
         ("Stale proxies", "short", [("sum(lateen_stale_proxies)", "stale")]),
         ("Mistakes in objects", "short", [("sum by (severity) (lateen_problems)", "{{severity}}")]),
     ]),
    ("Saturation", "Slots full and CPU idle: raise PILOT_PUSH_THROTTLE. CPU full: more CPU when changes come in"
     " fast, more replicas when there are many proxies. A long wait for admission: proxies reconnect at once.", [
         ("Slots of pushes in use", "percentunit", [("lateen:push_saturation:ratio_1m", "{{instance}}")]),
         ("CPU in use", "percentunit", [("lateen:cpu_saturation:ratio_1m", "{{instance}}")]),
         ("Memory", "bytes", [("process_resident_memory_bytes and on (instance) pilot_info", "{{instance}}")]),
         ("Streams that wait for admission", "short", [
             ("sum by (instance) (lateen_xds_waiting_streams)", "{{instance}}")]),
         ("Wait for admission", "s", quantiles("lateen_xds_admission_wait_seconds", "5m")),
     ]),
]

PIPELINE = [
    ("Correlation", "Spikes of CPU, pushes and latency stand above each other. CPU without pushes: reconnecting"
     " proxies. Latency without either: slow proxies, or the platform.", [
         ("CPU", "short", [CPU]),
         ("Pushes", "ops", [PUSHES]),
         ("Change to proxy", "s", [CONVERGENCE]),
     ]),
    ("From event to generation", "Events that are not used come from namespaces or fields without effect: narrow"
     " the discovery selectors.", [
         ("Events of watches", "ops", [rate("lateen_watch_events_total", "result")]),
         ("Debounce", "s", quantiles("pilot_debounce_time")),
         ("To apply a batch", "s", quantiles("pilot_pushcontext_init_seconds")),
     ]),
    ("From generation to bytes", "Misses follow the size of a change; miss_equal is work that changed nothing.", [
        ("To compile a generation", "s", quantiles("lateen_compile_seconds")),
        ("Translations", "ops", [rate("lateen_translate_calls_total", "result")]),
        ("Bytes of responses", "Bps", [rate("pilot_xds_config_size_bytes_sum", "type")]),
    ]),
    ("Endpoints", "So long an endpoint that is gone is still called.", [
        ("Removal of endpoints", "s", quantiles("lateen_endpoint_removal_seconds", "5m")),
        ("Endpoints that are not ready", "short", [("max(pilot_endpoint_not_ready)", "not ready")]),
        ("Pushes merged for slow proxies", "ops", [("sum(rate(lateen_coalesced_pushes_total[1m]))", "merged")]),
    ]),
]

CAPACITY = [
    ("Size", "The largest class decides what a new proxy costs: a Sidecar resource makes it smaller.", [
        ("Configuration of the largest class", "bytes", [("max by (type) (lateen_class_config_largest_bytes)",
                                                         "{{type}}")]),
        ("Classes of proxies", "short", [("max by (instance) (lateen_classes)", "{{instance}}")]),
        ("Services", "short", [("max(pilot_services)", "services"), ("max(pilot_virt_services)", "VirtualServices")]),
    ]),
    ("Replicas", "More than one and a half times the average: connections are unbalanced.", [
        ("Proxies of each replica", "short", [("lateen:proxies:sum", "{{instance}}")]),
        ("CPU for 1,000 proxies", "short", [
            ("1000 * sum(rate(process_cpu_seconds_total[5m]) and on (instance) pilot_info) / sum(pilot_xds)", "cores")]),
        ("Memory for 1,000 proxies", "bytes", [
            ("1000 * sum(process_resident_memory_bytes and on (instance) pilot_info) / sum(pilot_xds)", "bytes")]),
    ]),
    ("Certificates", "A root that ends stops the mesh: plug in the next one beside it in time.", [
        ("Certificates issued", "ops", [("sum(rate(citadel_server_success_cert_issuance_count[5m]))", "issued")]),
        ("The root ends in", "s", [("min(citadel_server_root_cert_expiry_timestamp > 0) - time()", "root")]),
        ("The serving certificate ends in", "s", [
            ("min(lateen_serving_certificate_expiry_seconds > 0) - time()", "certificate")]),
    ]),
]

CALLED = 'destination_workload_namespace=~"$namespace"'
CALLER, TAKER = f'reporter="source", {CALLED}', f'reporter="destination", {CALLED}'
SIDECAR = 'container="istio-proxy"'
SERVICE, WORKLOAD = "destination_service", "destination_workload"


def called(metric, by, where):
    """How often or how much of something, by what was called."""
    return [(f"sum by ({by}) (rate({metric}{{{where}}}[1m]))", "{{%s}}" % by)]


def share_of_errors(by, where):
    failed = f'sum by ({by}) (rate(istio_requests_total{{{where}, response_code=~"5..|0"}}[1m]))'
    return [(f"{failed} / sum by ({by}) (rate(istio_requests_total{{{where}}}[1m]))", "{{%s}}" % by)]


def durations(by, where):
    """A panel for each quantile, in seconds."""
    rates = f"sum by (le, {by}) (rate(istio_request_duration_milliseconds_bucket{{{where}}}[1m]))"
    what = by.removeprefix("destination_")
    return [
        (f"{name} by {what}", "s", [(f"histogram_quantile({q}, {rates}) / 1000", "{{%s}}" % by)])
        for q, name in ((0.5, "p50"), (0.9, "p90"), (0.99, "p99"))
    ]


def largest(query):
    return [(f"topk(10, sum by (namespace, pod) ({query}))", "{{pod}}")]


DATA_PLANE = [
    ("Services, as their callers see them", "Errors of one service: look at its workloads below. Errors that no"
     " workload below has come from the way there: the flags say which part (lateen proxy-config).", [
         ("Requests by service", "ops", called("istio_requests_total", SERVICE, CALLER)),
         ("Share of errors by service", "percentunit", share_of_errors(SERVICE, CALLER)),
         ("Errors by code and flags", "ops", [
             (f'sum by (response_code, response_flags) (rate(istio_requests_total{{{CALLER}, response_code=~"5..|0"}}'
              "[1m]))", "{{response_code}} {{response_flags}}")]),
     ]),
    ("Duration of requests, by service", "Only p99 is high: retries, or one slow replica. All three are: the"
     " service itself, or what it calls.", durations(SERVICE, CALLER)),
    ("Workloads, as they answer", "Errors of one version alone: take its weight away in the VirtualService.", [
        ("Requests by workload", "ops", called("istio_requests_total", WORKLOAD, TAKER)),
        ("Share of errors by workload", "percentunit", share_of_errors(WORKLOAD, TAKER)),
        ("Requests without mutual TLS", "ops", [
            (f'sum by ({WORKLOAD}) (rate(istio_requests_total{{{TAKER}, connection_security_policy!="mutual_tls"}}[1m]))',
             "{{%s}}" % WORKLOAD)]),
    ]),
    ("Duration of requests, by workload", "Slow here too: the workload. Slow for its callers alone: connections,"
     " retries, or proxies without CPU.", durations(WORKLOAD, TAKER)),
    ("TCP", "Many connections that are short: pool them in the application. Bytes count when a connection ends.", [
        ("Connections opened", "ops", called("istio_tcp_connections_opened_total", SERVICE, CALLER)),
        ("Connections closed", "ops", called("istio_tcp_connections_closed_total", SERVICE, CALLER)),
        ("Bytes sent", "Bps", called("istio_tcp_sent_bytes_total", SERVICE, CALLER)),
        ("Bytes received", "Bps", called("istio_tcp_received_bytes_total", SERVICE, CALLER)),
    ]),
    ("Proxies", "CPU: fewer metrics, logs and traces (their cost stands in the docs), or another replica. Memory: a"
     " Sidecar resource, so that proxies get what they call alone.", [
         ("CPU of the ten largest", "short", largest(f"rate(container_cpu_usage_seconds_total{{{SIDECAR}}}[1m])")),
         ("Memory of the ten largest", "bytes", largest(f"container_memory_working_set_bytes{{{SIDECAR}}}")),
         ("CPU for 1,000 requests a second", "short", [
             (f"1000 * sum(rate(container_cpu_usage_seconds_total{{{SIDECAR}}}[1m]))"
              " / sum(rate(istio_requests_total[1m]))", "cores of a proxy")]),
         ("Connections of the ten largest", "short", largest("envoy_server_total_connections")),
     ]),
]

DASHBOARDS = {
    "control-plane": ("Lateen / Control plane", CONTROL_PLANE),
    "push-pipeline": ("Lateen / Push pipeline", PIPELINE),
    "capacity": ("Lateen / Capacity", CAPACITY),
    "data-plane": ("Lateen / Data plane", DATA_PLANE),
}

# VARIABLES are what a reader of a dashboard may choose, by the name of its file.
VARIABLES = {
    "data-plane": [("namespace", "Called namespace", "label_values(istio_requests_total, destination_workload_namespace)")],
}


def panel(title, unit, queries):
    p = (
        timeseries.Panel()
        .title(title)
        .unit(unit)
        .min(0)
        .datasource(models.DataSourceRef(type_val="prometheus", uid="${datasource}"))
        .legend(VizLegendOptions().display_mode(LegendDisplayMode.LIST).placement(LegendPlacement.BOTTOM)
                .show_legend(True))
    )
    for expr, legend in queries:
        p = p.with_target(prometheus.Dataquery().expr(expr).legend_format(legend))
    return p


def build(uid, title, rows):
    d = (
        dashboard.Dashboard(title)
        .uid(f"lateen-{uid}")
        .tags(["lateen"])
        .refresh("15s")
        .time("now-30m", "now")
        .timezone("browser")
        .with_variable(dashboard.DatasourceVariable("datasource").label("Data source").type("prometheus"))
    )
    for name, label, query in VARIABLES.get(uid, []):
        d = d.with_variable(
            dashboard.QueryVariable(name).label(label).query(query).multi(True).include_all(True).all_value(".*")
            .datasource(models.DataSourceRef(type_val="prometheus", uid="${datasource}"))
            .current(models.VariableOption(selected=True, text="All", value="$__all"))
            .refresh(models.VariableRefresh.ON_TIME_RANGE_CHANGED))
    for name, advice, panels in rows:
        d = d.with_row(dashboard.Row(name))
        d = d.with_panel(text.Panel().content(advice).transparent(True).span(WIDTH).height(ADVICE_HEIGHT))
        for one in panels:
            d = d.with_panel(panel(*one).span(WIDTH // len(panels)).height(HEIGHT))
    return d.build()


def main():
    directory = pathlib.Path(sys.argv[1])
    directory.mkdir(parents=True, exist_ok=True)
    for uid, (title, rows) in DASHBOARDS.items():
        encoded = JSONEncoder(sort_keys=True, indent=2).encode(build(uid, title, rows))
        (directory / f"{uid}.json").write_text(encoded + "\n")


main()
