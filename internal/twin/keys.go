package twin

import (
	"math"
	"strconv"
	"strings"
)

func (s *Server) exists(keys []string) Reply {
	n := int64(0)
	for _, key := range keys {
		n += flag(s.find(key) != nil)
	}
	return number(n)
}

func (s *Server) del(keys []string) Reply {
	n := int64(0)
	for _, key := range keys {
		if s.find(key) != nil {
			delete(s.keys, key)
			n++
		}
	}
	return number(n)
}

func (s *Server) kindOf(key string) Reply {
	v := s.find(key)
	if v == nil {
		return Reply{Kind: Status, Text: "none"}
	}
	return Reply{Kind: Status, Text: v.kind.String()}
}

func (s *Server) pttl(key string) Reply {
	v := s.find(key)
	if v == nil {
		return number(-2)
	}
	return number(s.left(v))
}

// pexpire is PEXPIRE key ms [NX|XX|GT|LT]. A time that is over takes the key out.
func (s *Server) pexpire(args []string) Reply {
	condition := ""
	if len(args) > 3 {
		condition = strings.ToUpper(args[3])
	}
	switch condition {
	case "", "NX", "XX", "GT", "LT":
	default:
		return failure("ERR Unsupported option " + args[3])
	}
	ms, err := strconv.ParseInt(args[2], 10, 64)
	if err != nil {
		return notNumber
	}
	if ms > 0 && s.now > math.MaxInt64-ms {
		return failure("ERR invalid expire time in 'pexpire' command")
	}
	v := s.find(args[1])
	if v == nil {
		return number(0)
	}
	when, current := s.now+ms, v.expires
	switch {
	case condition == "NX" && current != 0,
		condition == "XX" && current == 0,
		condition == "GT" && (current == 0 || when <= current),
		condition == "LT" && current != 0 && when >= current:
		return number(0)
	}
	if when <= s.now {
		delete(s.keys, args[1])
		return number(1)
	}
	v.expires = when
	return number(1)
}

func (s *Server) persist(key string) Reply {
	v := s.find(key)
	if v == nil || v.expires == 0 {
		return number(0)
	}
	v.expires = 0
	return number(1)
}

func (s *Server) getString(key string) Reply {
	v, fits := s.get(key, TypeString)
	switch {
	case !fits:
		return wrongType
	case v == nil:
		return Reply{}
	}
	return text(v.text)
}

// set is SET key value [GET] [NX|XX] [PX ms] [KEEPTTL].
func (s *Server) set(args []string) Reply {
	key, expires := args[1], int64(0)
	get, nx, xx, keep := false, false, false, false
	for i := 3; i < len(args); i++ {
		switch strings.ToUpper(args[i]) {
		case "GET":
			get = true
		case "NX":
			nx = true
		case "XX":
			xx = true
		case "KEEPTTL":
			keep = true
		case "PX":
			if i+1 == len(args) {
				return syntax
			}
			i++
			ms, err := strconv.ParseInt(args[i], 10, 64)
			if err != nil {
				return notNumber
			}
			if ms <= 0 || ms > math.MaxInt64-s.now {
				return failure("ERR invalid expire time in 'set' command")
			}
			expires = s.now + ms
		default:
			return syntax
		}
	}
	was, answer := s.find(key), ok
	if get {
		if was != nil && was.kind != TypeString {
			return wrongType
		}
		answer = Reply{}
		if was != nil {
			answer = text(was.text)
		}
	}
	if nx && was != nil || xx && was == nil {
		if get {
			return answer
		}
		return Reply{}
	}
	if was != nil {
		if keep {
			expires = was.expires
		}
		*was = value{kind: TypeString, text: args[2], expires: expires}
		return answer
	}
	s.put(key, &value{kind: TypeString, text: args[2], expires: expires})
	return answer
}

// incrby is INCRBY key n, and INCR, DECR, DECRBY.
func (s *Server) incrby(args []string) Reply {
	by := int64(1)
	if strings.HasSuffix(args[0], "BY") {
		if len(args) < 3 {
			return arity(strings.ToLower(args[0]))
		}
		n, is := integral(args[2])
		if !is {
			return notNumber
		}
		by = n
	}
	if args[0][0] == 'D' {
		by = -by
	}
	v, fits := s.get(args[1], TypeString)
	if !fits {
		return wrongType
	}
	if v == nil {
		s.put(args[1], &value{kind: TypeString, text: strconv.FormatInt(by, 10)})
		return number(by)
	}
	n, is := integral(v.text)
	if !is {
		return notNumber
	}
	if by > 0 && n > math.MaxInt64-by || by < 0 && n < math.MinInt64-by {
		return failure("ERR increment or decrement would overflow")
	}
	v.text = strconv.FormatInt(n+by, 10)
	return number(n + by)
}

// integral reads a number that can be counted with: one that is written as the server would write it.
func integral(text string) (int64, bool) {
	n, err := strconv.ParseInt(text, 10, 64)
	return n, err == nil && strconv.FormatInt(n, 10) == text
}

// copy is COPY from to: value and expiry.
func (s *Server) copy(args []string) Reply {
	from, to := args[1], args[2]
	if from == to {
		return failure("ERR source and destination objects are the same")
	}
	v := s.find(from)
	if v == nil || s.find(to) != nil {
		return number(0)
	}
	s.put(to, v.clone())
	return number(1)
}

// dump is DUMP key: a text that restore of a twin understands.
func (s *Server) dump(key string) Reply {
	v := s.find(key)
	if v == nil {
		return Reply{}
	}
	b := []byte{'T', byte(v.kind)}
	word := func(w string) {
		b = strconv.AppendInt(b, int64(len(w)), 10)
		b = append(b, ':')
		b = append(b, w...)
	}
	word(v.text)
	for _, f := range v.hash {
		word(f.Name)
		word(f.Value)
	}
	for _, item := range v.list {
		word(item)
	}
	for _, m := range v.zset {
		word(m.Name)
		word(strconv.FormatFloat(m.Score, 'g', -1, 64))
	}
	return text(string(b))
}

// restore is RESTORE key ms dumped [REPLACE].
func (s *Server) restore(args []string) Reply {
	replace := len(args) > 4 && strings.ToUpper(args[4]) == "REPLACE"
	if s.find(args[1]) != nil && !replace {
		return failure("BUSYKEY Target key name already exists.")
	}
	ms, err := strconv.ParseInt(args[2], 10, 64)
	switch {
	case err != nil:
		return notNumber
	case ms < 0:
		return failure("ERR Invalid TTL value, must be >= 0")
	}
	v := undump(args[3])
	if v == nil {
		return failure("ERR DUMP payload version or checksum are wrong")
	}
	if ms > 0 {
		v.expires = s.now + ms
	}
	s.put(args[1], v)
	return ok
}

func undump(b string) *value {
	if len(b) < 2 || b[0] != 'T' || b[1] == 0 || Type(b[1]) > TypeZSet {
		return nil
	}
	v := &value{kind: Type(b[1])}
	var words []string
	for rest := b[2:]; rest != ""; {
		length, body, _ := strings.Cut(rest, ":")
		n, err := strconv.Atoi(length)
		if err != nil || n < 0 || n > len(body) {
			return nil
		}
		words, rest = append(words, body[:n]), body[n:]
	}
	if len(words) == 0 {
		return nil
	}
	v.text, words = words[0], words[1:]
	if v.kind == TypeList {
		v.list = words
		return v
	}
	for i := 0; i+1 < len(words); i += 2 {
		if v.kind == TypeHash {
			v.hash = append(v.hash, Field{words[i], words[i+1]})
			continue
		}
		score, _ := strconv.ParseFloat(words[i+1], 64)
		v.zset = append(v.zset, Member{words[i], score})
	}
	return v
}

// publish is PUBLISH and SPUBLISH channel message.
func (s *Server) publish(args []string) Reply {
	tell := s.Publish
	if args[0] == "SPUBLISH" && s.SPublish != nil {
		tell = s.SPublish
	}
	if tell == nil {
		return number(0)
	}
	return number(tell(args[1], args[2]))
}

// channels lists those that somebody listens to.
func (s *Server) channels(sharded bool) []string {
	if s.Channels == nil {
		return nil
	}
	return s.Channels(sharded)
}

// pubsub is PUBSUB NUMSUB channel..., PUBSUB SHARDNUMSUB channel..., PUBSUB CHANNELS prefix* and PUBSUB SHARDCHANNELS
// prefix*.
func (s *Server) pubsub(args []string) Reply {
	switch what := strings.ToUpper(args[1]); what {
	case "NUMSUB", "SHARDNUMSUB":
	case "CHANNELS", "SHARDCHANNELS":
		var out []Reply
		for _, channel := range s.channels(what == "SHARDCHANNELS") {
			if len(args) < 3 || strings.HasPrefix(channel, strings.TrimSuffix(args[2], "*")) {
				out = append(out, text(channel))
			}
		}
		return array(out)
	default:
		return failure("ERR unknown subcommand '" + args[1] + "'. Try PUBSUB HELP.")
	}
	out := make([]Reply, 0, 2*(len(args)-2))
	for _, channel := range args[2:] {
		n := int64(0)
		if s.Listeners != nil {
			n = s.Listeners(channel)
		}
		out = append(out, text(channel), number(n))
	}
	return array(out)
}
