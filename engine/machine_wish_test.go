package engine

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/engine/internal/lockstate"
	"github.com/seed-786ebc8c/holdfast/internal/clock"
	"github.com/seed-786ebc8c/holdfast/renew"
)

// machineNow is when a test of a machine begins.
const machineNow = clock.Instant(time.Hour)

func TestMachineCareIsTheLongestOfThoseThatCount(t *testing.T) {
	const short, long = time.Second, time.Minute
	renewed := func(lease time.Duration, until clock.Instant) wish {
		return wish{set: &lockstate.Terms{Lease: lease, Watchdog: true}, until: until}
	}
	fixed := func(lease time.Duration) wish {
		return wish{set: &lockstate.Terms{Lease: lease}, trusted: machineNow}
	}
	for name, c := range map[string]struct {
		ws   wishes
		want care
	}{
		"none":                    {nil, care{}},
		"fixed":                   {wishes{fixed(short), fixed(long), fixed(short)}, care{lease: long}},
		"renewed":                 {wishes{renewed(short, 0), renewed(long, 0), renewed(short, 0)}, care{renew: true, lease: long}},
		"renewed beats fixed":     {wishes{fixed(long), renewed(short, 0), fixed(long)}, care{renew: true, lease: short}},
		"ends":                    {wishes{renewed(short, 7)}, care{true, short, 7}},
		"the first end":           {wishes{renewed(short, 7), renewed(short, 5), renewed(short, 6)}, care{true, short, 5}},
		"an end after none":       {wishes{renewed(short, 0), renewed(short, 5)}, care{true, short, 5}},
		"no end leaves the other": {wishes{renewed(short, 5), renewed(short, 0)}, care{true, short, 5}},
	} {
		require.Equal(t, c.want, c.ws.care(), name)
	}
}

func TestMachineKeepIsWhatEveryHandleNeeds(t *testing.T) {
	set := &lockstate.Terms{Lease: time.Minute, Watchdog: true}
	require.Equal(t, MinFixedLease, wishes{}.keeps().at(machineNow))
	require.Equal(t, time.Minute, wishes{{set: set}}.keeps().at(machineNow))
	fixed := wish{set: set, trusted: machineNow.Add(time.Hour)}
	require.Equal(t, renew.LeaseFor(time.Hour), wishes{{set: set}, fixed}.keeps().at(machineNow))
	require.Equal(t, renew.LeaseFor(time.Hour), wishes{fixed, {set: set}}.keeps().at(machineNow))
	require.Equal(t, MinFixedLease, wishes{fixed}.keeps().at(machineNow.Add(2*time.Hour)))
}

// A lease is whole milliseconds, so a key is kept for a little more than was granted: that is trusted by nobody.
func TestMachineALoweredHoldIsTrustedForNoMoreThanWasGranted(t *testing.T) {
	until := machineNow.Add(time.Hour + time.Microsecond)
	fixed := wish{set: &lockstate.Terms{Lease: time.Hour}, trusted: until}
	require.Equal(t, until, wishes{fixed}.keeps().trusted(machineNow))
	require.Equal(t, until, keeps{lease: time.Minute, until: until}.trusted(machineNow))
	require.Equal(t, renew.TrustUntil(machineNow, 2*time.Hour), keeps{lease: 2 * time.Hour, until: until}.trusted(machineNow))
	for waited := range 10 {
		now := machineNow.Add(time.Duration(waited) * 700 * time.Microsecond)
		require.False(t, renew.TrustUntil(now, keeps{until: until}.at(now)).Before(until), "the key lives for as long as it is trusted")
	}
}

func TestMachineHandlesThatWantTheSameShareOneWish(t *testing.T) {
	set := &lockstate.Terms{Lease: time.Minute, Watchdog: true}
	ws := wishes{{set: set, handles: 1}}
	own, limited, fixed, longer := &Lease{}, &Lease{}, &Lease{}, &Lease{}
	ws.add(own, &lockstate.Terms{Lease: time.Minute, Watchdog: true}, 1, 2)
	require.Equal(t, wishes{{set: set, handles: 2}}, ws)
	ws.add(limited, &lockstate.Terms{Lease: time.Minute, Watchdog: true, MaxHold: time.Hour}, machineNow, machineNow+5)
	ws.add(fixed, &lockstate.Terms{Lease: time.Minute}, machineNow, machineNow+5)
	ws.add(longer, &lockstate.Terms{Lease: time.Hour, Watchdog: true}, machineNow, machineNow+5)
	require.Len(t, ws, 4)
	require.Equal(t, machineNow.Add(time.Hour+5), ws[1].until, "from the answer on")
	require.Zero(t, ws[1].trusted)
	require.Equal(t, renew.TrustUntil(machineNow, time.Minute), ws[2].trusted, "from the sending on")
	require.EqualValues(t, 1, ws[3].handles)
	require.Zero(t, ws[3].until)

	require.Equal(t, 3, ws.of(longer))
	require.Equal(t, 1, ws.of(limited))
	require.Equal(t, 0, ws.of(own), "it shares one")
	require.Equal(t, 0, ws.common())
	require.Equal(t, -1, ws[1:].common())
	require.Equal(t, -1, ws[1:].of(own))

	ws.leave(own)
	require.EqualValues(t, 1, ws[0].handles)
	ws.leave(limited)
	require.Len(t, ws, 3)
	require.Same(t, fixed, ws[1].who)
	ws.leave(own)
	require.Len(t, ws, 2)
	ws.leave(own)
	require.Len(t, ws, 2, "it has none any more")
	ws.add(own, &lockstate.Terms{Lease: time.Minute, Watchdog: true, MaxHold: 1}, machineNow, machineNow)
	require.Equal(t, machineNow+1, ws[2].until)
}

func TestMachineWishThatDiffersIsNotShared(t *testing.T) {
	same := &lockstate.Terms{Lease: time.Minute, Watchdog: true}
	common := wish{set: same, handles: 1}
	require.True(t, common.same(same))
	require.False(t, common.same(&lockstate.Terms{Lease: time.Second, Watchdog: true}))
	require.False(t, common.same(&lockstate.Terms{Lease: time.Minute}))
	require.False(t, common.same(&lockstate.Terms{Lease: time.Minute, Watchdog: true, MaxHold: 1}))
	ended, ending := common, common
	ended.trusted, ending.until = 1, 1
	require.False(t, ended.same(same))
	require.False(t, ending.same(same))
}

func TestMachineStoppedHandleIsTrustedForItsOwnLease(t *testing.T) {
	set := &lockstate.Terms{Lease: time.Minute, Watchdog: true}
	far := machineNow.Add(time.Hour)
	trusted := renew.TrustUntil(machineNow, time.Minute)
	ls := &Lease{}
	ws := wishes{{set: set, handles: 2}}
	ws.stop(ls, machineNow, far)
	require.Equal(t, wishes{{set: set, handles: 1}, {who: ls, set: set, handles: 1, trusted: trusted}}, ws)
	ws.stop(ls, machineNow.Add(time.Second), far)
	require.Equal(t, trusted, ws[1].trusted, "it has ended already")
	ws.stop(&Lease{}, machineNow, machineNow.Add(1))
	require.Equal(t, machineNow.Add(1), ws[1].trusted, "no longer than the hold is")
	require.Len(t, ws, 2)
	none := wishes{{who: ls, set: set, handles: 1}}
	none.stop(&Lease{}, machineNow, far)
	require.Equal(t, wishes{{who: ls, set: set, handles: 1}}, none, "it has no wish")

	limited := wishes{{who: ls, set: set, handles: 1, until: machineNow}}
	limited.stop(ls, machineNow.Add(time.Second), far)
	require.Equal(t, wishes{{who: ls, set: set, handles: 1, trusted: trusted}}, limited, "its MaxHold had passed before")
}

func TestMachineMaxHoldEndsTheRenewalsWhenItHasPassed(t *testing.T) {
	set := &lockstate.Terms{Lease: time.Minute, Watchdog: true}
	far := machineNow.Add(time.Hour)
	ws := wishes{{set: set}, {set: set, until: machineNow}, {set: set, until: machineNow + 1}}
	require.False(t, ws.pass(machineNow-1, far))
	require.True(t, ws.pass(machineNow, far))
	require.Equal(t, wishes{{set: set}, {set: set, trusted: renew.TrustUntil(machineNow, time.Minute)}, {set: set, until: machineNow + 1}}, ws)
	require.True(t, ws.pass(machineNow.Add(time.Second), far))
	require.Equal(t, renew.TrustUntil(machineNow+1, time.Minute), ws[2].trusted, "from then on, however late it is noticed")
}

func TestMachineExtendRaisesAFixedWishOnly(t *testing.T) {
	fixed, renewed := &Lease{}, &Lease{}
	ws := wishes{{who: fixed, trusted: machineNow}, {who: renewed}}
	ws.extend(fixed, machineNow+5)
	ws.extend(fixed, machineNow+2)
	ws.extend(renewed, machineNow+5)
	ws.extend(&Lease{}, machineNow+5)
	require.Equal(t, wishes{{who: fixed, trusted: machineNow + 5}, {who: renewed}}, ws)
}
