package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"mime"
	"net/http"
	"strconv"
	"sync"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lateen-mesh/lateen/internal/api/convert"
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/cluster/inject"
	"github.com/lateen-mesh/lateen/internal/observe"
	"github.com/lateen-mesh/lateen/internal/source"
	"github.com/lateen-mesh/lateen/internal/source/untrusted"
)

// Path is where an API server sends requests. All paths below it are served alike, because Istio's
// webhook configurations put the revision there.
const Path = "/validate"

// maxBody is the largest AdmissionReview in bytes. It has two objects (new and old) of up to 3 MiB
// each, which is what an API server accepts in one request.
const maxBody = 8 << 20

// Options are what a handler needs.
type Options struct {
	// Mesh returns the present mesh configuration: the meaning of an object may depend on it.
	Mesh func() model.MeshConfig
	// Injector returns the present injector of proxies, or why there is none. It is nil if nothing
	// is injected here.
	Injector func() (*inject.Injector, error)
	// ProxyConfigs returns those in force for a Pod's namespace and labels; nil for none.
	ProxyConfigs func(namespace string, labels map[string]string) model.ProxyConfigs
	// Budget returns how many proxies a change of an object of a namespace may reach; nil for no
	// limits.
	Budget func(namespace string) model.ChangeBudget
	// Reach returns how many proxies would get something by changes; false if that is not known
	// now.
	Reach   func(context.Context, []source.Change) (proxies int, known bool)
	Metrics *observe.Metrics
	Log     *slog.Logger
}

// handler answers requests. It keeps nothing of those that it has answered.
type handler struct {
	Options
	converter *convert.Converter
	intake    *intake
	weighing  chan struct{} // holds what is weighed
	logLimit  observe.LogLimit
}

// NewHandler returns the handler for the webhook's port (15017): /validate, /validate/…, /inject,
// /inject/… and /ready.
func NewHandler(o Options) http.Handler { return newHandler(o).routes() }

func newHandler(o Options) *handler {
	return &handler{
		Options: o, intake: newIntake(defaultLimits), weighing: make(chan struct{}, weighedAtOnce),
		// its own: what is refused leaves nothing in the pipeline's pools
		converter: convert.New(convert.Options{Defaults: o.Mesh()}),
	}
}

func (h *handler) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+Path, h.answer(h.validate))
	mux.HandleFunc("POST "+Path+"/", h.answer(h.validate))
	if h.Injector != nil {
		mux.HandleFunc("POST "+InjectPath, h.answer(h.inject))
		mux.HandleFunc("POST "+InjectPath+"/", h.answer(h.inject))
	}
	mux.HandleFunc("GET /ready", func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprintln(w, "ready") })
	return mux
}

// NewServer returns an HTTP server for a handler, with timeouts. An API server waits 30 s at most.
func NewServer(h http.Handler) *http.Server {
	const patience = 30 * time.Second
	return &http.Server{
		Handler:           h,
		ReadHeaderTimeout: patience / 3,
		ReadTimeout:       patience,
		WriteTimeout:      patience,
		IdleTimeout:       10 * patience,
		MaxHeaderBytes:    64 << 10,
	}
}

// decide answers a request that came to a path. It may leave its place before it waits for
// something. The error is about the request, not its object.
type decide func(
	ctx context.Context, leave func(), path string, r *admissionv1.AdmissionRequest,
) (*admissionv1.AdmissionResponse, error)

// answer returns a handler that reads the request before it takes one of the places, so that a slow
// client takes none.
func (h *handler) answer(by decide) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) { h.serve(w, r, by) }
}

func (h *handler) serve(w http.ResponseWriter, r *http.Request, by decide) {
	held, err := h.intake.reserve(r)
	if err != nil {
		h.fail(w, err)
		return
	}
	defer held.release()
	body, err := readBody(w, r, held)
	if err != nil {
		h.fail(w, err)
		return
	}
	leave, err := held.takePlace(r.Context())
	if err != nil {
		h.fail(w, err)
		return
	}
	leave = sync.OnceFunc(leave)
	defer leave()
	request, err := parseReview(body)
	if err != nil {
		h.fail(w, err)
		return
	}
	response, err := by(r.Context(), leave, r.URL.Path, request)
	if err != nil {
		h.fail(w, err)
		return
	}
	review := admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: admissionv1.SchemeGroupVersion.String(), Kind: "AdmissionReview"},
		Response: response,
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(review) // what cannot be written any more is the client's loss: it has gone
}

// readBody returns the body of a request for a decision.
func readBody(w http.ResponseWriter, r *http.Request, held *reservation) ([]byte, error) {
	media := r.Header.Get("Content-Type")
	if parsed, _, err := mime.ParseMediaType(media); err != nil || parsed != "application/json" {
		return nil, failure(http.StatusUnsupportedMediaType, "Content-Type %.*q; want application/json",
			maxShown, media)
	}
	return held.body(w, r)
}

func parseReview(body []byte) (*admissionv1.AdmissionRequest, error) {
	var review admissionv1.AdmissionReview
	if err := untrusted.Review().Typed(body, &review); err != nil {
		return nil, fmt.Errorf("this is no AdmissionReview: %w", err)
	}
	if want := admissionv1.SchemeGroupVersion.String(); review.APIVersion != want || review.Kind != "AdmissionReview" {
		return nil, fmt.Errorf("this is %s of %s; want AdmissionReview of %s",
			observe.Untrusted(review.Kind, maxShown), observe.Untrusted(review.APIVersion, maxShown), want)
	}
	if review.Request == nil {
		return nil, errors.New("the AdmissionReview has no request")
	}
	return review.Request, nil
}

// maxShown is the length in bytes of what a client says in an error.
const maxShown = 64

// forLog returns text that may quote a client as a line of the log has it.
func forLog(text string) string { return observe.Untrusted(text, 1<<10) }

// fail answers with an error. One without an HTTP status is about the content of the request.
func (h *handler) fail(w http.ResponseWriter, err error) {
	code, message := http.StatusBadRequest, err.Error()
	var known *httpError
	if errors.As(err, &known) {
		code = known.code
	}
	h.Metrics.Admission.HTTPErrors.WithLabelValues(strconv.Itoa(code)).Inc()
	if skipped, ok := h.logLimit.Allow(strconv.Itoa(code), time.Now()); ok {
		h.Log.Warn("an admission request cannot be answered", "status", code,
			"reason", forLog(message), "lines_left_out", skipped)
	}
	http.Error(w, message, code)
}
