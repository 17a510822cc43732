package engine

import (
	"reflect"
	"time"

	"github.com/redis/rueidis"
)

// A client tells nobody what it was made with. So its fields are read: those of the clients of the version that go.mod
// names, which a test checks. What is not there, or is somebody's wrapper around a client, is not refused.

// brokenOption names an option of a given client that breaks a promise, with what it should be; "" if none is seen.
func brokenOption(client rueidis.Client) string {
	v := reflect.Indirect(reflect.ValueOf(client))
	option := reflect.TypeFor[rueidis.ClientOption]()
	if v.Kind() != reflect.Struct || v.Type().PkgPath() != option.PkgPath() {
		return ""
	}
	for _, name := range []string{"opt", "mOpt"} { // of a cluster, and of a master behind sentinels
		if o := inside(v, name); o.IsValid() && o.Type() == option {
			return brokenOf(o)
		}
	}
	return brokenSingle(v)
}

// mostWriteTimeout is the longest ConnWriteTimeout: ClientOption's.
const mostWriteTimeout = 2 * time.Second

// The words for what is refused.
const (
	brokenRetry     = "DisableRetry is false: commands would be sent twice"
	brokenPipeline  = "AlwaysPipelining is false: answers that have arrived would be lost"
	brokenPool      = "DisableAutoPipelining is true: answers that have arrived would be lost"
	brokenMultiplex = "PipelineMultiplex is not -1: the commands of a key would change places"
	brokenTimeout   = "ConnWriteTimeout is above 2s: a dead connection would be noticed too late"
	brokenLifetime  = "ConnLifetime is set: connections would end with commands on their way"
	brokenDial      = "DialCtxFn is not ClientOption's: a server's reply could end the process"
	brokenReplica   = "ReplicaOnly is true: replicas give no locks"
)

// brokenOf looks at an option.
func brokenOf(o reflect.Value) string {
	switch {
	case !o.FieldByName("DisableRetry").Bool():
		return brokenRetry
	case o.FieldByName("DisableAutoPipelining").Bool():
		return brokenPool
	case !o.FieldByName("AlwaysPipelining").Bool():
		return brokenPipeline
	case o.FieldByName("PipelineMultiplex").Int() > 0 || o.FieldByName("PipelineMultiplex").Int() == 0 && cluster(o):
		return brokenMultiplex
	case o.FieldByName("ConnWriteTimeout").Int() > int64(mostWriteTimeout):
		return brokenTimeout
	case o.FieldByName("ConnLifetime").Int() > 0:
		return brokenLifetime
	case o.FieldByName("DialCtxFn").IsNil():
		return brokenDial
	case o.FieldByName("ReplicaOnly").Bool():
		return brokenReplica
	default:
		return ""
	}
}

// cluster reports whether an option is a cluster's: there 0 means the client's own choice, which is several
// connections. For sentinels the client has made it 0.
func cluster(o reflect.Value) bool {
	return o.FieldByName("Sentinel").FieldByName("MasterSet").Len() == 0
}

// brokenSingle looks at the client of a single server: at what has become of its option.
func brokenSingle(v reflect.Value) string {
	mux := inside(v, "conn")
	wires := inside(mux, "muxwires")
	var pipe reflect.Value
	if wires.IsValid() && wires.Len() > 0 {
		pipe = inside(wires.Index(0), "wire", "v")
	}
	conn, background, timeout := inside(pipe, "conn"), inside(pipe, "bgState"), inside(pipe, "timeout")
	switch {
	case isTrue(inside(v, "retry")):
		return brokenRetry
	case isTrue(inside(mux, "usePool")):
		return brokenPool
	case background.IsValid() && background.Int() == 0:
		return brokenPipeline
	case wires.IsValid() && wires.Len() > 1:
		return brokenMultiplex
	case timeout.IsValid() && timeout.Int() > int64(mostWriteTimeout):
		return brokenTimeout
	case isTrue(inside(v, "hasLftm")):
		return brokenLifetime
	case conn.IsValid() && conn.Type().Name() != "watched":
		return brokenDial
	default:
		return ""
	}
}

func isTrue(v reflect.Value) bool { return v.IsValid() && v.Kind() == reflect.Bool && v.Bool() }

// inside follows the names of fields, through pointers and interfaces; the zero Value if one is not there.
func inside(v reflect.Value, names ...string) reflect.Value {
	for _, name := range names {
		if v.Kind() != reflect.Struct {
			return reflect.Value{}
		}
		v = v.FieldByName(name)
		for v.Kind() == reflect.Pointer || v.Kind() == reflect.Interface {
			v = v.Elem()
		}
	}
	return v
}
