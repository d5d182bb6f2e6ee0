package pb

// SessionFilter is the filter that keeps the requests of a client at one endpoint.
const SessionFilter = "envoy.filters.http.stateful_session"
