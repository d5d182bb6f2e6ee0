package pb

// GRPCWebFilter is the filter of requests that translates gRPC-Web to gRPC, and the answers back.
const GRPCWebFilter = "envoy.filters.http.grpc_web"
