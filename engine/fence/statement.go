package fence

import (
	"database/sql"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// A statement is read as far as it takes to see whether it fences: which column it stores the token in, and that a row is
// written only where the same column has no greater one. What cannot be read is refused: a forgotten comparison would
// fence nothing, and nobody would notice.

// lexeme is a part of a statement: a text, a comment, a quoted name, a cast, a placeholder, a word, a number, an operator, any
// other sign.
var lexeme = regexp.MustCompile(`(?s)'(?:[^']|'')*'|--[^\n]*|/\*.*?\*/|"[^"]*"|` + "`[^`]*`" + `|\[\w+\]|::|\?\d*|[$:@]\w+|[A-Za-z_][\w$]*|\d+|<=|>=|<>|!=|\S`)

// A reading is a statement that is read.
type reading struct {
	tokens []string
	args   []any
	token  int64
	marks  int // positional placeholders that were met
	insert bool
	tables []string // what the row's table is called in the statement: its name, and its alias
	unsure error    // databases do not agree on what is text, comment and statement
}

func read(statement string, token int64, args []any) *reading {
	r := &reading{args: args, token: token}
	for _, t := range lexeme.FindAllString(statement, -1) {
		if why := ambiguous(t); why != "" {
			r.unsure = refusal("%s: it cannot be read for every database", why)
		}
		switch {
		case strings.HasPrefix(t, "--"), strings.HasPrefix(t, "/*"):
		case t[0] == '?' || strings.ContainsRune("$:@", rune(t[0])) && len(t) > 1 && t != "::":
			r.tokens = append(r.tokens, r.placeholder(t))
		default:
			r.tokens = append(r.tokens, t)
		}
	}
	if n := len(r.tokens); n > 0 && r.tokens[n-1] == ";" {
		r.tokens = r.tokens[:n-1]
	}
	return r
}

// ambiguous says what databases read differently: one takes for text or comment what another one runs.
func ambiguous(t string) string {
	comment := strings.HasPrefix(t, "/*")
	switch {
	case strings.HasPrefix(t, "/*!"), comment && strings.Contains(t[2:], "/*"):
		return "a comment that is run, or one in another"
	case strings.HasPrefix(t, "--") && len(t) > 2 && !strings.ContainsRune(" \t\r", rune(t[2])):
		return "-- without a blank behind it"
	case t == "#":
		return "#, which begins a comment in MySQL"
	case t == "$":
		return "a text in dollar signs"
	case strings.ContainsRune("'\"", rune(t[0])) && strings.Contains(t, `\`):
		return "a backslash in a quoted text"
	}
	return ""
}

// What a placeholder stands for. No statement has these signs.
const (
	theToken = "\x00token"
	theOther = "\x00other"
)

// placeholder says what one stands for: the token, or something else.
func (r *reading) placeholder(text string) string {
	var arg any
	name := text[1:]
	n, err := strconv.Atoi(name)
	switch {
	case text == "?":
		r.marks++
		arg = r.at(r.marks)
	case err == nil:
		arg = r.at(n)
	default:
		for _, a := range r.args {
			if named, ok := a.(sql.NamedArg); ok && named.Name == name {
				arg = named.Value
			}
		}
	}
	if isToken(arg, r.token) {
		return theToken
	}
	return theOther
}

func (r *reading) at(n int) any {
	if n < 1 || n > len(r.args) {
		return nil
	}
	if named, ok := r.args[n-1].(sql.NamedArg); ok {
		return named.Value
	}
	return r.args[n-1]
}

func isToken(arg any, token int64) bool {
	switch v := arg.(type) {
	case int64:
		return v == token
	case int:
		return int64(v) == token
	case uint64:
		return v == uint64(token) //nolint:gosec // tokens are positive
	case sql.NullInt64:
		return v.Valid && v.Int64 == token
	}
	return false
}

// is reports whether words stand at a place, whatever their case.
func is(tokens []string, at int, words ...string) bool {
	if at < 0 || at+len(words) > len(tokens) {
		return false
	}
	for i, w := range words {
		if !strings.EqualFold(tokens[at+i], w) {
			return false
		}
	}
	return true
}

// find is where words stand outside of parentheses; -1: nowhere.
func find(tokens []string, words ...string) int {
	depth := 0
	for i, t := range tokens {
		switch t {
		case "(":
			depth++
		case ")":
			depth--
		}
		if depth == 0 && is(tokens, i, words...) {
			return i
		}
	}
	return -1
}

// split cuts at each of a word outside of parentheses.
func split(tokens []string, word string) (parts [][]string) {
	for {
		i := find(tokens, word)
		if i < 0 {
			return append(parts, tokens)
		}
		parts, tokens = append(parts, tokens[:i]), tokens[i+1:]
	}
}

// parts are the assignments and the condition of an UPDATE, or of what an INSERT does with a row that is there.
func (r *reading) parts() (set, where []string, err error) {
	t := r.tokens
	switch {
	case r.unsure != nil:
		return nil, nil, r.unsure
	case slices.Contains(t, ";"):
		return nil, nil, refusal("several statements")
	case is(t, 1, "or"):
		return nil, nil, refusal("%s OR … may replace a row without a comparison", strings.ToUpper(t[0]))
	case is(t, 0, "update"):
		at := find(t, "set")
		if at < 0 {
			return nil, nil, refusal("no SET")
		}
		r.tables = tablesOf(t[1:at])
		t = t[at+1:]
	case find(t, "on", "duplicate", "key") >= 0:
		return nil, nil, refusal("ON DUPLICATE KEY UPDATE has no WHERE, so it cannot compare: use UPDATE")
	case is(t, 0, "insert", "into") && find(t, "do", "update", "set") >= 0:
		r.insert, r.tables = true, tablesOf(t[2:max(slices.Index(t, "("), 2)])
		t = t[find(t, "do", "update", "set")+3:]
		if find(t, "on", "conflict") >= 0 || find(r.tokens[:len(r.tokens)-len(t)-3], "do") >= 0 {
			return nil, nil, refusal("several ON CONFLICT clauses: only one of them is read")
		}
	default:
		return nil, nil, refusal("neither an UPDATE nor an INSERT … ON CONFLICT … DO UPDATE SET")
	}
	at := find(t, "where")
	if at < 0 {
		return nil, nil, refusal("no WHERE")
	}
	set, where = t[:at], t[at+1:]
	if from := find(set, "from"); from >= 0 {
		set = set[:from]
	}
	for _, end := range []string{"returning", "order", "limit"} {
		if i := find(where, end); i >= 0 {
			where = where[:i]
		}
	}
	return set, where, nil
}

// tablesOf are the names of the first table of an UPDATE or INSERT: its own, without a schema, and its alias.
func tablesOf(tokens []string) (names []string) {
	for len(tokens) > 0 && (is(tokens, 0, "only") || is(tokens, 0, "low_priority") || is(tokens, 0, "ignore")) {
		tokens = tokens[1:]
	}
	for len(tokens) > 1 && tokens[1] == "." {
		tokens = tokens[2:]
	}
	if len(tokens) == 0 {
		return nil
	}
	names, tokens = []string{unquoted(tokens[0])}, tokens[1:]
	if is(tokens, 0, "as") {
		tokens = tokens[1:]
	}
	if len(tokens) > 0 && tokens[0] != "," {
		names = append(names, unquoted(tokens[0]))
	}
	return names
}

func unquoted(name string) string { return strings.ToLower(strings.Trim(name, "\"`[]")) }

// stored is the column that is set to the token.
func (r *reading) stored(set []string) (column string, err error) {
	var all []string
	for _, assignment := range split(set, ",") {
		i := slices.Index(assignment, "=")
		if i <= 0 {
			continue
		}
		name := columnOf(assignment[:i])
		all = append(all, name)
		if !r.isValue(assignment[i+1:], name) {
			continue
		}
		column = name
		// Of several tables it says which one.
		if table := tableOf(assignment[:i]); table != "" && !slices.Contains(r.tables, table) {
			r.tables = []string{table}
		}
	}
	if column == "" {
		return "", refusal("no column is set to the token")
	}
	if n := len(slices.DeleteFunc(all, func(name string) bool { return name != column })); n > 1 {
		return "", refusal("%s is set %d times", column, n)
	}
	return column, nil
}

// check refuses a statement that does not fence, and says why.
func (r *reading) check() error {
	set, where, err := r.parts()
	if err != nil {
		return err
	}
	column, err := r.stored(set)
	if err != nil {
		return err
	}
	for _, either := range [][]string{{"or"}, {"xor"}, {"|", "|"}, {"case"}} {
		if find(where, either...) >= 0 {
			return refusal("an OR in the WHERE lets rows past the comparison: put it in parentheses")
		}
	}
	if find(where, "between") >= 0 {
		return refusal("a BETWEEN in the WHERE has an AND of its own: put it in parentheses")
	}
	for _, condition := range split(where, "and") {
		switch compared, err := r.compares(condition, column); {
		case err != nil:
			return err
		case compared:
			return nil
		}
	}
	return refusal("the WHERE does not compare %s with the token", column)
}

// isValue reports whether an expression is the token: its placeholder, or what an INSERT would have stored in the column.
func (r *reading) isValue(e []string, column string) bool {
	if i := slices.Index(e, "::"); i > 0 { // a cast
		e = e[:i]
	}
	if r.insert && len(e) == 3 && is(e, 0, "excluded", ".") {
		return columnOf(e[2:]) == column && r.inserted(column)
	}
	return len(e) == 1 && e[0] == theToken
}

// inserted reports whether an INSERT of one row stores the token in a column.
func (r *reading) inserted(column string) bool {
	columns, rest := group(r.tokens)
	values, rest := group(rest)
	if more, _ := group(rest); len(rest) > 0 && rest[0] == "," && more != nil { // several rows
		return false
	}
	names, all := split(columns, ","), split(values, ",")
	for i, name := range names {
		if columnOf(name) == column && len(all) == len(names) {
			return len(all[i]) == 1 && all[i][0] == theToken || len(all[i]) > 1 && all[i][1] == "::" && all[i][0] == theToken
		}
	}
	return false
}

// group is what stands in the next parentheses, and what comes behind them; nil: there are none.
func group(tokens []string) (inside, rest []string) {
	at := slices.Index(tokens, "(")
	if at < 0 {
		return nil, nil
	}
	for end := at + 1; end < len(tokens); end++ {
		if enclosed(tokens[at : end+1]) {
			return tokens[at+1 : end], tokens[end+1:]
		}
	}
	return nil, nil
}

// columnOf is the column of an expression that is one, or COALESCE(column, 0): its name without a table; "": it is none.
func columnOf(e []string) string {
	if (is(e, 0, "coalesce", "(") || is(e, 0, "ifnull", "(")) && len(e) > 5 && is(e, len(e)-3, ",", "0", ")") {
		e = e[2 : len(e)-3]
	}
	for i, t := range e {
		if name := strings.Trim(t, "\"`[]"); (t == ".") != (i%2 == 1) || t != "." && !word.MatchString(name) {
			return ""
		}
	}
	if len(e)%2 == 0 {
		return ""
	}
	return unquoted(e[len(e)-1])
}

// tableOf is the table that the expression of a column names; "": none.
func tableOf(e []string) string {
	if i := slices.Index(e, "("); i >= 0 { // COALESCE
		e = e[i+1 : max(slices.Index(e, ","), i+1)]
	}
	if len(e) < 3 {
		return ""
	}
	return unquoted(e[len(e)-3])
}

// isStored reports whether an expression is the column that the token is stored in, and not one of another table.
func (r *reading) isStored(e []string, column string) bool {
	table := tableOf(e)
	return columnOf(e) == column && (table == "" || slices.Contains(r.tables, table))
}

var word = regexp.MustCompile(`^[A-Za-z_]\w*$`)

// compares reports whether a condition lets a row through only if its column has no greater token. One that compares both in
// another way is refused.
func (r *reading) compares(condition []string, column string) (bool, error) {
	for enclosed(condition) {
		condition = condition[1 : len(condition)-1]
	}
	if either := split(condition, "or"); len(either) == 2 { // the column IS NULL OR the comparison
		for i, c := range either {
			if n := len(c) - 2; n > 0 && is(c, n, "is", "null") && r.isStored(c[:n], column) {
				return r.compares(either[1-i], column)
			}
		}
		return false, nil
	}
	for i, op := range condition {
		if !slices.Contains([]string{"<=", ">=", "<", ">", "=", "<>", "!="}, op) {
			continue
		}
		left, right := condition[:i], condition[i+1:]
		turned := r.isValue(left, column)
		if turned {
			left, right = right, left
		}
		if !r.isStored(left, column) || !r.isValue(right, column) {
			return false, nil
		}
		if !turned && op == "<=" || turned && op == ">=" {
			return true, nil
		}
		if turned {
			return false, refusal("it compares token %s %s, and must compare token >= %s", op, column, column)
		}
		return false, refusal("it compares %s %s token, and must compare %s <= token", column, op, column)
	}
	return false, nil
}

// enclosed reports whether an expression stands in one pair of parentheses.
func enclosed(e []string) bool {
	depth := 0
	for i, t := range e {
		switch t {
		case "(":
			depth++
		case ")":
			depth--
		}
		if depth == 0 {
			return i > 0 && i == len(e)-1
		}
	}
	return false
}

func refusal(format string, args ...any) error {
	return fmt.Errorf("fence: the statement does not fence: "+format, args...)
}
