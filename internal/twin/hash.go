package twin

import (
	"math"
	"slices"
	"strconv"
)

// hset is HSET key field value ...: how many fields are new.
func (s *Server) hset(args []string) Reply {
	if len(args)%2 != 0 {
		return arity("hset")
	}
	v := s.open(args[1], TypeHash)
	if v == nil {
		return wrongType
	}
	fresh := int64(0)
	if v.hash == nil {
		v.hash = make([]Field, 0, (len(args)-2)/2)
	}
	for i := 2; i < len(args); i += 2 {
		if at := v.field(args[i]); at >= 0 {
			v.hash[at].Value = args[i+1]
			continue
		}
		v.hash = append(v.hash, Field{args[i], args[i+1]})
		fresh++
	}
	return number(fresh)
}

func (s *Server) hget(key, field string) Reply {
	v, fits := s.get(key, TypeHash)
	switch {
	case !fits:
		return wrongType
	case v == nil:
		return Reply{}
	}
	at := v.field(field)
	if at < 0 {
		return Reply{}
	}
	return text(v.hash[at].Value)
}

func (s *Server) hmget(key string, fields []string) Reply {
	v, fits := s.get(key, TypeHash)
	if !fits {
		return wrongType
	}
	out := make([]Reply, len(fields))
	for i, field := range fields {
		if v == nil {
			continue
		}
		if at := v.field(field); at >= 0 {
			out[i] = text(v.hash[at].Value)
		}
	}
	return array(out)
}

func (s *Server) hexists(key, field string) Reply {
	v, fits := s.get(key, TypeHash)
	if !fits {
		return wrongType
	}
	return number(flag(v != nil && v.field(field) >= 0))
}

func (s *Server) hlen(key string) Reply {
	v, fits := s.get(key, TypeHash)
	switch {
	case !fits:
		return wrongType
	case v == nil:
		return number(0)
	}
	return number(int64(len(v.hash)))
}

// hdel is HDEL key field ...: with the last field the key goes.
func (s *Server) hdel(key string, fields []string) Reply {
	v, fits := s.get(key, TypeHash)
	switch {
	case !fits:
		return wrongType
	case v == nil:
		return number(0)
	}
	gone := int64(0)
	for _, field := range fields {
		if at := v.field(field); at >= 0 {
			v.hash = slices.Delete(v.hash, at, at+1)
			gone++
		}
	}
	s.drop(key, v)
	return number(gone)
}

func (s *Server) hgetall(key string) Reply {
	v, fits := s.get(key, TypeHash)
	switch {
	case !fits:
		return wrongType
	case v == nil:
		return array(nil)
	}
	out := make([]Reply, 0, 2*len(v.hash)+1)
	for _, f := range v.hash {
		out = append(out, text(f.Name), text(f.Value))
	}
	return array(out)
}

// hscan is HSCAN key cursor COUNT n: a small hash comes whole, whatever is asked for.
func (s *Server) hscan(key, cursor string) Reply {
	if _, err := strconv.ParseUint(cursor, 10, 64); err != nil {
		return failure("ERR invalid cursor")
	}
	all := s.hgetall(key)
	if all.err() {
		return all
	}
	return array([]Reply{text("0"), all})
}

func (s *Server) hincrby(key, field, by string) Reply {
	n, err := strconv.ParseInt(by, 10, 64)
	if err != nil {
		return notNumber
	}
	v := s.open(key, TypeHash)
	if v == nil {
		return wrongType
	}
	at := v.field(field)
	if at < 0 {
		v.hash = append(v.hash, Field{field, strconv.FormatInt(n, 10)})
		return number(n)
	}
	was, err := strconv.ParseInt(v.hash[at].Value, 10, 64)
	if err != nil {
		return failure("ERR hash value is not an integer")
	}
	if n > 0 && was > math.MaxInt64-n || n < 0 && was < math.MinInt64-n {
		return failure("ERR increment or decrement would overflow")
	}
	v.hash[at].Value = strconv.FormatInt(was+n, 10)
	return number(was + n)
}
