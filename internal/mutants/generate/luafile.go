package generate

import (
	"regexp"
	"strings"
)

// luaWords are what Lua is made of, as far as it matters here. Strings and comments come first, and are left alone.
var luaWords = regexp.MustCompile(`--\[\[(?s:.*?)\]\]|--[^\n]*|'(?:\\.|[^'\\\n])*'|"(?:\\.|[^"\\\n])*"` +
	`|[A-Za-z_][A-Za-z0-9_.]*|[0-9][0-9A-Za-z.]*|[=~<>]=|\.\.|[<>+*/-]`)

var luaOthers = map[string]struct{ op, with string }{
	"<": {"boundary", "<="}, "<=": {"boundary", "<"}, ">": {"boundary", ">="}, ">=": {"boundary", ">"},
	"==": {"negation", "~="}, "~=": {"negation", "=="}, "and": {"junction", "or"}, "or": {"junction", "and"},
	"+": {"arithmetic", "-"}, "-": {"arithmetic", "+"}, "*": {"arithmetic", "/"}, "/": {"arithmetic", "*"},
	"true": {"answer", "false"}, "false": {"answer", "true"}, "not": {"negation", ""},
}

// luaCall is a call that stands alone in its line.
var luaCall = regexp.MustCompile(`(?m)^[ \t]*([A-Za-z_][A-Za-z0-9_.]*\([^\n]*\))[ \t]*$`)

// luaIf is a condition in one line.
var luaIf = regexp.MustCompile(`(?m)\b(?:else)?if (.+?) then`)

func ofLua(text string) []change {
	var all []change
	skip := make([]bool, len(text)+1)
	for _, at := range luaWords.FindAllStringIndex(text, -1) {
		from, to := at[0], at[1]
		word := text[from:to]
		switch c := word[0]; {
		case strings.HasPrefix(word, "--") || c == '\'' || c == '"':
			for i := from; i < to; i++ {
				skip[i] = true
			}
		case c >= '0' && c <= '9':
			all = append(all, luaNumber(from, to, word)...)
		default:
			if o, ok := luaOthers[word]; ok {
				all = append(all, change{o.op, from, to, o.with})
			}
		}
	}
	for _, at := range luaCall.FindAllStringSubmatchIndex(text, -1) {
		if !skip[at[2]] {
			all = append(all, change{"call", at[2], at[3], ""})
		}
	}
	for _, at := range luaIf.FindAllStringSubmatchIndex(text, -1) {
		if cond := text[at[2]:at[3]]; !skip[at[0]] {
			all = append(all, change{"branch", at[2], at[3], "(" + cond + ") and false"},
				change{"branch", at[2], at[3], "(" + cond + ") or true"})
		}
	}
	return all
}

func luaNumber(from, to int, word string) []change {
	switch word {
	case "0":
		return []change{{"number", from, to, "1"}}
	case "1":
		return []change{{"number", from, to, "2"}, {"number", from, to, "0"}}
	default:
		return []change{{"factor", from, to, "(" + word + " * 2)"}, {"factor", from, to, "(" + word + " / 2)"}}
	}
}
