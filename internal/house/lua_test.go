package house

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/resp"
)

// A server that runs a script answers nobody else, and one that has written cannot be ended. So what a script does is
// bounded by what its caller sends, or by a number in the script, never by what stands under a key:
//
//   - There is no while, repeat or goto, and no function that calls itself.
//   - The limits of a numeric for are numbers, the length of a table, names that are given nothing else, what comes
//     from KEYS and ARGV, which are the caller's, or math.min(..., a number). One that counts down from a field's
//     value could do so for ever.
//   - A for in goes over ipairs or pairs, or over what string.gmatch finds.
//   - A command that answers with as much as there is says on its line why that is not much: "-- at most ...".
//     LRANGE and ZRANGE end at another place than -1, ZRANGEBYSCORE has a LIMIT, and HSCAN a COUNT.
//
// And what is refused must not go unseen:
//
//   - What pcall answers, redis.pcall or one that is made of it, is used; or its line says why it does not matter, "--
//     refused or not: ...".
//   - redis.call, which ends the script, is not used after a command that writes. The order is that of the text:
//     whoever calls a function from above it has to look for himself.
func TestScriptsAreBoundedAndSeeEveryRefusal(t *testing.T) {
	texts := resp.ScriptTexts()
	require.Greater(t, len(texts), 10)
	for name, text := range texts {
		for _, fault := range luaFaults(text) {
			t.Errorf("%s, with its fragments: line %s", name, fault)
		}
	}
}

// A luaToken is a word, a number, a string with its quotes, a sign or a comment.
type luaToken struct {
	text string
	line int
}

func (k luaToken) comment() bool { return strings.HasPrefix(k.text, "--") }

func (k luaToken) name() bool {
	return luaName.MatchString(k.text) && !slices.Contains(luaWords, k.text)
}

var (
	luaLexer = regexp.MustCompile(`--[^\n]*|'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*"|[A-Za-z_][A-Za-z0-9_]*|\d+(?:\.\d+)?|\.\.\.?|[=~<>]=|\S|\n`)
	luaName  = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
	luaWords = strings.Fields("and break do else elseif end false for function if in local nil not or repeat return then true until while goto")
)

// A luaText is a script in tokens. Comments are kept apart, by their line.
type luaText struct {
	tokens   []luaToken
	comments map[int]string
	faults   []string
}

func readLua(text string) *luaText {
	l := &luaText{comments: map[int]string{}}
	line := 1
	for _, word := range luaLexer.FindAllString(text, -1) {
		switch k := (luaToken{word, line}); {
		case word == "\n":
			line++
		case k.comment():
			l.comments[line] = word
		default:
			l.tokens = append(l.tokens, k)
		}
	}
	return l
}

func (l *luaText) fault(line int, format string, args ...any) {
	l.faults = append(l.faults, fmt.Sprintf("%d: %s", line, fmt.Sprintf(format, args...)))
}

func (l *luaText) at(i int) string {
	if i < 0 || i >= len(l.tokens) {
		return ""
	}
	return l.tokens[i].text
}

// until returns the place of the first of these words from i on that stands in no bracket.
func (l *luaText) until(i int, words ...string) int {
	for depth := 0; i < len(l.tokens); i++ {
		if depth == 0 && slices.Contains(words, l.at(i)) {
			return i
		}
		switch l.at(i) {
		case "(", "{", "[":
			depth++
		case ")", "}", "]":
			depth--
		}
	}
	return i
}

func luaFaults(text string) []string {
	l := readLua(text)
	for i, k := range l.tokens {
		switch k.text {
		case "while", "repeat", "goto":
			l.fault(k.line, "%s has no bound that can be read", k.text)
		case "for":
			l.loop(i)
		case "function":
			l.recursion(i)
		}
	}
	l.answers()
	l.calls()
	return l.faults
}

// loop looks at the for at i.
func (l *luaText) loop(i int) {
	line := l.tokens[i].line
	end := l.until(i, "do")
	if l.at(i+2) != "=" {
		over := l.until(i, "in")
		f := l.at(over + 1)
		if f == "string" && l.at(over+2) == "." {
			f += "." + l.at(over+3)
		}
		if f != "ipairs" && f != "pairs" && f != "string.gmatch" {
			l.fault(line, "for in goes over %s", f)
		}
		return
	}
	if !l.bounded(i+3, end, nil) {
		l.fault(line, "the limits of the for are no numbers of the script or its caller")
	}
}

// bounded reports whether the tokens of an expression are bounded without a look at any key. seen are the names that
// are being looked at.
func (l *luaText) bounded(from, to int, seen []string) bool {
	for i := from; i < to; i++ {
		k := l.tokens[i]
		switch {
		case k.text == "#":
			i++ // a table's length; where tables come from is looked at by answers
		case k.text == "math" && l.at(i+2) == "min" && l.at(i+3) == "(":
			end := l.until(i+4, ")")
			if !l.boundedOne(i+4, end, seen) {
				return false
			}
			i = end
		case k.text == "KEYS" || k.text == "ARGV":
			if l.at(i+1) == "[" {
				i = l.until(i+2, "]")
			}
		case k.text == "tonumber":
		case k.name():
			if !l.boundedName(k.text, seen) {
				return false
			}
		case strings.ContainsAny(k.text[:1], "'\"") || slices.Contains(luaWords, k.text) && k.text != "nil":
			return false
		}
	}
	return true
}

// boundedOne reports whether one of the arguments is bounded: that is enough for a minimum.
func (l *luaText) boundedOne(from, to int, seen []string) bool {
	for from < to {
		end := min(l.until(from, ","), to)
		if l.bounded(from, end, seen) {
			return true
		}
		from = end + 1
	}
	return false
}

// boundedName reports whether all that a name is ever given is bounded.
func (l *luaText) boundedName(name string, seen []string) bool {
	if slices.Contains(seen, name) {
		return true // n = n - 1: what it began with is looked at
	}
	seen = append(slices.Clone(seen), name)
	found := false
	for i := range l.tokens {
		if l.at(i) != name || slices.Contains([]string{".", "[", "("}, l.at(i-1)) {
			continue
		}
		if over := l.until(i, "in"); slices.Contains([]string{"ipairs", "pairs"}, l.at(over+1)) && over-i <= 3 {
			found = true // it counts the places of a table
			continue
		}
		first := i // of the names on the left
		for l.at(first-1) == "," {
			first -= 2
		}
		last := i
		for l.at(last+1) == "," {
			last += 2
		}
		if l.at(last+1) != "=" {
			continue
		}
		from := last + 2
		for range (i - first) / 2 {
			from = l.until(from, ",") + 1
		}
		found = true
		if !l.bounded(from, l.expressionEnd(from), seen) {
			return false
		}
	}
	return found
}

// expressionEnd is where an expression ends that begins at i: at a comma, or with its line.
func (l *luaText) expressionEnd(i int) int {
	end := l.until(i, ",")
	for j := i; j < end; j++ {
		if l.tokens[j].line != l.tokens[i].line {
			return j
		}
	}
	return end
}

// recursion looks for calls of the named function at i within itself.
func (l *luaText) recursion(i int) {
	name := l.at(i + 1)
	if name == "(" {
		return
	}
	depth := 1
	for j := i + 2; j < len(l.tokens) && depth > 0; j++ {
		switch l.at(j) {
		case "function", "if", "do":
			depth++
		case "end":
			depth--
		case name:
			if l.at(j+1) == "(" {
				l.fault(l.tokens[j].line, "%s calls itself", name)
			}
		}
	}
}

// luaCalls are the names that stand for pcall or redis.pcall in the scripts; those of must raise what is refused.
var luaCalls = []string{"call", "pcall", "try", "must"}

// luaEndless answer with as much as there is.
var luaEndless = []string{"HGETALL", "HKEYS", "HVALS", "SMEMBERS", "KEYS", "SORT"}

// answers looks at each call: is its answer looked at, and is there an end to it.
func (l *luaText) answers() {
	for i, k := range l.tokens {
		if l.at(i+1) != "(" || !slices.Contains(luaCalls, k.text) || l.at(i-1) == "function" {
			continue
		}
		begin := i
		if l.at(i-1) == "." { // redis.pcall
			begin = i - 2
		}
		comment, end := l.comments[k.line], l.until(i+2, ")")
		raises := k.text == "must" || begin < i && l.at(i) == "call"
		if !raises && l.statement(begin) && !strings.Contains(comment, "-- refused or not: ") {
			l.fault(k.line, "nobody looks at what %s answers, and nothing says why", k.text)
		}
		command := strings.Trim(l.at(i+2), "'")
		words := l.tokens[i+2 : end]
		switch {
		case slices.Contains(luaEndless, command) && !strings.Contains(comment, "-- at most "):
			l.fault(k.line, "%s answers as much as there is", command)
		case strings.HasSuffix(command, "SCAN") && !slices.ContainsFunc(words, func(w luaToken) bool { return w.text == "'COUNT'" }):
			l.fault(k.line, "%s without a COUNT", command)
		case command == "LRANGE" && l.at(end-2) == "-" && l.at(end-3) == ",":
			l.fault(k.line, "LRANGE to the end")
		case command == "ZRANGE":
			to := l.until(l.until(i+4, ",")+1, ",") + 1
			if to < end && l.at(to) == "-" {
				l.fault(k.line, "ZRANGE to the end")
			}
		case strings.HasPrefix(command, "ZRANGE") && !slices.ContainsFunc(words, func(w luaToken) bool { return w.text == "'LIMIT'" }):
			l.fault(k.line, "%s without a LIMIT", command)
		}
	}
}

// statement reports whether the token at i begins a statement: a line does, if the one before is not unfinished.
func (l *luaText) statement(i int) bool {
	if i == 0 || slices.Contains([]string{"then", "else", "do", ";"}, l.at(i-1)) {
		return true
	}
	before := l.tokens[i-1]
	open := slices.Contains([]string{"=", "(", ",", "{", "[", "return", "and", "or", "not", "..", "+", "-", "*", "/", "==", "~=", "<", ">", "<=", ">=", "#"}, before.text)
	return before.line != l.tokens[i].line && !open || before.text == ")" || before.text == "end"
}

// luaReads are the commands that change nothing.
var luaReads = strings.Fields("EXISTS GET HEXISTS HGET HGETALL HLEN HSCAN LINDEX LPOS LRANGE PTTL PUBSUB TIME ZCARD ZCOUNT ZRANGE ZRANGEBYSCORE ZSCORE DUMP")

// calls looks for a redis.call behind a command that writes.
func (l *luaText) calls() {
	wrote := false
	for i, k := range l.tokens {
		if l.at(i+1) != "(" || !slices.Contains(luaCalls, k.text) {
			continue
		}
		if wrote && k.text == "call" && l.at(i-1) == "." {
			l.fault(k.line, "redis.call would end the script behind a write")
		}
		if command := l.at(i + 2); strings.HasPrefix(command, "'") && !slices.Contains(luaReads, strings.Trim(command, "'")) {
			wrote = true
		}
	}
}

func TestLuaFaultsAreFound(t *testing.T) {
	for text, want := range map[string]string{
		"while true do f() end":                                        "while",
		"repeat f() until false":                                       "repeat",
		"for i = 1, tonumber(redis.call('GET', key)) do f() end":       "the limits",
		"local n = call('LLEN', key)\nfor i = 1, n do f() end":         "the limits",
		"local n = 1\nn = call('LLEN', key)\nfor i = 1, n do f() end":  "the limits",
		"for _, v in next, t do f() end":                               "for in",
		"local function f()\n  if x then\n    f()\n  end\nend":         "calls itself",
		"local v = call('LRANGE', key, 0, -1)":                         "LRANGE",
		"local v = call('ZRANGEBYSCORE', key, '-inf', '+inf')":         "LIMIT",
		"local v = call('ZRANGE', keys[1], n, -1, 'WITHSCORES')":       "ZRANGE to the end",
		"local v = call('HGETALL', key)":                               "HGETALL",
		"local v = call('HSCAN', key, cursor)":                         "COUNT",
		"call('LPOP', key)":                                            "nobody looks",
		"if x then call('LPOP', key) end":                              "nobody looks",
		"local v = f(x)\ncall('LPOP', key)":                            "nobody looks",
		"redis.pcall('LPOP', key)":                                     "nobody looks",
		"try(drop, field)":                                             "nobody looks",
		"local v = call('DEL', key)\nlocal w = redis.call('GET', key)": "redis.call",
		"local n = 1\nlocal a, b = n, math.min(x, y)\nfor i = a, b do": "the limits",
	} {
		faults := strings.Join(luaFaults(text), "\n")
		require.Contains(t, faults, want, "%s", text)
	}
	for _, text := range []string{
		"for i = 1, 10 do f() end",
		"local MOST = 10\nfor i = 1, MOST do f() end",
		"local keys, skip, n = KEYS, 0, #KEYS\nif n == 0 then\n  keys, skip, n = ARGV, 6, tonumber(ARGV[3])\nend\nfor i = 1, n do f() end",
		"for h = math.min(count, 1000), 1, -1 do f() end",
		"for i, m in ipairs(members) do f() end",
		"call('DEL', key) -- refused or not: it ends by itself",
		"local v = call('GET', key)\nif type(call('DEL', key)) == 'table' then\n  return v\nend",
		"must('DEL', key)",
		"local page = call('LRANGE', key, 0, PAGE - 1)",
	} {
		require.Empty(t, luaFaults(text), "%s", text)
	}
}
