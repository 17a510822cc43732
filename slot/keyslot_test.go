package slot_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/internal/redistest"
	"github.com/seed-786ebc8c/holdfast/slot"
)

// TestOfAgreesWithTheServer asks a real cluster node.
func TestOfAgreesWithTheServer(t *testing.T) {
	server := redistest.Run(t, redistest.Options{Cluster: true})
	conn, err := server.Dial(t.Context())
	require.NoError(t, err)
	defer conn.Close()

	const batch = 1000
	names := serverNames(6000)
	for len(names) > 0 {
		now := names[:min(batch, len(names))]
		names = names[len(now):]
		var commands []byte
		for _, name := range now {
			commands = redistest.AppendCommand(commands, "CLUSTER", "KEYSLOT", name)
		}
		_, err := conn.Write(commands)
		require.NoError(t, err)
		for _, name := range now {
			want, err := conn.Receive(t.Context())
			require.NoError(t, err)
			require.EqualValues(t, want, slot.Of(name), "%q", name)
		}
	}
}

// serverNames returns the names known to be difficult, what each of them derives,
// and n random ones in which braces are frequent.
func serverNames(n int) []string {
	var names []string
	for _, name := range []string{
		"", "a", "a{b", "a}b", "x{}y", "}{", "{}", "{}{a}", "{{a}}", "{a}{b}", "a{t}", "{", "}", "{{}}", "{a", "}{a}",
		"\x00", "\xff{\xfe}", "замок{тег}", strings.Repeat("k", slot.MaxName),
	} {
		names = append(names, name, slot.LockChannel(name), slot.FairQueue(name), slot.LatchChannel(name),
			slot.PermitTimeouts(name), slot.ReadHold(name, "field", 1))
	}
	const alphabet = "{}{}abcdefg:0123456789\x00\xffé"
	random := rand.New(rand.NewPCG(1, 2))
	for i := range n {
		name := make([]byte, random.IntN(32))
		for j := range name {
			name[j] = alphabet[random.IntN(len(alphabet))]
		}
		names = append(names, string(name), fmt.Sprintf("order:%d", i))
	}
	return names
}
