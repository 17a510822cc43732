package resp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/internal/redistest"
)

// Every error reply of FAULTS 4.4, as real servers word it. transient: sent again without anybody's
// help. definite: it changed nothing and never will.
func TestC035_EveryErrorReplyHasItsClassAndItsConsequence(t *testing.T) {
	for _, c := range []struct {
		text                string
		class               Class
		definite, transient bool
	}{
		{"MOVED 3999 127.0.0.1:6381", ClassMoved, true, true},
		{"ASK 3999 127.0.0.1:6381", ClassAsk, true, true},
		{"TRYAGAIN Multiple keys request during rehashing of slot", ClassTryAgain, true, true},
		{"CLUSTERDOWN Hash slot not served", ClassClusterDown, true, true},
		{"CLUSTERDOWN The cluster is down", ClassClusterDown, true, true},
		{"ERR Script attempted to access a non local key in a cluster node", ClassMoved, true, true},
		{"ERR Script attempted to access a slot not served", ClassMoved, true, true}, // 7.2 on, of a slot nobody has
		{"CROSSSLOT Keys in request don't hash to the same slot", ClassCrossSlot, true, false},
		{"LOADING Redis is loading the dataset in memory", ClassLoading, true, true},
		{"MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.", ClassMasterDown, true, true},
		{"READONLY You can't write against a read only replica.", ClassReadOnly, true, true},
		{"NOSCRIPT No matching script. Please use EVAL.", ClassNoScript, true, true},
		{"NOAUTH Authentication required.", ClassNoAuth, true, false},
		{"WRONGPASS invalid username-password pair or user is disabled.", ClassNoAuth, true, false},
		{"NOPERM this user has no permissions to run the 'evalsha' command", ClassNoPerm, true, false},
		{"NOPERM this user has no permissions to access one of the keys used as arguments", ClassNoPerm, true, false},
		{"NOPERM No permissions to access a key", ClassNoPerm, true, false},
		{"BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.", ClassBusy, true, true},
		{"OOM command not allowed when used memory > 'maxmemory'.", ClassOOM, true, false},
		{"MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk.", ClassMisconf, true, false},
		{"NOREPLICAS Not enough good replicas to write.", ClassNoReplicas, true, false},
		{"ERR max number of clients reached", ClassMaxClients, true, true},
		{"ERR max number of clients + cluster connections reached", ClassMaxClients, true, true},
		{"WRONGTYPE Operation against a key holding the wrong kind of value", ClassWrongType, true, false},
		{"ERR unknown command 'EVALSHA', with args beginning with: ", ClassOther, true, false},
		// Raised by the first command of a script, which only reads: nothing was written.
		{"OOM command not allowed when used memory > 'maxmemory'. script: 2067d915024a3e1657c4169c84f809f8ebb75b9c, on @user_script:1.", ClassOOM, true, false},
		{"ERR The user executing the script can't run this command or subcommand script: 2067d915024a3e1657c4169c84f809f8ebb75b9c, on @user_script:13.", ClassNoPerm, true, false},
		{"ERR The user executing the script can't access at least one of the keys mentioned in the command arguments script: 640a27e72d34d006afbb8118897397b35aef62d1, on @user_script:1.", ClassNoPerm, true, false},
		{"ERR The user executing the script can't publish to the channel mentioned in the command script: 640a27e72d34d006afbb8118897397b35aef62d1, on @user_script:1.", ClassNoPerm, true, false},
		{"ERR ACL failure in script: No permissions to access a key script: 640a27e72d34d006afbb8118897397b35aef62d1, on @user_script:1.", ClassNoPerm, true, false},
		// Raised in the middle of one, for a reason we do not know: anything may have happened before.
		{"ERR value is not an integer or out of range script: 2067d915024a3e1657c4169c84f809f8ebb75b9c, on @user_script:7.", ClassPartly, false, false},
		{"ERR user_script:3: attempt to perform arithmetic on a nil value script: 2067d915024a3e1657c4169c84f809f8ebb75b9c, on @user_script:3.", ClassPartly, false, false},
		// Words inside a text are not its class.
		{"ERR something about MOVED and OOM", ClassOther, true, false},
		{"MOVEDON 1 2", ClassOther, true, false},
		{"", ClassOther, true, false},
	} {
		t.Run(fmt.Sprintf("%.70s", c.text), func(t *testing.T) {
			got := classOfReply(c.text)
			require.Equal(t, c.class, got, "%q is %v", c.text, got)
			require.Equal(t, c.definite, got.Definite())
			require.Equal(t, c.transient, got.Transient())
			require.Equal(t, c.class, classOfReply("-"+c.text), "with the protocol's dash")
			require.NotEqual(t, "none", got.String())
		})
	}
}

// What the transport says after a command was written proves nothing.
func TestC035_EveryErrorOfTheTransportIsUnknown(t *testing.T) {
	for _, err := range []error{
		io.EOF, io.ErrUnexpectedEOF, io.ErrClosedPipe, net.ErrClosed, os.ErrDeadlineExceeded,
		context.DeadlineExceeded, context.Canceled, syscall.ECONNRESET, syscall.EPIPE, syscall.ETIMEDOUT,
		&net.OpError{Op: "read", Net: "tcp", Err: syscall.ECONNRESET},
		&net.OpError{Op: "write", Net: "tcp", Err: syscall.EPIPE},
		fmt.Errorf("wrapped: %w", io.EOF), errors.New("anything else"),
	} {
		got := classify(err)
		require.Equal(t, ClassUnknown, got.Class, "%v", err)
		require.False(t, got.Class.Definite())
		require.True(t, got.Class.Transient(), "asked again under the same owner id")
		require.ErrorIs(t, got, err, "the cause stays visible")
	}
	require.Nil(t, classify(nil))
	known := &ServerError{Class: ClassOOM, Text: "OOM"}
	require.Same(t, known, classify(fmt.Errorf("wrapped: %w", known)))
}

// Before a connection stands nothing was sent.
func TestC035_FailureToConnectIsDefinite(t *testing.T) {
	for _, err := range []error{syscall.ECONNREFUSED, context.DeadlineExceeded, &net.OpError{Op: "dial", Err: syscall.EHOSTUNREACH}, io.EOF} {
		got := unreachable(err)
		require.Equal(t, ClassUnreachable, got.Class)
		require.True(t, got.Class.Definite())
		require.True(t, got.Class.Transient())
		require.ErrorIs(t, got, err)
	}
}

func TestEveryClassHasANameAndTheTwoThatAreNotDefinite(t *testing.T) {
	require.Len(t, classNames, int(ClassOther)+1)
	names := make(map[string]bool)
	for c := ClassNone; c <= ClassOther; c++ {
		require.NotEmpty(t, c.String())
		require.False(t, names[c.String()], "%v twice", c)
		names[c.String()] = true
		require.Equal(t, c != ClassUnknown && c != ClassPartly, c.Definite(), "%v", c)
	}
	require.Equal(t, "other", Class(200).String())
}

// The words of the server at hand, so that the table above is not about servers of the past.
func TestC035_RepliesOfTheRealServerHaveTheirClasses(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	ctx := context.Background()
	class := func(args ...string) Class {
		t.Helper()
		_, err := s.Command(ctx, args...)
		require.Error(t, err, "%q", args)
		return classOfReply(err.Error())
	}
	require.Equal(t, ClassNoScript, class("EVALSHA", "ffffffffffffffffffffffffffffffffffffffff", "0"))
	s.Do(t, "SET", "text", "value")
	require.Equal(t, ClassWrongType, class("HGET", "text", "field"))
	require.Equal(t, ClassPartly, class("EVAL", "redis.call('SET', 'a', 'b') return redis.call('INCR', 'a')", "0"), "after a write")
	require.Equal(t, ClassPartly, class("EVAL", "redis.call('SET', 'a', 'b') error('boom')", "0"))

	s.Do(t, "CONFIG", "SET", "maxmemory", "1")
	require.Equal(t, ClassOOM, class("SET", "x", "y"))
	require.Equal(t, ClassOOM, class("EVAL", "return redis.call('SET', 'x', 'y')", "1", "x"))
	s.Do(t, "CONFIG", "SET", "maxmemory", "0")

	s.Do(t, "CONFIG", "SET", "min-replicas-to-write", "1")
	require.Equal(t, ClassNoReplicas, class("SET", "x", "y"))
	s.Do(t, "CONFIG", "SET", "min-replicas-to-write", "0")

	s.Do(t, "REPLICAOF", "127.0.0.1", "1")
	require.Equal(t, ClassReadOnly, class("SET", "x", "y"))
	s.Do(t, "CONFIG", "SET", "replica-serve-stale-data", "no")
	require.Equal(t, ClassMasterDown, class("GET", "x"))
	s.Do(t, "REPLICAOF", "NO", "ONE")

	s.Do(t, "ACL", "SETUSER", "weak", "on", ">pass", "+get", "+evalsha", "+eval", "+publish", "resetchannels", "~allowed")
	conn, err := s.Dial(ctx)
	require.NoError(t, err)
	defer conn.Close()
	_, err = conn.Do(ctx, "AUTH", "weak", "wrong")
	require.Equal(t, ClassNoAuth, classOfReply(err.Error()))
	_, err = conn.Do(ctx, "AUTH", "weak", "pass")
	require.NoError(t, err)
	for _, args := range [][]string{
		{"SET", "allowed", "x"},
		{"GET", "forbidden"},
		{"EVAL", "return 1", "1", "forbidden"},
		{"EVAL", "return redis.call('TIME')", "0"},
		{"EVAL", "return redis.call('GET', 'forbidden')", "0"},
		{"EVAL", "return redis.call('PUBLISH', 'forbidden', '0')", "0"},
	} {
		_, err = conn.Do(ctx, args...)
		require.Error(t, err)
		require.Equal(t, ClassNoPerm, classOfReply(err.Error()), "%q: %v", args, err)
	}

	secret := redistest.Run(t, redistest.Options{Args: []string{"--requirepass", "secret"}})
	bare, err := redistest.Dial(ctx, secret.Addr())
	require.NoError(t, err)
	defer bare.Close()
	_, err = bare.Do(ctx, "GET", "x")
	require.Equal(t, ClassNoAuth, classOfReply(err.Error()))

	s.Do(t, "CONFIG", "SET", "busy-reply-threshold", "1")
	busy, err := s.Dial(ctx)
	require.NoError(t, err)
	defer busy.Close()
	require.NoError(t, busy.Send("EVAL", "while true do end", "0"))
	for {
		_, err := s.Command(ctx, "GET", "x")
		if err != nil {
			require.Equal(t, ClassBusy, classOfReply(err.Error()), "%v", err)
			break
		}
	}
	s.Do(t, "SCRIPT", "KILL")
	require.Eventually(t, func() bool { // it dies at its next look
		_, err := s.Command(ctx, "CONFIG", "SET", "maxclients", "1")
		return err == nil
	}, nodeLong, time.Millisecond)

	full, err := redistest.Dial(ctx, s.Addr())
	require.NoError(t, err)
	defer full.Close()
	said, err := io.ReadAll(full)
	require.NoError(t, err)
	require.Equal(t, ClassMaxClients, classOfReply(string(bytes.TrimSpace(said))), "%s", said)
}

func TestWordsOfAnErrorAreReadForItsClass(t *testing.T) {
	for text, want := range map[string]Class{
		"@user_script: 5: OOM command not allowed":                        ClassOOM,
		"@user_script: 5: -READONLY no":                                   ClassReadOnly,
		"user_script: OOM command not allowed":                            ClassOOM,
		"ERR has no permissions to do it":                                 ClassNoPerm,
		"ERR No permissions":                                              ClassNoPerm,
		"ERR WAIT cannot be used with replica instances.":                 ClassReadOnly,
		"UNBLOCKED force unblock from blocking operation":                 ClassReadOnly,
		"ERR Script executed while the cluster is down":                   ClassClusterDown,
		"ERR something in script: 12":                                     ClassPartly,
		"ERR The user executing the script can't run it, in a script: 12": ClassNoPerm,
	} {
		require.Equal(t, want, classOfReply(text), text)
	}
	known := &ServerError{Class: ClassOOM}
	require.Same(t, known, AsServerError(fmt.Errorf("wrapped: %w", known)))
	other := AsServerError(io.EOF)
	require.Equal(t, ClassOther, other.Class)
	require.Equal(t, "EOF", other.Text)
	require.ErrorIs(t, other, io.EOF)
	require.Equal(t, "other", (ClassOther + 1).String())
	require.Equal(t, "holdfast: server: EOF", other.Error())
}
