package engine

import (
	"github.com/seed-786ebc8c/holdfast/engine/internal/lockstate"
	"github.com/seed-786ebc8c/holdfast/resp"
	"github.com/seed-786ebc8c/holdfast/slot"
)

// families is the table: one row a family. No other place in the engine asks which family it is; resp has a table of
// its own, for what travels. ARCHITECTURE.md, "To add a family", says what else there is to do.
//
//nolint:gochecknoglobals // a constant in all but name
var families = [resp.MaxFamilies]family{
	resp.FamilyLock: {
		kind: slot.KindLock, channel: slot.LockChannel,
		Traits: lockstate.Traits{Enters: uint8(resp.FamilyLock), HandsOff: true}, spinsAs: resp.FamilySpin, lingers: true,
		alone: true,
	},
	resp.FamilySpin: { // what its release says differs, not what it is
		kind: slot.KindLock, channel: slot.LockChannel,
		Traits: lockstate.Traits{Enters: uint8(resp.FamilyLock), HandsOff: true}, spinsAs: resp.FamilySpin, unheard: true,
		alone: true,
	},
	resp.FamilyFenced: { // each grant has a token of the server's, so none is handed over
		kind: slot.KindFenced, channel: slot.LockChannel,
		Traits: lockstate.Traits{Enters: uint8(resp.FamilyFenced)}, fenced: true, alone: true,
	},
	resp.FamilyRead: {
		kind: slot.KindRW, channel: slot.RWChannel,
		Traits: lockstate.Traits{
			Enters: uint8(resp.FamilyRead), Object: lockstate.ObjectPair, Mode: resp.ModeRead, Shared: true,
		},
	},
	resp.FamilyWrite: {
		kind: slot.KindRW, channel: slot.RWChannel,
		Traits: lockstate.Traits{
			Enters: uint8(resp.FamilyWrite), Object: lockstate.ObjectPair, Mode: resp.ModeWrite, Mark: lockstate.MarkNote,
			HandsOff: true, ReadsToo: true,
		},
	},
	resp.FamilyFair: { // who is next is the server's to say
		kind: slot.KindFair, channel: slot.LockChannel, ownChannel: slot.FairWaiterChannel,
		Traits: lockstate.Traits{Enters: uint8(resp.FamilyFair), Mark: lockstate.MarkPlace},
	},
	resp.FamilyPermits: { // each grant has ids of its own, and a lease
		kind: slot.KindPermitSemaphore, channel: slot.SemaphoreChannel, fixed: true,
		Traits: lockstate.Traits{
			Enters: uint8(resp.FamilyPermits), Object: lockstate.ObjectPermits, HandsOff: true, Many: true,
		},
	},
	resp.FamilySemaphore: { // a grant is for as many waiters as there are permits for, and leaves no hold
		kind: slot.KindSemaphore, channel: slot.SemaphoreChannel,
		Traits: lockstate.Traits{
			Enters: uint8(resp.FamilySemaphore), Object: lockstate.ObjectSemaphore, Serves: lockstate.ServesSome,
		},
	},
	resp.FamilyLatch: { // a grant takes nothing: it says that the latch is open
		kind: slot.KindLatch, channel: slot.LatchChannel, channelInCluster: slot.LatchChannelInCluster,
		Traits: lockstate.Traits{
			Enters: uint8(resp.FamilyLatch), Object: lockstate.ObjectLatch, Serves: lockstate.ServesAll,
		},
	},
	resp.FamilyGroup: { // a name is a group and values of it: other values of the group are other names
		kind: slot.KindLock, channel: slot.GroupChannel, parts: true,
		Traits: lockstate.Traits{Enters: uint8(resp.FamilyGroup), HandsOff: true},
	},
	resp.FamilyBarrier: { // nobody is granted anything: who waits is told what has become of its generation
		kind: slot.KindBarrier, channel: slot.BarrierChannel, meets: true,
		Traits: lockstate.Traits{
			Enters: uint8(resp.FamilyBarrier), Object: lockstate.ObjectBarrier, Serves: lockstate.ServesAll,
		},
	},
}
