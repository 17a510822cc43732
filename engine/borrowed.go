package engine

import (
	"cmp"
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
			return cmp.Or(brokenOf(o), brokenNodes(client))
		}
	}
	return brokenSingle(v)
}

// brokenNodes looks at the connections that a cluster's client, or one behind sentinels, has by now: a function tells
// nothing of itself, but what it has dialled does.
func brokenNodes(client rueidis.Client) string {
	for _, node := range client.Nodes() {
		if foreign(pipeOf(reflect.Indirect(reflect.ValueOf(node)))) {
			return brokenDial
		}
	}
	return ""
}

// pipeOf is the connection of a client of a single server, with its reader and writer; the zero Value if there is none.
func pipeOf(v reflect.Value) reflect.Value {
	wires := inside(v, "conn", "muxwires")
	if !wires.IsValid() || wires.Len() == 0 {
		return reflect.Value{}
	}
	return inside(wires.Index(0), "wire", "v")
}

// foreign reports whether a connection is not one that ClientOption's DialCtxFn has made.
func foreign(pipe reflect.Value) bool {
	conn := inside(pipe, "conn")
	return conn.IsValid() && conn.Type().Name() != "watched"
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
	case !isTrue(inside(o, "DisableRetry")):
		return brokenRetry
	case isTrue(inside(o, "DisableAutoPipelining")):
		return brokenPool
	case !isTrue(inside(o, "AlwaysPipelining")):
		return brokenPipeline
	case number(inside(o, "PipelineMultiplex")) > 0 || number(inside(o, "PipelineMultiplex")) == 0 && cluster(o):
		return brokenMultiplex
	case number(inside(o, "ConnWriteTimeout")) > int64(mostWriteTimeout):
		return brokenTimeout
	case number(inside(o, "ConnLifetime")) > 0:
		return brokenLifetime
	case isNil(inside(o, "DialCtxFn")):
		return brokenDial
	case isTrue(inside(o, "ReplicaOnly")):
		return brokenReplica
	default:
		return ""
	}
}

// cluster reports whether an option is a cluster's: there 0 means the client's own choice, which is several
// connections. For sentinels the client has made it 0.
func cluster(o reflect.Value) bool {
	set := inside(o, "Sentinel", "MasterSet")
	return set.IsValid() && set.Len() == 0
}

// brokenSingle looks at the client of a single server: at what has become of its option.
func brokenSingle(v reflect.Value) string {
	mux, pipe := inside(v, "conn"), pipeOf(v)
	wires, background, timeout := inside(mux, "muxwires"), inside(pipe, "bgState"), inside(pipe, "timeout")
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
	case foreign(pipe):
		return brokenDial
	default:
		return ""
	}
}

func isNil(v reflect.Value) bool { return v.Kind() == reflect.Func && v.IsNil() }

// number is an integer; 0 if it is not there.
func number(v reflect.Value) int64 {
	if !v.IsValid() || !v.CanInt() {
		return 0
	}
	return v.Int()
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
