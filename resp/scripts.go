package resp

import (
	"crypto/sha1" //nolint:gosec // Redis names scripts by their SHA-1
	_ "embed"
	"encoding/hex"
	"strings"
)

// A script is one entry of the catalogue: Lua text and the name EVALSHA knows it by.
type script struct {
	name string
	text string
	sha  string
	at   int     // in the catalogue
	one  *script // does the same for a single key, cheaper; nil: there is none
}

// A scriptSet is a set of scripts by their places in the catalogue.
type scriptSet uint64

// set is the set of this script alone.
func (s *script) set() scriptSet { return 1 << s.at }

// newScript makes a script of its text and the fragments it has in common with others: a line "-- needs: NAME" is
// where a fragment stands.
func newScript(name, text string, fragments ...fragment) *script {
	for _, f := range fragments {
		text = strings.Replace(text, "-- needs: "+f.name+"\n", f.text, 1)
	}
	sum := sha1.Sum([]byte(text)) //nolint:gosec // as above
	return &script{name: name, text: text, sha: hex.EncodeToString(sum[:])}
}

// with says what does the same for a single key.
func (s *script) with(one *script) *script {
	s.one = one
	return s
}

// A fragment is what several scripts have.
type fragment struct{ name, text string }

var (
	//go:embed scripts/acquire.lua
	acquireText string
	//go:embed scripts/acquireone.lua
	acquireOneText string
	//go:embed scripts/reacquire.lua
	reacquireText string
	//go:embed scripts/release.lua
	releaseText string
	//go:embed scripts/releaseone.lua
	releaseOneText string
	//go:embed scripts/renew.lua
	renewText string
	//go:embed scripts/inspect.lua
	inspectText string
	//go:embed scripts/force.lua
	forceText string
	//go:embed scripts/fenced.lua
	fencedText string
	//go:embed scripts/read.lua
	readText string
	//go:embed scripts/readrenew.lua
	readRenewText string
	//go:embed scripts/readrelease.lua
	readReleaseText string
	//go:embed scripts/write.lua
	writeText string
	//go:embed scripts/writerelease.lua
	writeReleaseText string
	//go:embed scripts/fair.lua
	fairText string
	//go:embed scripts/fairrelease.lua
	fairReleaseText string
	//go:embed scripts/queue.lua
	queueText string

	//go:embed scripts/semaphore.lua
	semaphoreText string
	//go:embed scripts/semaphorerelease.lua
	semaphoreReleaseText string
	//go:embed scripts/semaphoreset.lua
	semaphoreSetText string
	//go:embed scripts/latch.lua
	latchText string
	//go:embed scripts/latchdown.lua
	latchDownText string
	//go:embed scripts/latchset.lua
	latchSetText string

	//go:embed scripts/permits.lua
	permitsText string
	//go:embed scripts/permitsrelease.lua
	permitsReleaseText string
	//go:embed scripts/permitsrenew.lua
	permitsRenewText string
	//go:embed scripts/permitsset.lua
	permitsSetText string
	//go:embed scripts/permitsleased.lua
	permitsLeasedText string

	//go:embed scripts/group.lua
	groupText string
	//go:embed scripts/groupcount.lua
	groupCountText string
	//go:embed scripts/grouprelease.lua
	groupReleaseText string
	//go:embed scripts/grouprenew.lua
	groupRenewText string
	//go:embed scripts/groupforce.lua
	groupForceText string
	//go:embed scripts/groupheld.lua
	groupHeldText string
	//go:embed scripts/barrier.lua
	barrierText string
	//go:embed scripts/barrierleave.lua
	barrierLeaveText string
	//go:embed scripts/barrierset.lua
	barrierSetText string

	//go:embed scripts/fragments/contents.lua
	contentsText string
	//go:embed scripts/fragments/longest.lua
	longestText string
	//go:embed scripts/fragments/fairqueue.lua
	fairQueueText string
	//go:embed scripts/fragments/requests.lua
	requestsText string
	//go:embed scripts/fragments/count.lua
	countText string
	//go:embed scripts/fragments/marks.lua
	marksText string
	//go:embed scripts/fragments/permits.lua
	permitsFragmentText string
	//go:embed scripts/fragments/group.lua
	groupFragmentText string
	//go:embed scripts/fragments/barrier.lua
	barrierFragmentText string
	//go:embed scripts/fragments/each.lua
	eachText string
	//go:embed scripts/fragments/renewed.lua
	renewedText string
)

var (
	fragmentContents  = fragment{"contents", contentsText}
	fragmentLongest   = fragment{"longest", longestText} // needs contents
	fragmentFairQueue = fragment{"fairqueue", fairQueueText}
	fragmentRequests  = fragment{"requests", requestsText}
	fragmentCount     = fragment{"count", countText}
	fragmentMarks     = fragment{"marks", marksText} // needs count
	fragmentPermits   = fragment{"permits", permitsFragmentText}
	fragmentGroup     = fragment{"group", groupFragmentText}
	fragmentBarrier   = fragment{"barrier", barrierFragmentText}
	fragmentEach      = fragment{"each", eachText}
	fragmentRenewed   = fragment{"renewed", renewedText}
)

// The catalogue is constant: scripts are texts of this package, put together before anything runs.
var (
	scriptAcquireOne = newScript("acquireone", acquireOneText)
	scriptReleaseOne = newScript("releaseone", releaseOneText)

	scriptAcquire   = newScript("acquire", acquireText).with(scriptAcquireOne)
	scriptReacquire = newScript("reacquire", reacquireText, fragmentLongest, fragmentContents)
	scriptRelease   = newScript("release", releaseText).with(scriptReleaseOne)
	scriptRenew     = newScript("renew", renewText)
	scriptInspect   = newScript("inspect", inspectText, fragmentContents)
	scriptForce     = newScript("force", forceText)

	scriptFenced       = newScript("fenced", fencedText)
	scriptRead         = newScript("read", readText)
	scriptReadRenew    = newScript("readrenew", readRenewText, fragmentRenewed)
	scriptReadRelease  = newScript("readrelease", readReleaseText, fragmentLongest, fragmentContents, fragmentEach)
	scriptWrite        = newScript("write", writeText)
	scriptWriteRelease = newScript("writerelease", writeReleaseText, fragmentLongest, fragmentContents, fragmentEach)
	scriptFair         = newScript("fair", fairText, fragmentFairQueue)
	scriptFairRelease  = newScript("fairrelease", fairReleaseText, fragmentFairQueue, fragmentEach)
	scriptQueue        = newScript("queue", queueText)

	scriptSemaphore        = newScript("semaphore", semaphoreText, fragmentRequests, fragmentCount)
	scriptSemaphoreRelease = newScript("semaphorerelease", semaphoreReleaseText, fragmentRequests, fragmentEach)
	scriptSemaphoreSet     = newScript("semaphoreset", semaphoreSetText, fragmentCount)
	scriptLatch            = newScript("latch", latchText, fragmentRequests, fragmentCount, fragmentMarks)
	scriptLatchDown        = newScript("latchdown", latchDownText, fragmentRequests, fragmentCount, fragmentMarks,
		fragmentEach)
	scriptLatchSet = newScript("latchset", latchSetText, fragmentRequests, fragmentCount, fragmentMarks)

	scriptPermits        = newScript("permits", permitsText, fragmentPermits, fragmentCount)
	scriptPermitsRelease = newScript("permitsrelease", permitsReleaseText, fragmentPermits, fragmentCount, fragmentEach)
	scriptPermitsRenew   = newScript("permitsrenew", permitsRenewText, fragmentPermits, fragmentRenewed)
	scriptPermitsSet     = newScript("permitsset", permitsSetText, fragmentPermits, fragmentCount)
	scriptPermitsLeased  = newScript("permitsleased", permitsLeasedText)

	scriptGroup        = newScript("group", groupText, fragmentGroup)
	scriptGroupCount   = newScript("groupcount", groupCountText, fragmentGroup)
	scriptGroupRelease = newScript("grouprelease", groupReleaseText, fragmentGroup, fragmentEach)
	scriptGroupRenew   = newScript("grouprenew", groupRenewText, fragmentGroup, fragmentRenewed)
	scriptGroupForce   = newScript("groupforce", groupForceText, fragmentGroup)
	scriptGroupHeld    = newScript("groupheld", groupHeldText, fragmentGroup)
	scriptBarrier      = newScript("barrier", barrierText, fragmentBarrier)
	scriptBarrierLeave = newScript("barrierleave", barrierLeaveText, fragmentBarrier, fragmentEach)
	scriptBarrierSet   = newScript("barrierset", barrierSetText, fragmentBarrier)

	catalogue = numbered(
		scriptAcquire, scriptReacquire, scriptRelease, scriptRenew, scriptInspect, scriptForce,
		scriptFenced, scriptRead, scriptReadRenew, scriptReadRelease, scriptWrite, scriptWriteRelease,
		scriptFair, scriptFairRelease, scriptQueue,
		scriptSemaphore, scriptSemaphoreRelease, scriptSemaphoreSet, scriptLatch, scriptLatchDown, scriptLatchSet,
		scriptPermits, scriptPermitsRelease, scriptPermitsRenew, scriptPermitsSet, scriptPermitsLeased,
		scriptGroup, scriptGroupCount, scriptGroupRelease, scriptGroupRenew, scriptGroupForce, scriptGroupHeld,
		scriptBarrier, scriptBarrierLeave, scriptBarrierSet,
		scriptAcquireOne, scriptReleaseOne,
	)
)

// usualScripts are what each new connection brings along, whatever was used: those of the plain lock. The others are
// loaded when they are called for the first time.
func usualScripts() scriptSet {
	return scriptAcquire.set() | scriptAcquireOne.set() | scriptReacquire.set() | scriptRelease.set() |
		scriptReleaseOne.set() | scriptRenew.set()
}

// numbered tells scripts their places.
func numbered(all ...*script) []*script {
	for i, s := range all {
		s.at = i
	}
	return all
}

// ScriptTexts returns the Lua text of every script by its name: for benchmarks that send the same
// scripts without the engine, and for operators who grant rights by what the scripts call.
func ScriptTexts() map[string]string {
	texts := make(map[string]string, len(catalogue))
	for _, s := range catalogue {
		texts[s.name] = s.text
	}
	return texts
}
