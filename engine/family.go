package engine

import (
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
		handsOff: true, entersAs: resp.FamilyLock, spinsAs: resp.FamilySpin,
	},
	resp.FamilySpin: { // what its release says differs, not what it is
		kind: slot.KindLock, channel: slot.LockChannel,
		handsOff: true, entersAs: resp.FamilyLock, spinsAs: resp.FamilySpin, unheard: true,
	},
	resp.FamilyFenced: { // each grant has a token of the server's, so none is handed over
		kind: slot.KindFenced, channel: slot.LockChannel,
		fenced: true, entersAs: resp.FamilyFenced,
	},
	resp.FamilyRead: {
		kind: slot.KindRW, channel: slot.RWChannel, mode: resp.ModeRead,
		shared: true, entersAs: resp.FamilyRead,
	},
	resp.FamilyWrite: {
		kind: slot.KindRW, channel: slot.RWChannel, mode: resp.ModeWrite, mark: markNote,
		handsOff: true, entersAs: resp.FamilyWrite, readsToo: true,
	},
	resp.FamilyFair: { // who is next is the server's to say
		kind: slot.KindFair, channel: slot.LockChannel, ownChannel: slot.FairWaiterChannel, mark: markPlace,
		entersAs: resp.FamilyFair,
	},
}
