package resp

import (
	"errors"
	"strings"

	"github.com/redis/rueidis"
)

// Class says what kind of trouble an error is, and so what may be done about it.
type Class uint8

// The classes, and what a caller may conclude.
const (
	ClassNone        Class = iota // no error
	ClassUnknown                  // sent, no answer: it may have run, or may still run
	ClassUnreachable              // no connection could be made; nothing was sent
	ClassRefused                  // the not-after had passed three times over: nothing ran
	ClassClosed                   // this engine is closed; nothing was sent
	ClassOverloaded               // a queue here is full; nothing was sent
	ClassPartly                   // a script failed in the middle: it may have changed something
	ClassNoScript                 // the server does not know the script; nothing ran
	ClassWrongType                // the key holds a value of another type
	ClassOOM                      // the server's memory is full
	ClassReadOnly                 // a replica, or a master that was demoted
	ClassMisconf                  // the server refuses writes because it cannot persist
	ClassNoReplicas               // too few replicas for the server's own rule
	ClassBusy                     // a script runs too long on the server
	ClassLoading                  // the server is reading its data set
	ClassMasterDown               // a replica that has lost its master
	ClassNoAuth                   // not authenticated, or wrong password
	ClassNoPerm                   // the ACL refuses a command, key or channel
	ClassMaxClients               // the server takes no more connections
	ClassMoved                    // the slot lives elsewhere (MOVED)
	ClassAsk                      // the key may live elsewhere (ASK)
	ClassTryAgain                 // the slot is moving
	ClassCrossSlot                // keys of several slots in one command
	ClassClusterDown              // the cluster does not serve this slot
	ClassOther                    // any other refusal
)

var classNames = [...]string{
	"none", "unknown", "unreachable", "refused", "closed", "overloaded", "partly", "noscript",
	"wrongtype", "oom", "readonly", "misconf", "noreplicas", "busy", "loading", "masterdown",
	"noauth", "noperm", "maxclients", "moved", "ask", "tryagain", "crossslot", "clusterdown", "other",
}

// String names the class as metrics and logs show it.
func (c Class) String() string {
	if int(c) < len(classNames) {
		return classNames[c]
	}
	return "other"
}

// Definite reports whether an error of this class proves that the command changed nothing and
// never will.
func (c Class) Definite() bool {
	return c != ClassUnknown && c != ClassPartly
}

// Transient reports whether the same command can succeed later without anybody's help.
func (c Class) Transient() bool {
	switch c {
	case ClassUnknown, ClassUnreachable, ClassRefused, ClassNoScript, ClassReadOnly, ClassBusy,
		ClassLoading, ClassMasterDown, ClassMaxClients, ClassMoved, ClassAsk, ClassTryAgain,
		ClassClusterDown:
		return true
	default:
		return false
	}
}

// perKey reports whether an error of this class may be one key's fault, so that a batch refused
// with it has to be split.
func (c Class) perKey() bool {
	switch c {
	case ClassNoPerm, ClassCrossSlot, ClassMoved, ClassAsk, ClassTryAgain, ClassWrongType:
		return true
	default:
		return false
	}
}

// A ServerError is an error reply of the server, or the failure to get any.
type ServerError struct {
	Class Class
	Text  string
	cause error
	said  bool // Text has the server's own words
	// malformed: the reply is none of our scripts'. What comes next on its connection may answer other commands than it
	// seems to.
	malformed bool
}

// Error returns the server's own words; see Printable.
func (e *ServerError) Error() string { return "holdfast: server: " + e.Text }

// Unwrap returns the transport's error, if it was one.
func (e *ServerError) Unwrap() error { return e.cause }

// replyPrefixes maps the first word of an error reply to its class: FAULTS section 4.4.
var replyPrefixes = map[string]Class{
	"NOSCRIPT":    ClassNoScript,
	"WRONGTYPE":   ClassWrongType,
	"OOM":         ClassOOM,
	"READONLY":    ClassReadOnly,
	"MISCONF":     ClassMisconf,
	"NOREPLICAS":  ClassNoReplicas,
	"BUSY":        ClassBusy,
	"LOADING":     ClassLoading,
	"MASTERDOWN":  ClassMasterDown,
	"NOAUTH":      ClassNoAuth,
	"WRONGPASS":   ClassNoAuth,
	"NOPERM":      ClassNoPerm,
	"MOVED":       ClassMoved,
	"ASK":         ClassAsk,
	"TRYAGAIN":    ClassTryAgain,
	"CROSSSLOT":   ClassCrossSlot,
	"CLUSTERDOWN": ClassClusterDown,
	"UNBLOCKED":   ClassReadOnly, // a WAIT, because the master was demoted meanwhile
}

// classOfReply finds the class of an error reply. Text that names a running script without a known
// prefix was raised in the middle of it.
func classOfReply(text string) Class {
	// Redis before 7 puts the place in front of what a command inside a script answers.
	if rest, ok := strings.CutPrefix(text, "@user_script: "); ok {
		_, text, _ = strings.Cut(rest, ": ")
	}
	word, _, _ := strings.Cut(strings.TrimPrefix(text, "-"), " ")
	if c, ok := replyPrefixes[word]; ok {
		return c
	}
	switch {
	case strings.Contains(text, "max number of clients"):
		return ClassMaxClients
	case strings.Contains(text, "OOM command not allowed"):
		return ClassOOM
	case strings.Contains(text, "The user executing the script can't"), strings.Contains(text, "No permission"),
		strings.Contains(text, "has no permissions to"):
		return ClassNoPerm // the only calls of our scripts that are not pcalls come before any write
	case strings.Contains(text, "non local key in a cluster node"), strings.Contains(text, "access a slot not served"):
		return ClassMoved // of one key in a script: it changed nothing, and names no other node; the second from 7.2 on
	case strings.Contains(text, "WAIT cannot be used with replica"):
		return ClassReadOnly
	case strings.Contains(text, "while the cluster is down"):
		return ClassClusterDown
	case strings.Contains(text, "script: "):
		return ClassPartly
	default:
		return ClassOther
	}
}

// classify turns any error of a command into a *ServerError with its class; nil stays nil.
func classify(err error) *ServerError {
	if err == nil {
		return nil
	}
	var known *ServerError
	if errors.As(err, &known) {
		return known
	}
	if reply, ok := rueidis.IsRedisErr(err); ok {
		text := reply.Error()
		return &ServerError{Class: classOfReply(text), Text: Printable(text), said: true}
	}
	return &ServerError{Class: ClassUnknown, Text: "no answer: " + Printable(err.Error()), cause: err}
}

// AsServerError returns err as the *ServerError it is, or wraps it as one of ClassOther.
func AsServerError(err error) *ServerError {
	var s *ServerError
	if errors.As(err, &s) {
		return s
	}
	return &ServerError{Class: ClassOther, Text: Printable(err.Error()), cause: err}
}

// unreachable wraps the failure to connect. What the server itself said keeps its class.
func unreachable(err error) *ServerError {
	if reply, ok := rueidis.IsRedisErr(err); ok {
		text := reply.Error()
		return &ServerError{Class: classOfReply(text), Text: Printable(text), said: true}
	}
	return &ServerError{Class: ClassUnreachable, Text: "cannot connect: " + Printable(err.Error()), cause: err}
}
