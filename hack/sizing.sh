#!/usr/bin/env bash
# Measures what requests cost proxies, with telemetry and access logs on and off, and writes
# internal/perf/sizing/dataplane.json. Of each proxy it takes the round with the least CPU, which
# other work on the machine has disturbed least. It needs bin/lateen (make build) and an Envoy.
set -euo pipefail
cd "$(dirname "$0")/.."
out=bin/sizing
mkdir -p "$out"
for setting in off metrics logs; do
  case $setting in
    off) flags="" ;;
    metrics) flags=--telemetry ;;
    logs) flags="--telemetry --access-logs" ;;
  esac
  # shellcheck disable=SC2086 # each flag is a word
  bin/lateen perf data-plane --preset aks --paths sidecar,ingress --rounds "${ROUNDS:-5}" --duration "${DURATION:-10s}" \
    $flags -o json >"$out/$setting.json"
done
python3 - "$out/off.json" "$out/metrics.json" "$out/logs.json" <<'PYTHON' >internal/perf/sizing/dataplane.json
import json, sys

reports = [json.load(open(name)) for name in sys.argv[1:]]


def least(case, path, name):
    rounds = [p for s in case["samples"] if s["path"] == path for p in s["proxies"] if p["name"] == name]
    return {
        "coresPer1000": round(min(1000 * p["cpuSeconds"] / p["requests"] for p in rounds), 4),
        "residentBytes": max(p["residentBytes"] for p in rounds),
    }


first, case = reports[1], reports[1]["cases"][0]
json.dump({
    "version": first["lateen"], "command": "make sizing", "machine": first["machine"],
    "qps": case["qps"], "connections": case["connections"], "payloadBytes": first["payloadBytes"],
    "workers": first["workers"],
    "cases": [{
        "telemetry": r["telemetry"], "accessLogs": r["accessLogs"],
        "client": least(r["cases"][0], "sidecar", "client"),
        "server": least(r["cases"][0], "sidecar", "server"),
        "gateway": least(r["cases"][0], "ingress", "gateway"),
    } for r in reports],
}, sys.stdout, indent=2)
print()
PYTHON
