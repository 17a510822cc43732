package metrics_test

import (
	"bytes"
	"errors"
	"net/http"
	"net/http/httptest"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/engine/enginetest"
	"github.com/seed-786ebc8c/holdfast/engine/metrics"
	"github.com/seed-786ebc8c/holdfast/resp"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m, goleak.IgnoreCurrent()) }

// A source has the counters it is given.
type source struct {
	id    string
	stats engine.Stats
}

func (s source) ID() string          { return s.id }
func (s source) Stats() engine.Stats { return s.stats }

func page(t *testing.T, engines ...metrics.Source) string {
	t.Helper()
	var out bytes.Buffer
	require.NoError(t, metrics.Write(&out, engines...))
	return out.String()
}

// numbered gives every number of Stats its own value, so that one which is not written, or written
// under two names, shows.
func numbered(v reflect.Value, next *int64, values map[int64]string, path string) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			numbered(v.Field(i), next, values, path+"."+v.Type().Field(i).Name)
		}
	case reflect.Slice:
		numbered(v.Index(0), next, values, path)
	case reflect.Int64, reflect.Int:
		*next *= 2
		v.SetInt(*next)
		values[*next] = path
	case reflect.String:
		v.SetString("text of " + path)
	default:
		panic("Stats has a field that is neither number nor text: " + path)
	}
}

func TestEveryNumberOfStatsIsOnThePageOnce(t *testing.T) {
	stats := engine.Stats{Nodes: make([]resp.NodeStats, 1)}
	next, values := int64(1), map[int64]string{}
	numbered(reflect.ValueOf(&stats).Elem(), &next, values, "Stats")
	require.Less(t, next, int64(1)<<62, "too many fields for powers of two")

	seen := map[int64]int{}
	for line := range strings.Lines(page(t, source{"e", stats})) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		fields := strings.Fields(line)
		value, err := strconv.ParseInt(fields[len(fields)-1], 10, 64)
		require.NoError(t, err, line)
		seen[value]++
	}
	// Grants is written as its four parts.
	parts := stats.Grants - stats.GrantsByHandOff - stats.GrantsByMessage - stats.GrantsByPoll
	require.Equal(t, 1, seen[parts])
	for value, path := range values {
		if path == "Stats.Grants" {
			continue
		}
		require.Equal(t, 1, seen[value], path)
	}
}

var (
	comment = regexp.MustCompile(`^# (HELP holdfast_[a-z_]+ [A-Z0-9].*\.|TYPE holdfast_[a-z_]+ (counter|gauge))$`)
	value   = regexp.MustCompile(`^holdfast_[a-z_]+\{engine="([^"\\]|\\.)*"(,[a-z]+="([^"\\]|\\.)*")*\} -?\d+$`)
)

func TestThePageIsInPrometheusTextFormat(t *testing.T) {
	odd := source{"a\"b\\c\nd", engine.Stats{Nodes: []resp.NodeStats{{Addr: "[::1]:1", Version: "7"}, {Addr: "b:2"}}}}
	text := page(t, source{id: "one"}, odd)
	require.True(t, strings.HasSuffix(text, "\n"))

	typed := map[string]string{} // metric -> counter or gauge
	lines := map[string]bool{}
	current := ""
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		require.False(t, lines[line], "twice: %s", line)
		lines[line] = true
		if strings.HasPrefix(line, "#") {
			require.Regexp(t, comment, line)
			fields := strings.Fields(line)
			if current = fields[2]; fields[1] == "TYPE" {
				require.NotContains(t, typed, current)
				typed[current] = fields[3]
			}
			continue
		}
		require.Regexp(t, value, line)
		name, _, _ := strings.Cut(line, "{")
		require.Equal(t, current, name, "series of one metric stand together")
		require.Equal(t, strings.HasSuffix(name, "_total"), typed[name] == "counter", name)
	}
	require.Contains(t, text, `holdfast_held{engine="a\"b\\c\nd"} 0`)
	require.Contains(t, text, `holdfast_node_info{engine="a\"b\\c\nd",node="[::1]:1",version="7"} 1`)
}

func TestHandlerShowsALiveEngine(t *testing.T) {
	eng := enginetest.Start(t).Engine()
	ls, err := eng.Lock("orders").Acquire(t.Context())
	require.NoError(t, err)
	handler := metrics.Handler(eng)

	get := func(method string) *http.Response {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest(method, "/metrics", nil))
		return w.Result()
	}
	read := func() string {
		r := get(http.MethodGet)
		defer r.Body.Close()
		require.Equal(t, http.StatusOK, r.StatusCode)
		require.Equal(t, metrics.ContentType, r.Header.Get("Content-Type"))
		var b bytes.Buffer
		_, err := b.ReadFrom(r.Body)
		require.NoError(t, err)
		return b.String()
	}
	require.Contains(t, read(), `holdfast_held{engine="`+eng.ID()+`"} 1`+"\n")
	require.NoError(t, ls.Release(t.Context()))
	text := read()
	require.Contains(t, text, `holdfast_held{engine="`+eng.ID()+`"} 0`+"\n")
	require.Contains(t, text, `holdfast_releases_total{engine="`+eng.ID()+`"} 1`+"\n")

	r := get(http.MethodPost)
	defer r.Body.Close()
	require.Equal(t, http.StatusMethodNotAllowed, r.StatusCode)
	require.Equal(t, "GET, HEAD", r.Header.Get("Allow"))
}

type full struct{}

var errFull = errors.New("full")

func (full) Write([]byte) (int, error) { return 0, errFull }

func TestWriteReportsTheWritersError(t *testing.T) {
	require.ErrorIs(t, metrics.Write(full{}, source{id: "e"}), errFull)
}
