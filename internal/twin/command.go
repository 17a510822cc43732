package twin

import (
	"slices"
	"strconv"
	"strings"
)

// An op is a command that the twin knows.
type op uint8

const (
	opUnknown op = iota
	opTime
	opPing
	opExists
	opDel
	opType
	opPTTL
	opPExpire
	opPersist
	opGet
	opSet
	opIncrBy
	opHSet
	opHGet
	opHDel
	opHMGet
	opHExists
	opHLen
	opHGetAll
	opHScan
	opHIncrBy
	opLLen
	opLIndex
	opLRange
	opLPos
	opLRem
	opLPop
	opRPush
	opLInsert
	opZAdd
	opZRem
	opZScore
	opZCard
	opZCount
	opZRange
	opZRangeByScore
	opZIncrBy
	opCopy
	opDump
	opRestore
	opPublish
	opPubSub
	opInfo
	opFlushAll
	opLast
)

// opOf finds a command by its name in capitals.
func opOf(name string) op {
	switch name {
	case "TIME":
		return opTime
	case "PING":
		return opPing
	case "EXISTS":
		return opExists
	case "DEL", "UNLINK":
		return opDel
	case "TYPE":
		return opType
	case "PTTL":
		return opPTTL
	case "PEXPIRE":
		return opPExpire
	case "PERSIST":
		return opPersist
	case "GET":
		return opGet
	case "SET":
		return opSet
	case "INCRBY", "INCR", "DECR", "DECRBY":
		return opIncrBy
	case "HSET", "HMSET":
		return opHSet
	case "HGET":
		return opHGet
	case "HDEL":
		return opHDel
	case "HMGET":
		return opHMGet
	case "HEXISTS":
		return opHExists
	case "HLEN":
		return opHLen
	case "HGETALL":
		return opHGetAll
	case "HSCAN":
		return opHScan
	case "HINCRBY":
		return opHIncrBy
	case "PUBLISH", "SPUBLISH":
		return opPublish
	case "FLUSHALL", "FLUSHDB":
		return opFlushAll
	}
	return lessCommon(name)
}

func lessCommon(name string) op {
	switch name {
	case "LLEN":
		return opLLen
	case "LINDEX":
		return opLIndex
	case "LRANGE":
		return opLRange
	case "LPOS":
		return opLPos
	case "LREM":
		return opLRem
	case "LPOP":
		return opLPop
	case "RPUSH":
		return opRPush
	case "LINSERT":
		return opLInsert
	case "ZADD":
		return opZAdd
	case "ZREM":
		return opZRem
	case "ZSCORE":
		return opZScore
	case "ZCARD":
		return opZCard
	case "ZCOUNT":
		return opZCount
	case "ZRANGE":
		return opZRange
	case "ZRANGEBYSCORE":
		return opZRangeByScore
	case "ZINCRBY":
		return opZIncrBy
	case "COPY":
		return opCopy
	case "DUMP":
		return opDump
	case "RESTORE":
		return opRestore
	case "PUBSUB":
		return opPubSub
	case "INFO":
		return opInfo
	}
	return opUnknown
}

// A trait is what the server's table of commands says about one.
type trait uint8

const (
	writes trait = 1 << iota
	grows        // refused when memory is full
	every        // each argument is a key
	two          // so are the first two
	none         // no argument is a key
)

//nolint:gochecknoglobals // a constant in all but name
var traits = [opLast]trait{
	opTime: none, opPing: none, opPubSub: none, opInfo: none, opFlushAll: none | writes,
	opExists: every, opDel: every | writes,
	opPExpire: writes, opPersist: writes,
	opSet: writes | grows, opIncrBy: writes | grows,
	opHSet: writes | grows, opHDel: writes, opHIncrBy: writes | grows,
	opLRem: writes, opLPop: writes, opRPush: writes | grows, opLInsert: writes | grows,
	opZAdd: writes | grows, opZRem: writes, opZIncrBy: writes | grows,
	opCopy: two | writes | grows, opRestore: writes | grows,
}

// Writes reports whether a command, its name in capitals, may change the keyspace.
func Writes(command string) bool { return traits[opOf(command)]&writes != 0 }

// Grows reports whether a command, its name in capitals, is refused when memory is full.
func Grows(command string) bool { return traits[opOf(command)]&grows != 0 }

var oom = failure("OOM command not allowed when used memory > 'maxmemory'.")

// pcall is redis.pcall: what a script calls. The order of the refusals is the server's.
func (s *Server) pcall(args ...string) Reply {
	o := opOf(args[0])
	if o == opUnknown {
		return failure("ERR Unknown Redis command called from script")
	}
	t := traits[o]
	if s.Deny != nil {
		if no := s.deniedKeys(o, args); no.err() {
			return no
		}
	}
	if t&writes != 0 {
		if s.Refuse != "" {
			return failure(s.Refuse)
		}
		if s.OOM && t&grows != 0 && !s.wrote {
			return oom
		}
		s.wrote = true
	}
	if s.Elsewhere != nil {
		if keys := keysOf(o, args); len(keys) > 0 {
			if no := s.Elsewhere(slices.Clone(keys)); no != "" { // a copy: args need not outlive the call otherwise
				return failure(no)
			}
		}
	}
	return s.exec(o, args)
}

// keysOf lists the keys of a command.
func keysOf(o op, args []string) []string {
	switch t := traits[o]; {
	case o == opPublish && args[0] == "PUBLISH", t&none != 0, len(args) < 2:
		return nil
	case t&every != 0:
		return args[1:]
	case t&two != 0 && len(args) > 2:
		return args[1:3]
	default:
		return args[1:2]
	}
}

// deniedKeys asks the ACL about a command.
func (s *Server) deniedKeys(o op, args []string) Reply {
	keys := keysOf(o, args)
	if o == opPublish && len(args) > 1 {
		keys = args[1:2]
	}
	if len(keys) == 0 {
		return s.denied(args[0], "")
	}
	for _, key := range keys {
		if no := s.denied(args[0], key); no.err() {
			return no
		}
	}
	return Reply{}
}

func (s *Server) denied(command, key string) Reply {
	if s.Deny != nil {
		if no := s.Deny(command, key); no != "" {
			return failure(no)
		}
	}
	return Reply{}
}

// plain runs a command that no script has called.
func (s *Server) plain(args []string) Reply {
	name := strings.ToUpper(args[0])
	o := opOf(name)
	if o == opUnknown {
		return s.admin(name, args)
	}
	if name != args[0] {
		args = append([]string{name}, args[1:]...)
	}
	t := traits[o]
	if s.Deny != nil {
		if no := s.deniedKeys(o, args); no.err() {
			return no
		}
	}
	if s.Redirect != nil {
		if keys := keysOf(o, args); len(keys) > 0 {
			if no := s.Redirect(keys); no != "" {
				return failure(no)
			}
		}
	}
	switch {
	case t&grows != 0 && s.OOM:
		return oom
	case t&writes != 0 && s.Refuse != "":
		return failure(s.Refuse)
	}
	return s.exec(o, args)
}

// admin runs what is no data command.
func (s *Server) admin(name string, args []string) Reply {
	switch name {
	case "EVALSHA", "EVAL", "SCRIPT":
		if name != args[0] {
			return s.run(append([]string{name}, args[1:]...))
		}
	case "ASKING":
		s.Asking = true
		return ok
	case "WAIT":
		return number(s.Acks)
	case "ROLE":
		return array([]Reply{text(s.Role)})
	}
	return failure("ERR unknown command '" + args[0] + "', with args beginning with: ")
}

// info is INFO section: memory, server, and of replication and stats what scripts look at.
func (s *Server) info(sections []string) string {
	var b strings.Builder
	for _, section := range sections {
		switch strings.ToLower(section) {
		case "memory":
			b.WriteString("# Memory\r\nmaxmemory:" + strconv.FormatInt(s.MaxMemory, 10) + "\r\nmaxmemory_policy:" + s.Policy + "\r\n")
		case "server":
			b.WriteString("# Server\r\nredis_version:" + s.Version + "\r\nredis_mode:" + s.Mode + "\r\n")
			if s.Run != "" {
				b.WriteString("run_id:" + s.Run + "\r\n")
			}
		case "replication":
			b.WriteString("# Replication\r\nrole:" + s.Role + "\r\nconnected_slaves:" + strconv.FormatInt(s.Replicas, 10) +
				"\r\nrepl_backlog_active:" + strconv.FormatInt(flag(s.Backlog), 10) + "\r\n")
		case "stats":
			b.WriteString("# Stats\r\npubsub_channels:" + strconv.Itoa(len(s.channels(false))) +
				"\r\npubsub_patterns:" + strconv.FormatInt(s.Patterns, 10) +
				"\r\npubsubshard_channels:" + strconv.Itoa(len(s.channels(true))) + "\r\n")
		}
	}
	return b.String()
}

// exec runs a command. Its arguments are as many as scripts and tests send: fewer are an error, more may be ignored.
func (s *Server) exec(o op, args []string) Reply {
	if len(args) < least[o] {
		return arity(strings.ToLower(args[0]))
	}
	switch o {
	case opTime:
		return array([]Reply{text(strconv.FormatInt(s.micros/1e6, 10)), text(strconv.FormatInt(s.micros%1e6, 10))})
	case opPing:
		return Reply{Kind: Status, Text: "PONG"}
	case opExists:
		return s.exists(args[1:])
	case opDel:
		return s.del(args[1:])
	case opType:
		return s.kindOf(args[1])
	case opPTTL:
		return s.pttl(args[1])
	case opPExpire:
		return s.pexpire(args)
	case opPersist:
		return s.persist(args[1])
	case opGet:
		return s.getString(args[1])
	case opSet:
		return s.set(args)
	case opIncrBy:
		return s.incrby(args)
	case opHSet:
		return s.hset(args)
	case opHGet:
		return s.hget(args[1], args[2])
	case opHDel:
		return s.hdel(args[1], args[2:])
	case opHMGet:
		return s.hmget(args[1], args[2:])
	case opHExists:
		return s.hexists(args[1], args[2])
	case opHLen:
		return s.hlen(args[1])
	case opHGetAll:
		return s.hgetall(args[1])
	case opHScan:
		return s.hscan(args[1], args[2])
	case opHIncrBy:
		return s.hincrby(args[1], args[2], args[3])
	default:
		return s.execMore(o, args)
	}
}

func (s *Server) execMore(o op, args []string) Reply {
	switch o {
	case opCopy:
		return s.copy(args)
	case opDump:
		return s.dump(args[1])
	case opRestore:
		return s.restore(args)
	case opPublish:
		return s.publish(args)
	case opPubSub:
		return s.pubsub(args)
	case opInfo:
		return text(s.info(args[1:]))
	case opFlushAll:
		s.Flush()
		return ok
	case opLLen, opLIndex, opLRange, opLPos, opLRem, opLPop, opRPush, opLInsert:
		return s.listCommand(o, args)
	default:
		return s.zsetCommand(o, args)
	}
}

// least is how many words a command has at least.
//
//nolint:gochecknoglobals // a constant in all but name
var least = [opLast]int{
	opTime: 1, opPing: 1, opExists: 2, opDel: 2, opType: 2, opPTTL: 2, opPExpire: 3, opPersist: 2,
	opGet: 2, opSet: 3, opIncrBy: 2,
	opHSet: 4, opHGet: 3, opHDel: 3, opHMGet: 3, opHExists: 3, opHLen: 2, opHGetAll: 2, opHScan: 3, opHIncrBy: 4,
	opLLen: 2, opLIndex: 3, opLRange: 4, opLPos: 3, opLRem: 4, opLPop: 2, opRPush: 3, opLInsert: 5,
	opZAdd: 4, opZRem: 3, opZScore: 3, opZCard: 2, opZCount: 4, opZRange: 4, opZRangeByScore: 4, opZIncrBy: 4,
	opCopy: 3, opDump: 2, opRestore: 4, opPublish: 3, opPubSub: 2, opInfo: 1, opFlushAll: 1,
}
