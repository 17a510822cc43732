package twin

import (
	"crypto/sha1" //nolint:gosec // Redis names scripts by their SHA-1
	"encoding/hex"
	"maps"
	"strconv"
	"strings"
)

// A Server is the keyspace of one Redis node. Its functions are set by its owner before the first command; each may
// be nil.
type Server struct {
	// Micros answers the server's time in µs since 1970. Expiry goes by its ms. One command, and so one script, has
	// one time.
	Micros func() int64
	// Publish is called by PUBLISH, and by SPUBLISH too if SPublish is nil, and says how many heard it. nil: nobody.
	Publish  func(channel, message string) int64
	SPublish func(channel, message string) int64
	// Listeners says how many listen to a channel: PUBSUB NUMSUB, PUBSUB SHARDNUMSUB. nil: nobody.
	Listeners func(channel string) int64
	// Channels lists those that somebody listens to: PUBSUB CHANNELS, PUBSUB SHARDCHANNELS if sharded. nil: none.
	Channels func(sharded bool) []string
	// Patterns is how many patterns somebody listens to, Replicas how many replicas there are, and Backlog says that one
	// that comes back would be told what it has missed: what INFO says of them.
	Patterns, Replicas int64
	Backlog            bool
	// Deny is asked before every command, also those of a script, for each of its keys; a channel counts as one, and a
	// command without a key is asked about with "". A text is the error that the command gets. So the ACL refuses.
	Deny func(command, key string) string
	// Elsewhere is asked, in a cluster, with the keys of each command of a script, the channel of SPUBLISH among them: if
	// it is not to be run here the text is the error that the command gets there, "ERR Script attempted to access a non
	// local key in a cluster node". So it is with keys of several slots, too, and in a slot on its way with a key that
	// is not here; at its end, behind ASKING, with several keys of which some are not here.
	Elsewhere func(keys []string) string
	// Redirect is asked with the declared keys of a script or the keys of a plain command before it runs: the text is
	// the error that comes instead (MOVED, ASK, TRYAGAIN, CROSSSLOT, CLUSTERDOWN).
	Redirect func(keys []string) string

	// OOM: maxmemory is reached. Commands that may need memory are refused; in a script only until it has called the
	// first that writes.
	OOM bool
	// Refuse, if not empty, is the error of every command that writes: READONLY, MISCONF, NOREPLICAS.
	Refuse string
	// Asking is true for the one command that follows ASKING.
	Asking bool
	// Acks is what WAIT answers.
	Acks int64
	// Version, Mode and Role are what INFO and ROLE say: 7.0.15, standalone and master unless changed.
	Version, Mode, Role string
	// Run is what INFO says of which run of the server this is, if it is not empty.
	Run string
	// MaxMemory and Policy are what INFO memory says.
	MaxMemory int64
	Policy    string
	// Calls counts the scripts that were run, by name, if it is not nil.
	Calls map[string]int

	keys    map[string]*value
	loaded  [idLast]bool
	now     int64 // ms, of the command that runs
	micros  int64
	wrote   bool // the script that runs has called a command that writes
	sweepAt int
	granule int64 // ms: PTTL answers the next multiple; 0: what it is. The differential test's
}

// New returns an empty server that knows no script.
func New() *Server {
	return &Server{
		Version: "7.0.15", Mode: "standalone", Role: "master", Policy: "noeviction",
		keys: make(map[string]*value), sweepAt: 1024,
	}
}

// Clone returns a copy of the server, with a keyspace of its own: a replica, or what it was before.
func (s *Server) Clone() *Server {
	c := *s
	c.keys = make(map[string]*value, len(s.keys))
	for key, v := range s.keys {
		c.keys[key] = v.clone()
	}
	c.Calls = maps.Clone(s.Calls)
	return &c
}

// Flush removes every key.
func (s *Server) Flush() { clear(s.keys) }

// FlushScripts forgets every script: NOSCRIPT until it is loaded again.
func (s *Server) FlushScripts() { s.loaded = [idLast]bool{} }

// Delete removes a key, as an operator would, and reports whether it was there.
func (s *Server) Delete(key string) bool {
	s.tick()
	there := s.find(key) != nil
	delete(s.keys, key)
	return there
}

// Age takes d ms off the remaining life of every key: those that have none left are gone.
func (s *Server) Age(d int64) {
	s.tick()
	for key, v := range s.keys {
		if v.expires == 0 {
			continue
		}
		v.expires = s.now + s.left(v) - d
		if v.expires <= s.now {
			delete(s.keys, key)
		}
	}
}

// tick reads the time.
func (s *Server) tick() {
	if s.Micros != nil {
		s.micros = s.Micros()
		s.now = s.micros / 1000
	}
}

// Do runs one command. Names may be of any case.
func (s *Server) Do(args []string) Reply {
	if len(args) == 0 {
		return failure("ERR unknown command ''")
	}
	s.tick()
	s.wrote = false
	asking := s.Asking
	r := s.run(args)
	if asking {
		s.Asking = false
	}
	return r
}

func (s *Server) run(args []string) Reply {
	switch args[0] {
	case "EVALSHA":
		return s.evalsha(args)
	case "EVAL":
		if len(args) < 3 {
			return arity("eval")
		}
		id := scriptOf(args[1])
		if id == 0 {
			return noTwin
		}
		s.loaded[id] = true
		return s.evalsha(append([]string{"EVALSHA", scriptShas[id]}, args[2:]...))
	case "SCRIPT":
		return s.script(args)
	}
	return s.plain(args)
}

func shaOf(text string) string {
	sum := sha1.Sum([]byte(text)) //nolint:gosec // as above
	return hex.EncodeToString(sum[:])
}

var noTwin = failure("ERR Error compiling script (new function): it has no twin")

// script is the command SCRIPT. LOAD takes texts of package resp only.
func (s *Server) script(args []string) Reply {
	if len(args) < 2 {
		return arity("script")
	}
	switch strings.ToUpper(args[1]) {
	case "LOAD":
		if len(args) != 3 {
			return arity("script|load")
		}
		if refused := s.denied("SCRIPT", ""); refused.err() {
			return refused
		}
		id := scriptOf(args[2])
		if id == 0 {
			return noTwin
		}
		s.loaded[id] = true
		return text(scriptShas[id])
	case "EXISTS":
		out := make([]Reply, 0, len(args)-2)
		for _, sha := range args[2:] {
			out = append(out, number(flag(s.loaded[scriptIDs[sha]])))
		}
		return array(out)
	case "FLUSH":
		s.FlushScripts()
		return ok
	default:
		return failure("ERR unknown subcommand '" + args[1] + "'. Try SCRIPT HELP.")
	}
}

func flag(on bool) int64 {
	if on {
		return 1
	}
	return 0
}

func arity(command string) Reply {
	return failure("ERR wrong number of arguments for '" + command + "' command")
}

// evalsha is EVALSHA sha numkeys key... arg...
func (s *Server) evalsha(args []string) Reply {
	if len(args) < 3 {
		return arity("evalsha")
	}
	n, err := strconv.Atoi(args[2])
	switch {
	case err != nil:
		return notNumber
	case n > len(args)-3:
		return failure("ERR Number of keys can't be greater than number of args")
	case n < 0:
		return failure("ERR Number of keys can't be negative")
	}
	KEYS, ARGV := list(args[3:3+n]), list(args[3+n:])
	if s.Deny != nil {
		if refused := s.deniedScript(KEYS); refused.err() {
			return refused
		}
	}
	if s.Redirect != nil && n > 0 {
		if no := s.Redirect(KEYS); no != "" {
			return failure(no)
		}
	}
	id := scriptIDs[args[1]]
	if !s.loaded[id] && id < idRedissonLock { // Redisson's clients load theirs by themselves
		return failure("NOSCRIPT No matching script. Please use EVAL.")
	}
	if s.Calls != nil {
		s.Calls[scriptNames[id]]++
	}
	return s.guarded(id, KEYS, ARGV)
}

// deniedScript asks whether the ACL lets a script be called with these keys.
func (s *Server) deniedScript(keys list) Reply {
	if len(keys) == 0 {
		return s.denied("EVALSHA", "")
	}
	for _, key := range keys {
		if refused := s.denied("EVALSHA", key); refused.err() {
			return refused
		}
	}
	return Reply{}
}

// guarded runs a script. One that fails in the middle keeps what it wrote.
func (s *Server) guarded(id scriptID, KEYS, ARGV list) (reply Reply) {
	defer func() {
		if p := recover(); p != nil {
			raised, ours := p.(luaError)
			if !ours {
				panic(p)
			}
			reply = failure(string(raised) + " script: " + scriptShas[id] + ", on @user_script:1.")
		}
	}()
	return s.start(id, KEYS, ARGV)
}
