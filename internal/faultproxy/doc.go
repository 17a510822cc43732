// Package faultproxy is a TCP proxy for tests that understands RESP, and so can
// lose exactly one reply, deliver exactly one command too late, or swallow pub/sub
// messages on a connection that is otherwise in perfect health.
//
//	p := faultproxy.Run(t, server.Addr())
//	client := dial(p.Addr())
//	lost := p.DropReply(faultproxy.Command("EVALSHA"), 1)
//	_, err := client.TryLock(ctx, "name") // executed, reply lost, connection cut
//	<-lost.C()                            // no sleep: the rule has struck
//
// How it works. Each connection has two readers and two writers:
//
//	client -> readCommands -> toServer line -> deliver -> server
//	client <- deliver <- toClient line <- readReplies <- server
//
// readCommands notes every command in the list of pending replies before it puts
// the bytes on the line; readReplies matches each reply to the first of the list.
// RESP3 push frames are out of band and match nothing, but for the confirmations of
// SUBSCRIBE and its kin, which are pushes and take the place of their replies. A
// RESP2 connection that subscribes is passed through from then on: DropReply no
// longer works on it, everything else does.
//
// A line delays and holds bytes without blocking its reader. So commands held back
// reach the server after their client has long closed the connection: the late copy
// that a stopped server or a slow network produces.
//
// A Mangler changes what the server says on its way: replies, or any byte.
//
// Rules apply to commands read after the rule was set. CLIENT REPLY OFF and SKIP,
// MONITOR and inline commands are not supported.
package faultproxy
