package resp

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFollowBelievesTheNewestOfWhatSentinelsSay(t *testing.T) {
	t.Parallel()
	unreachable := &ServerError{Class: ClassUnreachable, Text: "dead"}
	unknown := &ServerError{Class: ClassOther, Text: "no such name", cause: ErrNoSuchMaster}
	noPerm := &ServerError{Class: ClassNoPerm, Text: "NOPERM"}
	says := func(addr string, epoch int64) finding { return finding{addr: addr, epoch: epoch} }
	fails := func(err *ServerError) finding { return finding{err: err} }
	for name, c := range map[string]struct {
		all   []finding
		epoch int64 // that is followed
		known int
		want  string // an address, or the text of the error
	}{
		"OneAnswers":                   {[]finding{fails(unreachable), says("a:1", 0)}, 0, 3, "a:1"},
		"TheNewest":                    {[]finding{says("old:1", 4), says("new:1", 5), says("old:1", 4)}, 4, 3, "new:1"},
		"CutOffOneIsNotBelieved":       {[]finding{says("old:1", 4)}, 5, 3, "the sentinels that answer have an older configuration"},
		"HalfIsNotEnough":              {[]finding{says("old:1", 4), says("old:1", 4)}, 5, 4, "the sentinels that answer have an older configuration"},
		"SetUpAnew":                    {[]finding{says("anew:1", 0), says("anew:1", 0)}, 5, 3, "anew:1"},
		"OneKnowsTheName":              {[]finding{fails(unknown), says("a:1", 1)}, 0, 3, "a:1"},
		"NobodyKnowsTheName":           {[]finding{fails(unreachable), fails(noPerm), fails(unknown)}, 0, 3, "no such name"},
		"Refused":                      {[]finding{fails(unreachable), fails(noPerm)}, 0, 3, "NOPERM"},
		"NobodyAnswers":                {[]finding{fails(unreachable), fails(unreachable)}, 0, 3, "no sentinel answered"},
		"TheOnlyOneSaysWhy":            {[]finding{fails(unreachable)}, 0, 1, "dead"},
		"NobodyAnswersInTime":          {nil, 7, 3, "no sentinel answered"},
		"TheSameEpochIsNoStepBackward": {[]finding{says("a:1", 7)}, 7, 9, "a:1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := choose(c.all, c.epoch, c.known)
			if got.err != nil {
				require.Equal(t, c.want, got.err.Text)
				return
			}
			require.Equal(t, c.want, got.addr)
		})
	}
}
