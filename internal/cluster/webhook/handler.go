package webhook

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"mime"
	"net/http"
	"strconv"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lateen-mesh/lateen/internal/api/convert"
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/observe"
)

// Path is where an API server sends requests. All paths below it are served alike, because Istio's
// webhook configurations put the revision there.
const Path = "/validate"

// maxBody is the largest AdmissionReview in bytes. It has two objects (new and old) of up to 3 MiB
// each, which is what an API server accepts in one request.
const maxBody = 8 << 20

// maxConcurrent is how many objects are checked at a time. Further requests wait for as long as the
// API server waits.
const maxConcurrent = 8

// Options are what a handler needs.
type Options struct {
	// Mesh returns the present mesh configuration: the meaning of an object may depend on it.
	Mesh    func() model.MeshConfig
	Metrics *observe.Metrics
	Log     *slog.Logger
}

// handler answers requests. It keeps nothing between them.
type handler struct {
	Options
	converter *convert.Converter
	// slots has one entry for each object that is being checked.
	slots chan struct{} // one entry for each object that is being looked at
}

// NewHandler returns the handler for the webhook's port (15017): /validate, /validate/… and /ready.
func NewHandler(o Options) http.Handler { return newHandler(o).routes() }

func newHandler(o Options) *handler {
	return &handler{
		Options: o, slots: make(chan struct{}, maxConcurrent),
		// its own: what is refused leaves nothing in the pipeline's pools
		converter: convert.New(convert.Options{Defaults: o.Mesh()}),
	}
}

func (h *handler) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+Path, h.validate)
	mux.HandleFunc("POST "+Path+"/", h.validate)
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

func (h *handler) validate(w http.ResponseWriter, r *http.Request) {
	select {
	case h.slots <- struct{}{}:
		defer func() { <-h.slots }()
	case <-r.Context().Done():
		h.fail(w, http.StatusServiceUnavailable, "too many requests at a time")
		return
	}
	request, code, err := readReview(w, r)
	if err != nil {
		h.fail(w, code, err.Error())
		return
	}
	review := admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: admissionv1.SchemeGroupVersion.String(), Kind: "AdmissionReview"},
		Response: h.respond(request),
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(review) // what cannot be written any more is the client's loss: it has gone
}

// readReview returns the request of an AdmissionReview, or an error and its HTTP status.
func readReview(w http.ResponseWriter, r *http.Request) (*admissionv1.AdmissionRequest, int, error) {
	if media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || media != "application/json" {
		return nil, http.StatusUnsupportedMediaType, fmt.Errorf("Content-Type %q; want application/json",
			r.Header.Get("Content-Type"))
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return nil, http.StatusRequestEntityTooLarge, fmt.Errorf("the review has more than %d bytes", maxBody)
	case err != nil:
		return nil, http.StatusBadRequest, fmt.Errorf("the review cannot be read: %w", err)
	}
	request, err := parseReview(body)
	return request, http.StatusBadRequest, err
}

func parseReview(body []byte) (*admissionv1.AdmissionRequest, error) {
	var review admissionv1.AdmissionReview
	if err := json.Unmarshal(body, &review); err != nil {
		return nil, fmt.Errorf("this is no AdmissionReview: %w", err)
	}
	if want := admissionv1.SchemeGroupVersion.String(); review.APIVersion != want || review.Kind != "AdmissionReview" {
		return nil, fmt.Errorf("this is %s of %s; want AdmissionReview of %s", review.Kind, review.APIVersion, want)
	}
	if review.Request == nil {
		return nil, errors.New("the AdmissionReview has no request")
	}
	return review.Request, nil
}

func (h *handler) fail(w http.ResponseWriter, code int, message string) {
	h.Metrics.Admission.HTTPErrors.WithLabelValues(strconv.Itoa(code)).Inc()
	h.Log.Warn("an admission request cannot be answered", "status", code, "reason", message)
	http.Error(w, message, code)
}
