package twin

import (
	"slices"
	"strconv"
	"strings"
)

// listCommand runs the commands of lists.
func (s *Server) listCommand(o op, args []string) Reply {
	key := args[1]
	if o == opRPush {
		v := s.open(key, TypeList)
		if v == nil {
			return wrongType
		}
		v.list = append(v.list, args[2:]...)
		return number(int64(len(v.list)))
	}
	switch o { // numbers are looked at before the key
	case opLRange, opLRem:
		if no := numbers(o, args); no.err() {
			return no
		}
	case opLInsert:
		if where := strings.ToUpper(args[2]); where != "BEFORE" && where != "AFTER" {
			return syntax
		}
	}
	v, fits := s.get(key, TypeList)
	if !fits {
		return wrongType
	}
	if v == nil {
		switch o {
		case opLRange:
			return array(nil)
		case opLIndex, opLPos, opLPop:
			return Reply{}
		default:
			return number(0)
		}
	}
	switch o {
	case opLLen:
		return number(int64(len(v.list)))
	case opLIndex:
		return v.lindex(args[2])
	case opLRange:
		from, to := bounds(args[2], args[3], len(v.list))
		return array(texts(v.list[from:to]))
	case opLPos:
		most := len(v.list)
		if len(args) == 5 && args[3] == "MAXLEN" { // of its options the one that our scripts use
			n, _ := strconv.Atoi(args[4])
			most = min(most, n)
		}
		if at := slices.Index(v.list[:most], args[2]); at >= 0 {
			return number(int64(at))
		}
		return Reply{}
	case opLRem:
		n := v.lrem(args[2], args[3])
		s.drop(key, v)
		return n
	case opLPop:
		first := v.list[0]
		v.list = slices.Delete(v.list, 0, 1)
		s.drop(key, v)
		return text(first)
	default:
		return v.linsert(args)
	}
}

// numbers checks the numbers among the arguments.
func numbers(o op, args []string) Reply {
	words := args[2:3]
	if o == opLRange {
		words = args[2:4]
	}
	for _, w := range words {
		if _, err := strconv.ParseInt(w, 10, 64); err != nil {
			return notNumber
		}
	}
	return Reply{}
}

func texts(items []string) []Reply {
	out := make([]Reply, len(items))
	for i, item := range items {
		out[i] = text(item)
	}
	return out
}

// bounds are the half-open range of a list or a sorted set that two numbers name, as Redis counts.
func bounds(start, stop string, n int) (from, to int) {
	at := func(word string) int {
		i, _ := strconv.Atoi(word)
		if i < 0 {
			i += n
		}
		return i
	}
	from, to = max(0, at(start)), min(n, at(stop)+1)
	if from >= to {
		return 0, 0
	}
	return from, to
}

func (v *value) lindex(word string) Reply {
	i, err := strconv.Atoi(word)
	if err != nil {
		return notNumber
	}
	if i < 0 {
		i += len(v.list)
	}
	if i < 0 || i >= len(v.list) {
		return Reply{}
	}
	return text(v.list[i])
}

// lrem takes out what equals item: so many from the head, or with a number below 0 from the tail; 0: all.
func (v *value) lrem(count, item string) Reply {
	n, _ := strconv.ParseInt(count, 10, 64)
	gone := int64(0)
	if n < 0 {
		for i := len(v.list) - 1; i >= 0 && gone < -n; i-- {
			if v.list[i] == item {
				v.list = slices.Delete(v.list, i, i+1)
				gone++
			}
		}
		return number(gone)
	}
	v.list = slices.DeleteFunc(v.list, func(other string) bool {
		if other != item || n > 0 && gone == n {
			return false
		}
		gone++
		return true
	})
	return number(gone)
}

// linsert is LINSERT key BEFORE|AFTER pivot item.
func (v *value) linsert(args []string) Reply {
	at := slices.Index(v.list, args[3])
	if at < 0 {
		return number(-1)
	}
	if strings.ToUpper(args[2]) == "AFTER" {
		at++
	}
	v.list = slices.Insert(v.list, at, args[4])
	return number(int64(len(v.list)))
}
