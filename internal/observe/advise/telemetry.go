package advise

import (
	"fmt"

	"github.com/lateen-mesh/lateen/internal/api/model"
)

const (
	// mostRequests is how many requests a second may be logged or traced one by one.
	mostRequests = 1000
	// mostSampling is the percentage of requests that may be traced at such a rate.
	mostSampling = 10
)

// telemetry advises to log and trace less of many requests.
func (d *diagnosis) telemetry() (found []Finding) {
	if d.Requests <= mostRequests {
		return nil
	}
	requests := above("requests of the mesh", d.Requests, mostRequests, "/s")
	if d.Census.AccessLogs {
		var effects []Effect
		if logged := d.Requests * d.proxies.AccessLogs() / 1000; logged > 0 { // else it was too little to be measured
			effects = append(effects, Effect{What: "CPU of all proxies for access logs", Unit: "cores", Before: logged,
				After: logged * share(d.Failed, d.Requests)})
		}
		effects = append(effects, Effect{What: "logged requests", Unit: "/s", Before: d.Requests, After: d.Failed})
		found = append(found, Finding{
			Summary:  "proxies write a line for each request",
			Evidence: []Evidence{requests},
			Effects:  effects,
			Remedy:   d.logErrors(),
		})
	}
	if d.Census.Sampling > mostSampling {
		found = append(found, Finding{
			Summary: "many requests are traced",
			Evidence: []Evidence{requests,
				above("sampling of the mesh", d.Census.Sampling, mostSampling, "%")},
			Effects: []Effect{{What: "traced requests", Unit: "/s", Before: d.Requests * d.Census.Sampling / 100,
				After: d.Requests / 100}},
			Remedy: d.sampleLess(),
		})
	}
	return found
}

// logErrors is a Telemetry for the mesh that logs errors alone. Where there is one it has to get
// the filter, since a second one would not be in force.
func (d *diagnosis) logErrors() Remedy {
	r := Remedy{Manifests: telemetryOfErrors(d.Census.RootNamespace, d.Census.LegacyLogs), Automatic: true,
		Text: "lines of errors are still written; a filter of a namespace or workload replaces this one"}
	if d.Census.LegacyLogs {
		r.Text += "; they go to the standard output of the proxies, in the form of accessLogFile"
	}
	if d.Census.Telemetry != "" {
		r.ByHand = fmt.Sprintf("Telemetry %s/%s is for the whole mesh, and a second one would not be in force: give "+
			"it this spec.accessLogging", d.Census.RootNamespace, d.Census.Telemetry)
	}
	return r
}

// sampleLess says where the percentage of traced requests stands.
func (d *diagnosis) sampleLess() Remedy {
	text := "set meshConfig.defaultConfig.tracing.sampling to 1, Istio's default"
	if d.Census.Telemetry != "" {
		text += fmt.Sprintf("; if Telemetry %s/%s has a randomSamplingPercentage, set that", d.Census.RootNamespace,
			d.Census.Telemetry)
	}
	return Remedy{Text: text}
}

// telemetryOfErrors is a Telemetry for the mesh that logs errors alone. One without providers
// leaves accessLogFile as it is, so there it names the provider that writes the same lines.
func telemetryOfErrors(namespace string, legacy bool) string {
	providers := ""
	if legacy {
		providers = "    providers:\n    - name: " + model.BuiltinLog + "\n"
	}
	return fmt.Sprintf(`apiVersion: telemetry.istio.io/v1
kind: Telemetry
metadata:
  name: log-errors
  namespace: %s
spec:
  accessLogging:
  - filter:
      expression: response.code >= 400
%s`, namespace, providers)
}
