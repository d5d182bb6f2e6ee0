package spec

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// checkAuthority refuses settings of certificates that cannot work alone: proxies would start, and
// wait for certificates or for a control plane that they trust.
func (r *Reader) checkAuthority() {
	if r.spec.GatewaysOnly {
		return
	}
	address := textAt(r.values, "global.caAddress")
	if address != "" && !istiodAddress.MatchString(address) { // istiod's and Lateen's own share a root
		r.missing("global.caAddress = "+address+": proxies would ask that authority for certificates, and the "+
			"control plane would neither take them nor be trusted by who has them", r.elsewhereMissing())
	}
	template := at(r.values, "sidecarInjectorWebhook.templates.sidecar")
	if name := textAt(r.values, "global.caName"); name != "" && template == nil {
		r.fail("global.caName = %s: the built-in template of the injection knows no authority by name; want "+
			"global.caAddress with an authority that speaks Istio's CreateCertificate, or a template of your own", name)
	}
	r.checkProvider(textAt(r.values, "global.pilotCertProvider"))
}

// checkProvider judges who is said to have signed the certificate that proxies know the control
// plane by.
func (r *Reader) checkProvider(provider string) {
	what := "global.pilotCertProvider = " + provider
	switch {
	case provider == "" || provider == "istiod":
	case provider == "kubernetes" || strings.HasPrefix(provider, "k8s.io/"):
		var missing []string
		if !strings.HasPrefix(textAt(r.values, "pilot.env.PILOT_CERT_PROVIDER"), "k8s.io/") &&
			textAt(r.values, "pilot.env.K8S_SIGNER") == "" {
			missing = append(missing, "pilot.env.PILOT_CERT_PROVIDER=k8s.io/SIGNER, which signs the control plane's "+
				"certificate")
		}
		if textAt(r.values, "pilot.env.EXTERNAL_CA") == "" {
			missing = append(missing, "pilot.env.EXTERNAL_CA=ISTIOD_RA_KUBERNETES_API")
		}
		r.missing(what+": proxies would trust the signers of Kubernetes, and the control plane has no certificate of "+
			"them", missing)
	case provider == "custom":
		r.missing(what+": proxies would trust a root of their own, and the control plane has no certificate of it",
			r.filesMissing("--tls-cert", "--tls-key"))
	default:
		r.fail("%s: want istiod, kubernetes, k8s.io/SIGNER or custom", what)
	}
}

// elsewhereMissing returns what the control plane lacks beside an authority that proxies ask
// themselves.
func (r *Reader) elsewhereMissing() []string {
	var missing []string
	if textAt(r.values, "pilot.env.ENABLE_CA_SERVER") != "false" {
		missing = append(missing, "pilot.env.ENABLE_CA_SERVER=false")
	} else if r.saysNoFiles() {
		return nil // the chart has the control plane take the Secret istiod-tls, which istio-csr fills
	}
	return append(missing, r.filesMissing(certificateFlags...)...)
}

// certificateFlags are those of the control plane's files beside an authority elsewhere.
var certificateFlags = []string{"--client-ca", "--tls-cert", "--tls-key"}

// saysNoFiles reports whether the control plane is told nothing about certificates.
func (r *Reader) saysNoFiles() bool {
	args, _ := at(r.values, "pilot.extraContainerArgs").([]any)
	return !slices.ContainsFunc(certificateFlags, func(flag string) bool { return flagIn(args, flag) != "" })
}

// filesMissing returns those flags of the control plane that are not set, and the mounts that their
// files are not below.
func (r *Reader) filesMissing(flags ...string) []string {
	args, _ := at(r.values, "pilot.extraContainerArgs").([]any)
	mounts, _ := at(r.values, "pilot.volumeMounts").([]any)
	var missing []string
	for _, flag := range flags {
		file := flagIn(args, flag)
		if file == "" {
			missing = append(missing, "pilot.extraContainerArgs with "+flag+"=FILE")
			continue
		}
		mounted := slices.ContainsFunc(mounts, func(m any) bool {
			at, _ := object(m)["mountPath"].(string)
			return at != "" && strings.HasPrefix(path.Clean(file)+"/", path.Clean(at)+"/")
		})
		if !mounted {
			missing = append(missing, fmt.Sprintf("pilot.volumes and pilot.volumeMounts that hold %s (%s)", file, flag))
		}
	}
	return missing
}

// flagIn returns the value of a flag among arguments, as --flag=value or --flag value.
func flagIn(args []any, flag string) string {
	for n, arg := range args {
		text := fmt.Sprint(arg)
		if value, ok := strings.CutPrefix(text, flag+"="); ok {
			return value
		}
		if text == flag && n+1 < len(args) {
			return fmt.Sprint(args[n+1])
		}
	}
	return ""
}

func (r *Reader) missing(what string, missing []string) {
	if len(missing) > 0 {
		r.fail("%s; missing: %s (docs/ca.md)", what, strings.Join(missing, "; "))
	}
}

// textAt returns the value under a dotted path as text, empty if there is none.
func textAt(values map[string]any, path string) string {
	value := at(values, path)
	if value == nil {
		return ""
	}
	return textOf(value)
}
