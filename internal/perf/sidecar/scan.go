package sidecar

import (
	"cmp"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
)

// findings are the parts of a resource's body that a sidecar needs.
type findings struct {
	name string
	// refers are the names of referenced resources of the next type, sorted, without duplicates: a
	// cluster's EDS service name, the collections of an assignment, the route tables of a listener.
	refers []string
	// vhds is set for a route table that loads its virtual hosts on demand.
	vhds bool
}

// scan reads the findings from a body. It fails if a part that it reads is not a protobuf message.
func scan(t Type, body []byte) (f findings, err error) {
	switch t {
	case Cluster:
		err = f.cluster(body)
	case Endpoint:
		err = f.assignment(body)
	case Listener:
		err = f.listener(body)
	case Route:
		err = eachField(body, func(number protowire.Number, v []byte) error {
			switch number {
			case 1: // RouteConfiguration.name
				f.name = string(v)
			case 9: // RouteConfiguration.vhds
				f.vhds = true
			}
			return nil
		})
	case VirtualHost, Secret:
		f.name, err = stringField(body, 1) // VirtualHost.name, Secret.name
	}
	slices.Sort(f.refers)
	f.refers = slices.Clip(slices.Compact(f.refers))
	return f, err
}

// clusterTypeEDS is Cluster.DiscoveryType.EDS.
const clusterTypeEDS = 3

func (f *findings) cluster(body []byte) error {
	service := ""
	err := eachField(body, func(number protowire.Number, v []byte) error {
		switch number {
		case 1: // Cluster.name
			f.name = string(v)
		case 3: // Cluster.eds_cluster_config.service_name; protobuf merges repeated occurrences
			name, err := stringField(v, 2)
			service = cmp.Or(name, service)
			return err
		}
		return nil
	})
	service = cmp.Or(service, f.name)
	if service != "" && clusterType(body) == clusterTypeEDS {
		f.refers = []string{service}
	}
	return err
}

// clusterType reads Cluster.type. It is in a oneof with Cluster.cluster_type, of which the last one
// counts.
func clusterType(body []byte) (t int32) {
	for len(body) > 0 {
		number, kind, value, n := field(body)
		if n < 0 {
			return t
		}
		body = body[n:]
		switch {
		case number == 2 && kind == protowire.VarintType:
			v, _ := protowire.ConsumeVarint(value)
			t = int32(v) // as protobuf truncates enum values
		case number == 38 && kind == protowire.BytesType:
			t = 0
		}
	}
	return t
}

func (f *findings) assignment(body []byte) error {
	return eachField(body, func(number protowire.Number, v []byte) error {
		switch number {
		case 1: // ClusterLoadAssignment.cluster_name
			f.name = string(v)
		case 2: // ClusterLoadAssignment.endpoints
			return eachField(v, func(number protowire.Number, v []byte) error {
				if number != 8 { // LocalityLbEndpoints.leds_cluster_locality_config
					return nil
				}
				return f.refer(v, 2) // LedsClusterLocalityConfig.leds_collection_name
			})
		}
		return nil
	})
}

func (f *findings) listener(body []byte) error {
	return eachField(body, func(number protowire.Number, v []byte) error {
		switch number {
		case 1: // Listener.name
			f.name = string(v)
		case 3, 25: // Listener.filter_chains, default_filter_chain
			return eachField(v, func(number protowire.Number, v []byte) error {
				if number != 3 { // FilterChain.filters
					return nil
				}
				return f.filter(v)
			})
		}
		return nil
	})
}

const httpConnectionManager = "type.googleapis.com/" +
	"envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager"

func (f *findings) filter(body []byte) error {
	return eachField(body, func(number protowire.Number, v []byte) error {
		if number != 4 { // Filter.typed_config
			return nil
		}
		url, config, err := anyFields(v)
		if err != nil || string(url) != httpConnectionManager {
			return err
		}
		return eachField(config, func(number protowire.Number, v []byte) error {
			if number != 3 { // HttpConnectionManager.rds
				return nil
			}
			return f.refer(v, 2) // Rds.route_config_name
		})
	})
}

// refer adds the name in a field of a message.
func (f *findings) refer(message []byte, field protowire.Number) error {
	name, err := stringField(message, field)
	if name != "" {
		f.refers = append(f.refers, name)
	}
	return err
}

// anyFields returns the fields of a google.protobuf.Any.
func anyFields(b []byte) (url, value []byte, err error) {
	err = eachField(b, func(number protowire.Number, v []byte) error {
		switch number {
		case 1:
			url = v
		case 2:
			value = v
		}
		return nil
	})
	return url, value, err
}

func stringField(b []byte, field protowire.Number) (s string, err error) {
	err = eachField(b, func(number protowire.Number, v []byte) error {
		if number == field {
			s = string(v)
		}
		return nil
	})
	return s, err
}

// eachField visits the strings and messages among the fields of a message. It skips a field of the
// wrong wire type, which is unknown to protobuf, too.
func eachField(b []byte, visit func(protowire.Number, []byte) error) error {
	for len(b) > 0 {
		number, kind, value, n := field(b)
		if n < 0 {
			return protowire.ParseError(n)
		}
		b = b[n:]
		if kind != protowire.BytesType {
			continue
		}
		value, _ = protowire.ConsumeBytes(value)
		if err := visit(number, value); err != nil {
			return err
		}
	}
	return nil
}

// field reads the first field of a message. It returns the encoded value and the length of tag and
// value, or a negative length, which is an error of protowire.
func field(b []byte) (number protowire.Number, kind protowire.Type, value []byte, length int) {
	number, kind, tag := protowire.ConsumeTag(b)
	if tag < 0 {
		return 0, 0, nil, tag
	}
	n := protowire.ConsumeFieldValue(number, kind, b[tag:])
	if n < 0 {
		return 0, 0, nil, n
	}
	return number, kind, b[tag : tag+n], tag + n
}
